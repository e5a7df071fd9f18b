/** What Temporal knows about one deployment, as samples of metrics. It is read with the gateway's own rights: list, describe, query. */
import type { Client, WorkflowExecutionInfo } from '@temporalio/client';
import { isGrpcServiceError } from '@temporalio/client';
import { RUNBOOK_NAMES } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { walSamplerIdPrefix, walSampling } from '../../contracts/observations';
import type { SampledCluster, WalSample } from '../../contracts/observations';
import { readinessResult, readinessVerdict } from '../../contracts/readiness';
import type { ReadinessResult } from '../../contracts/readiness';
import { isRecordState, RECORD_QUERY, recordWorkflowId } from '../../contracts/record';
import { RUN_PHASES } from '../../contracts/run-facts';
import { QUERIES } from '../../contracts/signals';
import type { Deployment } from '../../inventory';
import { seconds } from './names';
import type { MetricName, Sample } from './names';

/** For one call to Temporal. A scrape waits no longer. */
const CALL_MS = 2_500;
const MOST_OPEN = 500;
const MOST_ENDED = 300;
/** Runs that ended without a result, such as stopped ones, before the newest that has one. */
const MOST_WITHOUT_RESULT = 5;
const ENDED_WITHIN_MS = 24 * 3_600_000;
/** gRPC's code NOT_FOUND. */
const NOT_FOUND = 5;

type Run = Omit<WorkflowExecutionInfo, 'raw'>;

/** Reads one deployment. What a run that has ended says never changes: it is read once. */
export class Readings {
  /** By query: of the run that was the newest. */
  readonly #latest = new Map<string, { readonly runId: string; readonly samples: readonly Sample[] }>();
  /** By Run ID. */
  readonly #said = new Map<string, unknown>();

  constructor(
    private readonly client: Client,
    private readonly taskQueue: string,
  ) {}

