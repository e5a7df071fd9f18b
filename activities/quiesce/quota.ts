import type { Authority, ChangeResult, OfKind, OnCluster, QuotasBefore } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { deploymentWorkflowId, quotaName } from '../../src/contracts/names';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { attest, isAttested } from '../../src/keys';
import type { RunContext } from '../../src/keys';
import { verifyBeginning } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import type { ActivityContext, Execution } from '../execution';
import { currentExecution, onCluster } from '../execution';
import { readStatus } from '../observe';
import { ROLE_TIMEOUT_MS, awaitState, readActConfirm, resultOf, withCredential } from '../read-act-confirm';
import { awaitIdentityOf } from '../tokens/operation-token';
import { markerPaths } from '../tokens/policies';
import { refuseWhileDemoting } from './releases';

/*
 * A rate-limit quota of the service stops the clients (facts 12). Each node counts separately, and admits one request
 * per interval. With one bucket for all clients, that one is a request of ours.
 */

const LIMIT = { rate: 0.0001, interval: '1m', groupBy: 'none' } as const;
const INTERVAL_S = 60;
/** How long after its creation a quota admits only our probes, ms: well below its interval. */
export const QUOTA_HOLDS_MS = 45_000;
/** Only quotas with such names are written or deleted, by runs that hold the lock of the deployment. */
const OURS = /^runbooks-/;

/** Paths that runs call while clients are stopped (facts 12.4). Without `sys/quotas` the quota could not be removed. */
const CALLED_BY_RUNS = [
  ...['sys/quotas', 'sys/health', 'sys/seal-status', 'sys/unseal', 'sys/leader', 'sys/replication'],
  ...['sys/generate-root', 'sys/storage/raft', 'sys/capabilities-self', 'sys/internal/ui/mounts'],
  ...['auth/token/lookup-self', 'auth/token/renew-self', 'auth/token/revoke-self'],
];

/** The paths of the workers' logins at mounts that are theirs alone, or at mounts where applications may log in too. */
export function loginPaths({ clusters }: Pick<Deployment, 'clusters'>, own: boolean): string[] {
  const paths = [...clusters.values()].flatMap(({ credential }) =>
    'method' in credential && credential.ownMount === own ? [`auth/${credential.mount}/login`] : [],
  );
  return [...new Set(paths)];
}

/**
 * The path prefixes that are exempt from the quota: calls, logins and marker of runs, and those of the inventory. Every
 * login writes (facts 13.8): where applications log in too, a login path that is exempt would let them write.
 */
export function exemptPaths(site: Pick<Deployment, 'marker' | 'quiesce' | 'clusters'>) {
  const { marker, quiesce } = site;
  const markers = [marker.path, `${marker.path}-after`].flatMap(markerPaths);
  return [...new Set([...CALLED_BY_RUNS, ...loginPaths(site, true), ...markers, ...quiesce.exempt])];
}

/** Quotas that are not ours: while there are any, ours would not stop all clients (facts 12.5). */
export function foreignQuotas(names: readonly string[] | undefined): string[] {
  return (names ?? []).filter((name) => !OURS.test(name));
}

/** Reads what is needed to undo the quota, before any change. The result in the history outlives every worker. */
export async function readQuotas(input: OnCluster): Promise<QuotasBefore> {
  const { signal, access } = onCluster(input);
  const config = await access.client.sys.quotaConfig({ token: await access.credential(), signal });
  const { absoluteRateLimitExemptPaths: absolute } = config;
  const exempt = config.rateLimitExemptPaths;
  const read = { exempt, ...(absolute && { absolute }), auditLogging: config.enableRateLimitAuditLogging };
  const { sealKeyring, run } = currentExecution();
  const at = Date.now();
  return { ...read, at, attested: attest(sealKeyring, ...marked(run, input, { ...read, at })) };
}

