import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { request } from 'undici';
import { z } from 'zod';
import { readReport, summaryLines } from '../read-report';
import { Progress } from '../render-status';
import { connectTemporal } from '../run';
import type { RunView, TemporalSession } from '../run';
import { lockWorkflowId } from '../../contracts/names';
import { walSamplerIdPrefix } from '../../contracts/observations';
import { clock } from '../../contracts/words';
import { Pager } from './pager';
import type { Alert, Update } from './pager';
import { PAYMENTS } from './payments';
import type { Site } from './payments';
import { Cast, follow } from './cast';
import { DEPLOYMENT, OPERATOR } from './people';
import { startStage } from './stage';
import type { Showing, Stage } from './stage';
import { Story } from './story';

/** The shortest interval that the inventory allows; the default is a minute. */
const SAMPLED_EVERY_MS = 30_000;
/** Within which people are notified of an outage (docs/monitoring.md). */
const NOTIFIED_WITHIN_MS = 90_000;
/** Six good samples after service is back, and what a slow machine takes. */
const CLOSED_WITHIN_MS = 180_000;
const GATEWAY_READY_MS = 60_000;
const POLL_MS = 250;

const TRIGGER = 'no-primary';
const ALERT_NAME = 'RunbooksNoPrimary';
const PAGER_KEY = 'pager-key';
const ALERT_SECRET = 'alertmanager-secret';
const secret = (): string => randomBytes(32).toString('base64url');

/** The deployment of `npm run demo`, with a Schedule that samples it, a pager, and a trigger for Alertmanager. */
function incidentSite(pagerAddress: string) {
  const alertSecret = secret();
  const site: Site = {
    ...PAYMENTS,
    about: ['Simulated service east: primary; west, north: its DR secondaries; clients write continuously'],
    members: (clients, directory) => ({
      ...PAYMENTS.members(clients, directory),
      schedules: { walSampler: `${SAMPLED_EVERY_MS / 1_000}s`, readiness: 'off', batchTokenRotation: 'off' },
      notifications: [
        { name: 'pager', kind: 'pagerduty', url: pagerAddress, routingKey: { file: join(directory, PAGER_KEY) } },
      ],
    }),
    inventory: (directory) => ({
      triggers: [
        {
          ...{ name: TRIGGER, kind: 'alertmanager', secret: { file: join(directory, ALERT_SECRET) } },
          ...{ match: { 'commonLabels.alertname': ALERT_NAME }, runbook: 'drFailover', deployment: DEPLOYMENT },
          input: { to: 'west' },
        },
      ],
    }),
    files: { [PAGER_KEY]: secret(), [ALERT_SECRET]: alertSecret },
  };
  return { site, alertSecret };
}

/** Longer texts would hide the order of events. */
const MOST_SHOWN = 90;

/** What the pager shows: alerts that are opened and resolved. Of what an open one is told, only that service is back. */
function pagerLine({ summary, openedAt, resolvedAt }: Alert, update?: Update): string | undefined {
  if (update !== undefined && update.class !== 'service-ready') return undefined;
  const at = update === undefined ? (resolvedAt ?? openedAt) : Date.now();
  const what = update !== undefined ? 'updated: ' : resolvedAt !== undefined ? 'resolved: ' : '';
  const text = (update?.summary ?? summary).replace(what === '' ? '' : `[CRITICAL] ${DEPLOYMENT}: `, '');
  const whole = `${what}${text}`;
  return `${clock(at)} == PAGER ${whole.length > MOST_SHOWN ? `${whole.slice(0, MOST_SHOWN)}...` : whole}`;
}

/** A run as people see it, and when it first waited for them. */
class Waiting {
  since: number | undefined;
  constructor(private readonly progress: Progress) {}

  lines(view: RunView): string[] {
    if ((view.status?.waiting.length ?? 0) > 0) this.since ??= Date.now();
    return this.progress.lines(view);
  }
}

/**
 * `npm run demo -- --incident`: the primary is killed. `walSampler`, which a Schedule starts, notifies the pager; a webhook of
 * Alertmanager starts the failover through the gateway; people give shares and approve; the pager's alerts are resolved.
 * Returns whether all of it happened, and people were notified in time.
 */
export async function demonstrateIncident(reportDirectory: string, showing: Showing): Promise<boolean> {
  const { say, verbose } = showing;
  const pager = await Pager.start((...news) => {
    const line = pagerLine(...news);
    if (line !== undefined) say(line);
  });
  try {
    const { site, alertSecret } = incidentSite(pager.address);
    const stage = await startStage({ reportDirectory, site, say, workerLog: verbose ? 'warn' : 'error' });
    try {
      return await play(stage, pager, alertSecret, showing);
    } finally {
      await stage.stop();
    }
  } finally {
    await pager.stop();
  }
}

