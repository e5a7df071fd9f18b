import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { z } from 'zod';
import { RUNBOOK_NAMES, deploymentWorkflowId } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import type { ServiceAlarm } from '../../src/contracts/notifications';
import type { WalSample } from '../../src/contracts/observations';
import { startMetadata } from '../../src/contracts/start-metadata';
import { findDeployment } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import type { RunContext } from '../../src/keys';
import { openRun } from '../checks/runs';
import type { ActivityContext } from '../execution';
import { notifyTargets } from '../notifications/notifications';
import { RecordTable } from '../record-table';
import type { ActivityDependencies } from '../dependencies';
import { afterJudgment, alarmState, isExplained, judgeSample, knownRoles, rolesAfter } from './judging';
import type { AlarmState, Judgment, KnownRoles } from './judging';

const watched = new RecordTable(
  'service-watch',
  z.object({ alarms: z.record(z.string(), alarmState), roles: z.record(z.string(), knownRoles) }),
);

/** What is known between samples, by subject and by DR set. */
interface Known {
  readonly alarms: Map<string, AlarmState>;
  readonly roles: Map<string, KnownRoles>;
}

/** The last state that this worker knew, by namespace and deployment, for when the record cannot be read. */
const remembered = new Map<string, Known>();

/** An open run of ours under the lock of the deployment. */
interface OurRun {
  readonly runbook: RunbookName;
  readonly phase: string | undefined;
}

/**
 * Judges the samples of one run of `walSampler`, notifies people at changes, and starts a failover if the inventory wants
 * that. Works beside the sampling: no target that hangs delays a sample, and no failure here is one of the sampling.
 */
export class ServiceWatch {
  readonly #deployment: Deployment;
  readonly #key: string;
  readonly #known: Promise<Known>;
  /** As the record has it. */
  #written = '';
  #work: Promise<unknown>;

  constructor(
    private readonly execution: ActivityContext & { readonly run: RunContext },
    deployment: string,
  ) {
    this.#deployment = findDeployment(execution.inventory, deployment);
    this.#key = `${execution.run.ns}/${deployment}`;
    this.#known = this.#read();
    this.#work = this.#known;
  }

  look(sample: WalSample): void {
    this.#later(() => this.#look(sample));
  }

  /** Waits for what is under way, and keeps what the next run must know. */
  async end(): Promise<void> {
    this.#later(() => this.#keep());
    await this.#work;
  }