function marked({ ns, wid, rid }: RunContext, { deployment, cluster }: OnCluster, quotas: QuotasBefore) {
  const { exempt, absolute, auditLogging, at = 0 } = quotas;
  const content = { ns, wid, rid, cluster, exempt, ...(absolute && { absolute }), auditLogging };
  return [{ deployment, kind: 'quotas-before', time: at }, content] as const;
}

/** Whether a worker read this configuration for this run: the list of exempt paths comes back through Temporal. */
function isMarked({ sealKeyring, run }: ActivityContext, on: OnCluster, quotas: QuotasBefore): boolean {
  return isAttested(sealKeyring, ...marked(run, on, quotas), quotas.attested);
}

/** Stops the clients of a primary, and verifies that each node refuses them. */
export async function quiesceByQuota(
  input: OnCluster & OfKind & { readonly otherCluster: string; readonly authority: Authority },
): Promise<ChangeResult> {
  const { deployment, kind, otherCluster } = input;
  const { execution, clusters, limits, access } = onCluster(input);
  const [on, candidate] = await Promise.all([
    awaitIdentityOf(access, limits.demoteMs),
    awaitIdentityOf(clusters.of(deployment, otherCluster), limits.demoteMs),
  ]);
  const gate = kind === 'dr' ? 'plan' : 'promote';
  await verifyBeginning(input, { kind, endpoint: 'quotas/rate-limit', gate, on, with: candidate });
  // It may be sent again at any time: the target state is the same from every starting point.
  execution.doubt.mayHaveSent = false;
  await refuseWhileDemoting('The quota was not created again');
  // Not left to the hold, whose failure releases: there it would touch the quotas of the primary.
  await refuseSecondary(access, execution.signal);
  await logInBefore(execution, access);
  const calledAt = Date.now();
  const { observed } = await holdByQuota(execution, access).catch(async (error: unknown): Promise<never> => {
    if (isRunbookError(error) && error.code !== 'REQUEST_CANCELLED') await releaseAfterFailure(execution, access);
    throw error;
  });
  return resultOf({ outcome: 'done', calledAt, calls: 1 }, observed);
}

/**
 * The worker's tokens for all clusters, while logins are not refused yet: each is valid for minutes, and renewals are
 * exempt. A cluster outside of the DR set that serves no login now needs none until it follows.
 */
async function logInBefore({ clusters, signal }: ActivityContext, { entry }: ClusterAccess): Promise<void> {
  const { deployment, drSet } = entry;
  const ifSilent = orElse(signal, () => undefined);
  const every = [...clusters.deployment(deployment).clusters.values()].map((each) => {
    const token = clusters.of(deployment, each.name).credential();
    return each.drSet === drSet ? token : token.catch(ifSilent);
  });
  await Promise.all(every);
}

/** Clients must not stay quiesced until a person decides. If this fails, the end of the run releases them. */
async function releaseAfterFailure(execution: Execution, access: ClusterAccess): Promise<void> {
  try {
    await execution.assertCurrentAttempt();
    await access.client.sys.deleteRateLimitQuota(quotaName(execution.run.rid), await changingSoon(access, execution));
  } catch (error) {
    if (!isRunbookError(error)) throw error;
  }
}

/** In an outage another attempt begins soon (decision 21): by then no call of this one may be in flight. */
async function changingSoon(access: ClusterAccess, execution: Execution) {
  return { ...(await withCredential(access, execution)), timeoutMs: ROLE_TIMEOUT_MS };
}

/**
 * Creates the quota; an existing one is replaced, so that its buckets start empty. First the paths that must keep
 * working are exempted and read back. Then the quota is created and read back. Then every node that answers must refuse
 * a request of ours.
 *
 * @returns the evidence that clients are refused. `since`: a time before the quota existed, ms of `performance.now()`
 */