  /** The newest result of `readiness`. */
  async readiness({ name: deployment }: Deployment): Promise<readonly Sample[]> {
    const query = `WorkflowId = "readiness:${deployment}" AND ExecutionStatus = "Completed"`;
    const none = [sample('runbooks_readiness_timestamp_seconds', { deployment }, 0)];
    return this.#newest(query, none, (result) => {
      const found = readinessResult.safeParse(result);
      return found.success && found.data.deployment === deployment ? readinessOf(found.data) : undefined;
    });
  }

  /** The newest sample of `walSampler`. */
  async samples(deployment: Deployment): Promise<readonly Sample[]> {
    const { name } = deployment;
    const query = `WorkflowType = "walSampler" AND ExecutionStatus = "Completed" AND WorkflowId STARTS_WITH "${walSamplerIdPrefix(name)}"`;
    const none = [sample('runbooks_sample_timestamp_seconds', { deployment: name }, 0)];
    return this.#newest(query, none, (result) => {
      const found = walSampling.safeParse(result);
      const last = found.success && found.data.deployment === name ? found.data.samples.at(-1) : undefined;
      return last && samplesOf(deployment, last);
    });
  }

  /** Open runs, what they wait for, and whom runs could not notify. */
  async runs({ name: deployment, notifications }: Deployment): Promise<readonly Sample[]> {
    const open: Run[] = [];
    const types = RUNBOOK_NAMES.map((each) => `"${each}"`).join(', ');
    const ours = `WorkflowType IN (${types}) AND TaskQueue = "${this.taskQueue}"`;
    for await (const run of this.#list(`${ours} AND ExecutionStatus = "Running"`, MOST_OPEN))
      if (run.memo?.['deployment'] === deployment) open.push(run);
    const reports = await Promise.all(open.map(async (run) => ({ run, report: await this.#reportOf(run) })));
    const since = new Date(Date.now() - ENDED_WITHIN_MS).toISOString();
    const ended: unknown[] = [];
    // A sampler has no report, and there are many.
    const quiet = `WorkflowType != "walSampler" AND CloseTime > "${since}"`;
    for await (const run of this.#list(`${ours} AND ExecutionStatus = "Completed" AND ${quiet}`, MOST_ENDED))
      if (run.memo?.['deployment'] === deployment) ended.push(await this.#findingsOf(run));
    const parked = reports.flatMap(({ report }) => parkedSince(report));
    const outages = open.flatMap(({ memo }) => timesIn([memo?.['outageSince']]));
    const all = [...reports.map(({ report }) => report), ...ended];
    return [
      ...counted(open.map((run) => ({ deployment, runbook: runbookOf(run), phase: phaseOf(run) }))),
      sample('runbooks_parked_since_timestamp_seconds', { deployment }, seconds(earliest(parked))),
      sample('runbooks_outage_since_timestamp_seconds', { deployment }, seconds(earliest(outages))),
      ...notifications.map(({ name: target }) => {
        const failed = all.filter((report) => couldNotNotify(report, target)).length;
        return sample('runbooks_notification_failed_runs', { deployment, target }, failed);
      }),
    ];
  }

  /** What the record says about tokens. A worker answers. */
  async record({ name: deployment, clusters }: Deployment): Promise<readonly Sample[]> {
    const held = await this.#within(() =>
      this.client.workflow
        .getHandle(recordWorkflowId(deployment))
        .query<unknown>(RECORD_QUERY)
        // There is none until something is written.
        .catch((error: unknown) => {
          if (isNotFound(error)) return { entries: {} };
          throw error;
        }),
    );
    if (!isRecordState(held)) throw new Error('not a record');
    const entries = Object.entries(held.entries);
    const states = entries.flatMap(([key, { value }]) => (key.startsWith('token:') ? [textIn(value, 'state')] : []));
    const tokens = TOKEN_STATES.map((state) =>
      sample('runbooks_tokens', { deployment, state }, states.filter((each) => each === state).length),
    );
    const batch = entries.flatMap(([key, { value }]) => {
      const [kind, cluster = ''] = key.split(':');
      const [endsAt] = timesIn([textIn(value, 'endsAt')]);
      if (kind !== 'batch-token' || !clusters.has(cluster) || endsAt === undefined) return [];
      return [expiry({ deployment, cluster, credential: 'batch-token' }, endsAt)];
    });
    return [...tokens, ...batch];
  }

  async *#list(query: string, most: number): AsyncGenerator<Run> {
    const listed = this.client.workflow.list({ query, pageSize: most });
    let count = 0;
    const iterator = listed[Symbol.asyncIterator]();
    for (;;) {
      const next: IteratorResult<Run, unknown> = await this.#within(() => iterator.next());
      if (next.done === true || count === most) return;
      count += 1;
      yield next.value;
    }
  }

  /** What the newest run has that has any of it. A result is parsed once. */
  async #newest(
    query: string,
    none: readonly Sample[],
    read: (result: unknown) => readonly Sample[] | undefined,
  ): Promise<readonly Sample[]> {
    for await (const run of this.#list(query, MOST_WITHOUT_RESULT)) {
      const known = this.#latest.get(query);
      if (known?.runId === run.runId) return known.samples;
      const samples = read(resultIn(await this.#resultOf(run)));
      if (samples === undefined) continue;
      this.#latest.set(query, { runId: run.runId, samples });
      return samples;
    }
    return none;
  }

  /** The result of a run that completed, from its history: no worker is needed. */
  #resultOf({ workflowId, runId }: Run): Promise<unknown> {
    return this.#within(() => this.client.workflow.getHandle(workflowId, runId, { followRuns: false }).result());
  }

  /** The findings of a run that completed: read once, and only they are kept. One that cannot be read hides no other. */
  async #findingsOf(run: Run): Promise<unknown> {
    const { runId } = run;
    if (this.#said.has(runId)) return this.#said.get(runId);
    const report = await this.#resultOf(run).catch(() => undefined);
    const said = { findings: membersOf(report, 'findings') };
    const [oldest] = this.#said.keys();
    if (this.#said.size > 5 * MOST_ENDED && oldest !== undefined) this.#said.delete(oldest);
    if (report !== undefined) this.#said.set(runId, said);
    return said;
  }

  /** The report of an open run. Undefined if no worker answers. A sampler has none. */
  async #reportOf({ workflowId, runId, type }: Run): Promise<unknown> {
    if (type === 'walSampler') return undefined;
    const handle = this.client.workflow.getHandle(workflowId, runId);
    return this.#within(() => handle.query<unknown>(QUERIES.report)).catch(() => undefined);
  }

  #within<T>(call: () => Promise<T>): Promise<T> {
    return this.client.withDeadline(Date.now() + CALL_MS, call);
  }
}

/** The verdicts, by what the metric counts them as. */
const LEVELS = [...readinessVerdict.options].reverse();
/** As the record has them. */
const TOKEN_STATES = ['under-way', 'alive', 'kept', 'orphan', 'handed-over'];

function readinessOf({ deployment, at, credentials = [], ...verdicts }: ReadinessResult): Sample[] {
  return [
    ...(['switchover', 'failover'] as const).map((question) =>
      sample('runbooks_readiness', { deployment, question }, LEVELS.indexOf(verdicts[question])),
    ),
    sample('runbooks_readiness_timestamp_seconds', { deployment }, seconds(Date.parse(at))),
    ...credentials.map(({ cluster, expiresAt }) =>
      expiry({ deployment, cluster, credential: 'workers-token' }, Date.parse(expiresAt)),
    ),
  ];
}

const sample = (metric: MetricName, labels: Sample['labels'], value: number): Sample => ({ metric, labels, value });

/** @param at - epoch milliseconds */
export const expiry = (labels: Sample['labels'], at: number): Sample =>
  sample('runbooks_credential_expires_timestamp_seconds', labels, seconds(at));

const resultIn = (report: unknown): unknown => (report as { readonly result?: unknown } | undefined)?.result;

function textIn(value: unknown, member: string): string | undefined {
  const found: unknown = (value as Readonly<Record<string, unknown>> | null)?.[member];
  return typeof found === 'string' ? found : undefined;
}

function isNotFound(error: unknown): boolean {
  const named = error instanceof Error && error.name === 'WorkflowNotFoundError';
  return named || (isGrpcServiceError(error) && Number(error.code) === NOT_FOUND);
}

const timesIn = (texts: readonly unknown[]): number[] =>
  texts.map((text) => (typeof text === 'string' ? Date.parse(text) : Number.NaN)).filter(Number.isFinite);

/** 0 if there is none. */
const earliest = (times: readonly number[]): number => (times.length === 0 ? 0 : Math.min(...times));

function membersOf(report: unknown, list: 'parkings' | 'findings'): readonly unknown[] {
  const found: unknown = (report as Readonly<Record<string, unknown>> | undefined)?.[list];
  return Array.isArray(found) ? found : [];
}

function parkedSince(report: unknown): number[] {
  const waiting = membersOf(report, 'parkings').filter((each) => {
    const { decision, endedAt } = each as { readonly decision?: unknown; readonly endedAt?: unknown };
    return decision === undefined && endedAt === undefined;
  });
  return timesIn(waiting.map((each) => textIn(each, 'at')));
}

/** The finding of a run names the target first. */
function couldNotNotify(report: unknown, target: string): boolean {
  return membersOf(report, 'findings').some(
    (each) => textIn(each, 'code') === 'notification-failed' && textIn(each, 'text')?.startsWith(`${target} (`),
  );
}

/** A run may have become a failover. Whoever writes to the namespace chooses the memo: only known names count. */
function runbookOf({ memo, type }: Run): RunbookName {
  const known = RUNBOOK_NAMES.find((each) => each === memo?.['runbook']) ?? RUNBOOK_NAMES.find((each) => each === type);
  return known ?? 'readiness';
}

function phaseOf({ memo }: Run): string {
  return RUN_PHASES.find((each) => each === memo?.['phase']) ?? 'not-picked-up';
}

function counted(runs: readonly Sample['labels'][]): Sample[] {
  const counts = new Map<string, number>();
  for (const labels of runs) counts.set(JSON.stringify(labels), (counts.get(JSON.stringify(labels)) ?? 0) + 1);
  return [...counts].map(([labels, count]) =>
    sample('runbooks_runs_open', JSON.parse(labels) as Sample['labels'], count),
  );
}

const KINDS = ['dr', 'performance'] as const;

/** What one sample of the WAL indexes says. Pure. */
export function samplesOf(
  { name: deployment, clusters, drSets }: Deployment,
  { at, clusters: all }: WalSample,
): Sample[] {
  const sampled = all.filter(({ cluster }) => clusters.has(cluster));
  const answers = sampled.map(({ cluster, answered }) =>
    sample('runbooks_cluster_answers', { deployment, cluster }, Number(answered)),
  );
  const primaries = [...drSets].flatMap(([drSet, members]) => {
    // A set of one does not replicate.
    if (members.length < 2) return [];
    const count = sampled.filter(({ cluster, dr }) => members.includes(cluster) && dr?.mode === 'primary').length;
    return [sample('runbooks_dr_primaries', { deployment, dr_set: drSet }, count)];
  });
  const replication = sampled.flatMap((each) =>
    KINDS.flatMap((kind) => replicationOf(deployment, at, sampled, each, kind)),
  );
  const taken = sample('runbooks_sample_timestamp_seconds', { deployment }, seconds(at));
  return [taken, ...answers, ...primaries, ...replication];
}

function replicationOf(
  deployment: string,
  at: number,
  all: readonly SampledCluster[],
  { cluster, ...each }: SampledCluster,
  kind: (typeof KINDS)[number],
): Sample[] {
  const own = each[kind];
  if (own === undefined) return [];
  const labels = { deployment, cluster, kind };
  const { mode, setId, connected, heartbeatAgeMs, canaryAgeMs, lastRemoteWal } = own;
  const secondary = mode === 'secondary';
  // WAL indexes of different sets are not comparable.
  const [primary, another] = all.filter((other) => other[kind]?.mode === 'primary' && other[kind].setId === setId);
  const written = another === undefined ? primary?.[kind]?.lastWal : undefined;
  const lag =
    secondary && written !== undefined && lastRemoteWal !== undefined
      ? Math.max(0, Number(BigInt(written) - BigInt(lastRemoteWal)))
      : undefined;
  const values: readonly (readonly [MetricName, number | undefined])[] = [
    ['runbooks_replication_connected', secondary ? Number(connected === true) : undefined],
    ['runbooks_replication_lag_entries', lag],
    ['runbooks_heartbeat_timestamp_seconds', heartbeatAgeMs === undefined ? undefined : seconds(at - heartbeatAgeMs)],
    ['runbooks_canary_timestamp_seconds', canaryAgeMs === undefined ? undefined : seconds(at - canaryAgeMs)],
  ];
  return values.flatMap(([metric, value]) => (value === undefined ? [] : [sample(metric, labels, value)]));
}