  #later(work: () => Promise<void>): void {
    const { log, signal } = this.execution;
    this.#work = this.#work.then(work).catch((error: unknown) => {
      if (!signal.aborted) log.warn({ deployment: this.#deployment.name, error }, 'a sample could not be judged');
    });
  }

  async #read(): Promise<Known> {
    const { records, log } = this.execution;
    const { name } = this.#deployment;
    try {
      const { alarms = {}, roles = {} } = (await watched.get(records, name)) ?? {};
      const known = { alarms: new Map(Object.entries(alarms)), roles: new Map(Object.entries(roles)) };
      this.#written = textOf(known);
      return known;
    } catch (error) {
      log.warn({ deployment: name, error }, 'open alarms cannot be read from the record');
      return remembered.get(this.#key) ?? { alarms: new Map(), roles: new Map() };
    }
  }

  async #look(sample: WalSample): Promise<void> {
    const { drSets, limits, alarms } = this.#deployment;
    const known = await this.#known;
    const { heartbeatAgeMs } = limits;
    const judgments = judgeSample(sample, { drSets, heartbeatAgeMs }, known.roles);
    const isNew = ({ subject, bad }: Judgment) => bad && known.alarms.get(subject)?.told !== true;
    const run = judgments.some(isNew) ? await this.#ourRun() : undefined;
    for (const judgment of judgments) {
      const { subject, alarm } = judgment;
      if (isNew(judgment) && isExplained(alarm.kind, run)) known.alarms.delete(subject);
      else await this.#judged(known, judgment, sample.at, alarms.afterSamples, run);
    }
    for (const [set, members] of drSets) {
      const roles = rolesAfter(known.roles.get(set), sample, members);
      if (roles) known.roles.set(set, roles);
    }
    remembered.set(this.#key, known);
  }

  async #judged(
    { alarms }: Known,
    judgment: Judgment,
    at: number,
    afterSamples: number,
    run: OurRun | undefined,
  ): Promise<void> {
    const { subject } = judgment;
    const { state, due } = afterJudgment(alarms.get(subject), judgment, at, afterSamples);
    if (state) alarms.set(subject, state);
    else alarms.delete(subject);
    if (due === undefined || state === undefined) return;
    const { since } = state;
    // What was started may have refused since: it is not started again.
    const mayStart = state.bad === afterSamples;
    const alarm = due === 'tell' ? await this.#withRun(judgment.alarm, run, mayStart) : judgment.alarm;
    const { execution } = this;
    // Until some target has it, the next sample tries again.
    if (!(await tellAlarm(execution, this.#deployment.name, { subject, alarm, since, at, due }, execution.run))) return;
    if (due === 'tell') alarms.set(subject, { ...state, told: true });
    else alarms.delete(subject);
    await this.#keep();
  }

  /** The run that works on it. It is started here, if the inventory wants that. */
  async #withRun(alarm: ServiceAlarm, open: OurRun | undefined, mayStart: boolean): Promise<ServiceAlarm> {
    if (open !== undefined) return { ...alarm, run: { runbook: open.runbook, started: false } };
    const runbook = this.#deployment.onNoPrimary?.start;
    if (alarm.kind !== 'no-primary' || runbook === undefined || !mayStart) return alarm;
    return (await this.#start(runbook, alarm)) ? { ...alarm, run: { runbook, started: true } } : alarm;
  }

  /** Starts a run as a person would. It collects evidence, and waits at its gates; while a primary answers it refuses. */
  async #start(runbook: 'drFailover', { drSet = '' }: ServiceAlarm): Promise<boolean> {
    const { temporal, records, log } = this.execution;
    const { name: deployment } = this.#deployment;
    const workflowId = deploymentWorkflowId(deployment);
    const reason = `walSampler: no cluster of DR set ${drSet} answers as primary`;
    const input = { deployment, reason, requestedBy: 'walSampler' };
    try {
      await temporal.workflow.start(runbook, {
        workflowId,
        taskQueue: records.taskQueue,
        args: [input],
        memo: { runbook, deployment },
        workflowIdConflictPolicy: 'FAIL',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        ...startMetadata(runbook, input, 'by walSampler'),
      });
      return true;
    } catch (error) {
      // Somebody was faster.
      if (error instanceof WorkflowExecutionAlreadyStartedError) return true;
      log.error({ deployment, workflowId, error }, `${runbook} could not be started`);
      // It was, if only the answer was lost.
      return (await this.#ourRun())?.runbook === runbook;
    }
  }

  /** The open run of the deployment, if it is a runbook of these workers. If the server does not say, there is none. */
  async #ourRun(): Promise<OurRun | undefined> {
    const found = await openRun(deploymentWorkflowId(this.#deployment.name)).catch(() => undefined);
    if (found?.taskQueue !== this.execution.records.taskQueue) return undefined;
    const runbook = RUNBOOK_NAMES.find((name) => name === (found.runbook ?? found.type));
    return runbook && { runbook, phase: found.phase };
  }

  /** Writes what changed into the record. */
  async #keep(): Promise<void> {
    const known = await this.#known;
    const text = textOf(known);
    if (text === this.#written) return;
    const now = { alarms: Object.fromEntries(known.alarms), roles: Object.fromEntries(known.roles) };
    await watched.put(this.execution.records, this.#deployment.name, '', now);
    this.#written = text;
  }
}

const textOf = ({ alarms, roles }: Known): string => JSON.stringify([...alarms, ...roles]);

interface Told {
  readonly subject: string;
  readonly alarm: ServiceAlarm;
  readonly since: number;
  readonly at: number;
  readonly due: 'tell' | 'end';
}

/**
 * Notifies people of an alarm, or of its end.
 *
 * @returns false if no target took it although there are some
 */
export async function tellAlarm(
  dependencies: Pick<ActivityDependencies, 'inventory' | 'log'> & { readonly signal?: AbortSignal },
  deployment: string,
  { subject, alarm, since, at, due }: Told,
  run: RunContext,
): Promise<boolean> {
  const ends = due === 'end';
  const wakes = alarm.kind === 'no-primary' || alarm.kind === 'two-primaries';
  const event = ends ? 'service-alarm-over' : 'service-alarm';
  dependencies.log.warn({ deployment, event }, subject);
  const { told, failed } = await notifyTargets(
    dependencies,
    deployment,
    {
      ...{ event, severity: ends ? 'info' : wakes ? 'critical' : 'warning', runbook: 'walSampler', number: 1 },
      ...{ subject: `alarm:${subject}`, at, since, alarm },
    },
    { ...run, id: `${subject}/${since}${ends ? '/over' : ''}` },
  );
  return told > 0 || failed.length === 0;
}