export async function holdByQuota(execution: Execution, access: ClusterAccess) {
  const { clusters, run, signal } = currentExecution();
  const { entry, client } = access;
  const { sys } = client;
  const name = quotaName(run.rid);
  const reading = { token: await access.credential(), signal };
  const changing = await changingSoon(access, execution);
  const { deployment } = entry;
  const about = clusters.deployment(deployment);
  await refuseSecondary(access, signal);
  const taking = await clustersServingClients(about, access, (each) => clusters.of(deployment, each), signal);
  const names = await sys.rateLimitQuotas(reading);
  const others = foreignQuotas(names);
  if (others.length > 0) throw notAlone(entry.name, others);
  const wanted = exemptPaths(about);
  const config = await sys.quotaConfig(reading);
  const missing = wanted.filter((path) => !config.rateLimitExemptPaths.includes(path));
  if (missing.length > 0) {
    await execution.assertCurrentAttempt();
    const rateLimitExemptPaths = [...config.rateLimitExemptPaths, ...missing];
    await sys.writeQuotaConfig({ ...config, rateLimitExemptPaths }, changing);
  }
  const { rateLimitExemptPaths: exempt, enableRateLimitResponseHeaders } = await sys.quotaConfig(reading);
  if (!wanted.every((path) => exempt.includes(path)) || enableRateLimitResponseHeaders)
    throw unfit(
      entry.name,
      'its quota configuration is not the one that was written',
      'every path exempt, and no response headers',
    );
  await execution.assertCurrentAttempt();
  if (names?.includes(name)) await sys.deleteRateLimitQuota(name, changing);
  const since = performance.now();
  await sys.createRateLimitQuota({ name, ...LIMIT }, changing).catch((error: unknown) => {
    throw isRunbookError(error, 'BAD_REQUEST') ? unfit(entry.name, error.message, ONE_BUCKET) : error;
  });
  const made = await sys.rateLimitQuota(name, reading);
  if (made === undefined || made.path !== undefined || made.groupBy !== 'none' || made.interval !== INTERVAL_S)
    throw unfit(entry.name, `${name}: ${JSON.stringify(made ?? 'missing')}`, ONE_BUCKET);
  const nodes = await awaitRefusals(execution, taking);
  return { observed: `${name}: clients are refused with 429 by ${nodes.join(', ')}`, since };
}

/**
 * Quotas that are written on a performance secondary are forwarded to its primary (facts 13.7).
 *
 * @throws RunbookError PRECONDITION_FAILED: the quota would stop the clients of the whole performance set
 */
async function refuseSecondary(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  const { entry } = access;
  const { mode } = await readStatus(access, 'performance', signal);
  if (mode !== 'secondary') return;
  throw new RunbookError('PRECONDITION_FAILED', `No quota was created on ${entry.name}.`, {
    cluster: entry.name,
    observed: 'a performance secondary',
    ...OWN_CLIENTS,
  });
}

/** What a cluster needs on which a quota is to stop clients. */
export const OWN_CLIENTS = {
  needed:
    'no performance secondary: its primary would store the quota, and refuse the clients of the whole performance set',
  next: 'Quiesce by hook (hooks.quiesce and hooks.release), or start again with {"quiesce": "attested"}.',
};

const ONE_BUCKET =
  'one bucket for all clients (group_by "none", Enterprise): otherwise each client address gets its own request';