async function play(stage: Stage, pager: Pager, alertSecret: string, showing: Showing): Promise<boolean> {
  const { say, verbose, stop } = showing;
  const session = await connectTemporal({}, stage.environment);
  const people = new Cast(stage, say, verbose);
  try {
    say('');
    const gateway = await openGateway(stage, say);
    if ((await people.play(OPERATOR, ['schedules', 'apply', DEPLOYMENT])) !== 0) return false;
    say(`${clock(Date.now())} ${OPERATOR} creates the Schedule of walSampler every 30 s (runbook schedules apply)`);
    await firstSamples(session, stage, stop);
    const killedAt = Date.now();
    await stage.payments.service.cluster('east').kill();
    say(`${clock(killedAt)} == KILLED: east, the primary, between two runs of walSampler`);
    if (!(await pager.until((alerts) => alerts.length > 0, 2 * NOTIFIED_WITHIN_MS, stop))) return false;
    const [alarm] = pager.alerts.values();
    if (alarm === undefined) return false;

    // Twice, as Alertmanager does: one incident makes one run.
    for (const again of [false, true]) {
      const text = await sendAlert(gateway, alertSecret, killedAt);
      say(`${clock(Date.now())} Alertmanager ${again ? 'repeats' : 'sends'} its alert to the gateway: ${text}`);
    }
    const lock = lockWorkflowId('drFailover', { deployment: DEPLOYMENT }) ?? '';
    const waiting = new Waiting(verbose ? new Progress() : new Story());
    const { runId } = await follow(session, lock, people, say, stop, waiting);
    const report = await readReport(session, { workflowId: lock, runId });
    for (const line of summaryLines(report, { brief: !verbose })) say(line);

    const isOver = (alerts: readonly Alert[]) => alerts.every(({ resolvedAt }) => resolvedAt !== undefined);
    const closed = await pager.until(isOver, CLOSED_WITHIN_MS, stop);
    for (const { summary } of [...pager.alerts.values()].filter(({ resolvedAt }) => resolvedAt === undefined))
      say(`Still open at the pager: ${summary}`);
    const { longestGapEndedAt: back } = stage.payments.clients;
    const resolvedAt = closed && Math.max(...[...pager.alerts.values()].map((each) => each.resolvedAt ?? Infinity));
    const [notified, waits] = [alarm.openedAt, waiting.since].map((at) => seconds(killedAt, at));
    say(`From the kill to the notification ${notified} (at most 90 s), to a run that waits for people ${waits},`);
    say(
      `to the first write of the clients ${seconds(killedAt, back)}, to the last alert resolved ${seconds(killedAt, resolvedAt)}.`,
    );
    return report.outcome === 'completed' && closed && alarm.openedAt - killedAt <= NOTIFIED_WITHIN_MS;
  } finally {
    // On a shared server, it would outlive the demonstration.
    await people.play(OPERATOR, ['schedules', 'delete', DEPLOYMENT]);
    await session.close();
  }
}

function seconds(from: number, to: number | false | undefined): string {
  return to === undefined || to === false ? 'never' : `${((to - from) / 1_000).toFixed(1)} s`;
}

/** Starts `runbook gateway --receive`; returns where it listens. */
async function openGateway(stage: Stage, say: (line: string) => void): Promise<string> {
  const lines: string[] = [];
  const listening = () => lines.flatMap((line) => /^Receiving webhooks on (\S+)/.exec(line)?.[1] ?? [])[0];
  const { ended } = stage.runbook(['gateway', '--receive', '127.0.0.1:0'], (line) => {
    if (listening() === undefined) lines.push(line);
  });
  let over = false;
  void ended.then(() => (over = true));
  const deadline = Date.now() + GATEWAY_READY_MS;
  for (;;) {
    const address = listening();
    if (address !== undefined) {
      say(`Gateway           receives webhooks on ${address} (runbook gateway --receive)`);
      return address;
    }
    if (over || Date.now() > deadline) throw new Error(`The gateway did not start: ${lines.join('\n')}`);
    await delay(POLL_MS);
  }
}

/** Until a run that the Schedule started has samples: with them, the failover can bound its loss. */
async function firstSamples({ client }: TemporalSession, { environment }: Stage, stop: AbortSignal): Promise<void> {
  const ours = `TaskQueue = "${environment['RUNBOOKS_TASK_QUEUE'] ?? ''}" AND ExecutionStatus = "Completed"`;
  const query = `WorkflowId STARTS_WITH "${walSamplerIdPrefix(DEPLOYMENT)}" AND ${ours}`;
  const deadline = Date.now() + 4 * SAMPLED_EVERY_MS;
  while ((await client.workflow.count(query)).count === 0) {
    if (stop.aborted || Date.now() > deadline) throw new Error('The Schedule of walSampler recorded no samples.');
    await delay(POLL_MS);
  }
}

const ANSWER = z.object({ text: z.string() });

/** Plays Alertmanager, whose alert fires on the metric that the gateway exports from the samples (deploy/monitoring). */
async function sendAlert(gateway: string, alertSecret: string, killedAt: number): Promise<string> {
  const labels = { alertname: ALERT_NAME, deployment: DEPLOYMENT, dr_set: 'main', severity: 'critical' };
  const alert = { status: 'firing', labels, annotations: {}, startsAt: new Date(killedAt).toISOString() };
  const { statusCode, body } = await request(`http://${gateway}/triggers/${TRIGGER}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${alertSecret}` },
    body: JSON.stringify({
      ...{ version: '4', status: 'firing', receiver: 'runbooks', groupKey: `{}:{alertname="${ALERT_NAME}"}` },
      ...{ truncatedAlerts: 0, commonLabels: labels, alerts: [alert] },
    }),
  });
  const answer = ANSWER.safeParse(await body.json());
  return `${statusCode}: ${answer.success ? answer.data.text : 'no text'}`;
}