function notAlone(cluster: string, others: readonly string[]): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${cluster} has other rate-limit quotas.`, {
    cluster,
    observed: others.join(', '),
    needed: 'no other rate-limit quota: one with a path overrides ours, and admits its clients',
    next: 'Quiesce by hook instead (hooks.quiesce and hooks.release), or remove these quotas for the duration of the run.',
  });
}

function unfit(cluster: string, observed: string, needed: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `A rate-limit quota on ${cluster} does not stop its clients.`, {
    ...{ cluster, observed, needed },
    next: 'Start again with {"quiesce": "hook"} or {"quiesce": "attested"}.',
  });
}

/** The clusters whose clients write to the primary: itself, and its performance secondaries, which forward writes. */
export async function clustersServingClients(
  { clusters }: Deployment,
  primary: ClusterAccess,
  access: (cluster: string) => ClusterAccess,
  signal: AbortSignal,
) {
  // A DR secondary serves no client requests.
  const others = [...clusters.values()].filter(({ drSet }) => drSet !== primary.entry.drSet);
  const secondaries = await Promise.all(
    others.map(async ({ name }) => {
      const each = access(name);
      const ifSilent = orElse(signal, (error): never => {
        throw error.with({
          cluster: name,
          observed: `${name}: ${error.code}`,
          needed: `${name} reports whether it is a performance secondary: a quota stops the clients of those too`,
          next: `Bring ${name} back, or quiesce by hook instead (hooks.quiesce and hooks.release).`,
        });
      });
      const { mode } = await readStatus(each, 'performance', signal).catch(ifSilent);
      return mode === 'secondary' ? [each] : [];
    }),
  );
  return [primary, ...secondaries.flat()];
}

type NodeAnswer = 'refused' | 'admitted' | 'silent';

/** @returns the nodes that refused a request; a node that does not answer at all serves no clients as far as can be seen */
async function awaitRefusals(execution: Execution, accesses: readonly ClusterAccess[]): Promise<string[]> {
  const asked = accesses.flatMap((access) => access.entry.addresses.map((node) => ({ access, node })));
  // Earlier attempts did not see this quota: their time does not count.
  const seen = await awaitState(
    { ...execution, spentMs: 0 },
    {
      read: () =>
        Promise.all(
          asked.map(async ({ access, node }) => ({ node, answer: await askClient(access, node, execution) })),
        ),
      until: (answers) =>
        answers.every(({ answer }) => answer !== 'admitted') &&
        accesses.every(({ entry }) =>
          answers.some(({ node, answer }) => answer === 'refused' && entry.addresses.includes(node)),
        ),
      budgetMs: execution.timing.quotaMs,
      describe: (answers) => answers.map(({ node, answer }) => `${node}: ${answer}`).join(', '),
      needed: 'every node that serves requests answers 429',
      pollMs: 100,
    },
  );
  return seen.filter(({ answer }) => answer === 'refused').map(({ node }) => node);
}

/** Errors of nodes that serve no requests: down, sealed, or without a leader. */
const TAKES_NONE = ['UNREACHABLE', 'CONNECTION_LOST', 'SERVICE_SEALED', 'SERVICE_UNAVAILABLE', 'REDIRECT_REFUSED'];

/** The answer for a client whose path is not exempt. No token is needed: a quota counts before authentication. */
async function askClient({ client }: ClusterAccess, node: string, { signal }: Execution): Promise<NodeAnswer> {
  try {
    await client.sys.licenseStatus({ node, signal });
    return 'admitted';
  } catch (error) {
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    if (error.code === 'RATE_LIMITED') return 'refused';
    return TAKES_NONE.includes(error.code) ? 'silent' : 'admitted';
  }
}

/**
 * Releases the clients of a cluster: deletes all quotas of ours, then restores the configuration. Quotas of ended runs
 * are deleted too: only the run that holds the lock of the deployment may quiesce clients.
 *
 * @param input.quotas - the configuration from before, as {@link readQuotas} marked it. If it is unknown, or no worker
 *   marked it for this run, the added paths stay exempt, which is harmless
 * @param input.credentialOf - in a DR set: the cluster whose credential from before the change is used
 */
export async function releaseQuota(
  input: OnCluster & { readonly credentialOf?: string; readonly quotas?: QuotasBefore },
): Promise<ChangeResult> {
  const { deployment, cluster, credentialOf, quotas } = input;
  const { execution, clusters, signal, limits, access } = onCluster(input);
  const { run } = execution;
  const lock = deploymentWorkflowId(deployment);
  if (run.wid !== lock)
    throw new RunbookError('PRECONDITION_FAILED', 'Only the run that holds the lock removes quotas.', {
      observed: 'a run with another Workflow ID',
      needed: lock,
    });
  const shared = clusters.of(deployment, credentialOf ?? cluster);
  const token = shared.entry.drSet === access.entry.drSet ? shared : access;
  const { sys } = access.client;
  const reading = { token: await token.credential(), signal };
  const changed = await readActConfirm(execution, {
    read: async () => ((await sys.rateLimitQuotas(reading)) ?? []).filter((name) => OURS.test(name)),
    until: (names) => names.length === 0,
    budgetMs: limits.serviceReadyMs,
    describe: (names) => names.join(', ') || 'none',
    needed: `no quota of a run on ${cluster}`,
    cluster,
    prepare: async (names) => {
      const options = await changingSoon(token, execution);
      await refuseWhileDemoting('Clients were not released');
      return async () => {
        for (const name of names) await sys.deleteRateLimitQuota(name, options);
      };
    },
  });
  if (quotas === undefined) return resultOf(changed, `${cluster}: no quota of a run`);
  const notAsBefore = (finding: Finding) => ({
    ...resultOf(changed, `${cluster}: no quota of a run; its exempt paths are not as before`),
    findings: [finding],
  });
  if (!isMarked(execution, { deployment, cluster: credentialOf ?? cluster }, quotas))
    return notAsBefore(unmarked(cluster));
  try {
    await restoreExempt(access, token, quotas.exempt);
  } catch (error) {
    // Clients are already released: nothing waits for this.
    if (!isRunbookError(error) || error.code === 'REQUEST_CANCELLED') throw error;
    return notAsBefore(notRestored(cluster, error.code, quotas.exempt));
  }
  return resultOf(changed, `${cluster}: no quota of a run; the exempt paths are as before`);
}

function unmarked(cluster: string): Finding {
  return {
    severity: 'warning',
    code: 'exempt-paths-not-restored',
    text: `Clients of ${cluster} were released. The exempt paths of its rate-limit quotas were not changed: no worker marked the list from before for this run, so anybody may have written it.`,
    next: `Compare \`vault read sys/quotas/config\` on ${cluster} with what the site wants. Paths that a run added are harmless.`,
  };
}

function notRestored(cluster: string, code: string, exempt: readonly string[]): Finding {
  return {
    severity: 'warning',
    code: 'exempt-paths-not-restored',
    text: `Clients of ${cluster} were released, but the exempt paths of its rate-limit quotas were not restored (${code}).`,
    next: `Restore them when there is time: \`vault write sys/quotas/config rate_limit_exempt_paths=${exempt.join(',')}\` on ${cluster}.`,
  };
}

/** Removes only paths that a run adds and that were not exempt before. */
async function restoreExempt(access: ClusterAccess, token: ClusterAccess, before: readonly string[]): Promise<void> {
  const execution = currentExecution();
  const { clusters, signal } = execution;
  const { name: cluster, deployment } = access.entry;
  const { limits, ...site } = clusters.deployment(deployment);
  const added = exemptPaths(site).filter((path) => !before.includes(path));
  const { sys } = access.client;
  const reading = { token: await token.credential(), signal };
  await readActConfirm(execution, {
    read: () => sys.quotaConfig(reading),
    until: ({ rateLimitExemptPaths }) => !rateLimitExemptPaths.some((path) => added.includes(path)),
    budgetMs: limits.serviceReadyMs,
    describe: ({ rateLimitExemptPaths }) => rateLimitExemptPaths.join(', '),
    needed: `the exempt paths of ${cluster} as before`,
    cluster,
    prepare: async (config) => {
      const rateLimitExemptPaths = config.rateLimitExemptPaths.filter((path) => !added.includes(path));
      const options = await changingSoon(token, execution);
      return () => sys.writeQuotaConfig({ ...config, rateLimitExemptPaths }, options);
    },
  });
}
