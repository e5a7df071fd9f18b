import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { Report } from '../../src/contracts/report';
import type { Receipt } from '../../src/contracts/run-facts';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import type { ControlAction, DecisionAction } from '../../src/contracts/signals';
import { QUERIES } from '../../src/contracts/signals';
import type { GateName } from '../../src/contracts/gates';
import { approveAgain, approveLongAgo } from './aged-approvals';
import { approvalOf, controlOf, decisionOf, envelopeOf } from './people';
import type { Scenario } from './scenario';
import { mistakesIn } from './report-checks';
import { temporalServer } from './temporal-server';

/** Long enough for a slow machine: a test fails only if something never happens. */
const WAIT_MS = 90_000;

export type Parked = Extract<Waiting, { for: 'decision' }>;

/** The approver of a gate: the later gate of a run needs another person. */
const approverOf = (gate: GateName) => (gate === 'go' || gate === 'unfence' ? 'henry' : 'grace');

/**
 * An action of a person in a run, such as `approve plan`, `reject wipe`, or `skip Fence west` for a parked step.
 * Without a step name, it applies to the parked step. `renew`: the approval is too old when the change begins, and the
 * run asks for the gate again.
 */
export type Deed =
  'shares' | `${'approve' | 'reject' | 'renew'} ${GateName}` | DecisionAction | `${DecisionAction} ${string}`;

/** One run of a runbook, from the point of view of the people. */
export class TestRun {
  constructor(
    readonly scenario: Scenario,
    readonly handle: WorkflowHandle,
  ) {}

  async status(): Promise<RunStatus> {
    const status = await this.handle.query<RunStatus | null>(QUERIES.status);
    if (!status) throw new Error('the run has no status yet');
    return status;
  }

  /** Waits until `look` finds something in the status; otherwise fails with the last status. */
  async until<T>(what: string, look: (status: RunStatus) => T | undefined | false, withinMs = WAIT_MS): Promise<T> {
    const begin = Date.now();
    const deadline = begin + withinMs;
    let last: RunStatus | undefined;
    for (;;) {
      try {
        last = await this.status();
        const found = look(last);
        if (found !== undefined && found !== false) return found;
      } catch (error) {
        if (Date.now() > deadline) throw error;
      }
      if (Date.now() > deadline)
        throw new Error(`not seen: ${what}; last status ${JSON.stringify(last, undefined, 1)}`);
      // Each query is work for worker and server, so poll less often over time.
      await delay(Math.min(1_000, Math.max(200, (Date.now() - begin) / 10)));
    }
  }

  waitsFor<F extends Waiting['for']>(
    kind: F,
    where: (waiting: Extract<Waiting, { for: F }>) => boolean = () => true,
  ): Promise<Extract<Waiting, { for: F }>> {
    return this.until(`waiting for ${kind}`, ({ waiting }) =>
      waiting.find(
        (each): each is Extract<Waiting, { for: F }> =>
          each.for === kind && where(each as Extract<Waiting, { for: F }>),
      ),
    );
  }

  /** The receipt of the nth signal of this name. */
  receiptOf(signal: Receipt['signal'], arrival = 1): Promise<Receipt> {
    return this.until(`receipt of ${signal} ${arrival}`, ({ receipts }) =>
      receipts.find((each) => each.signal === signal && each.arrival === arrival),
    );
  }

  /** Waits for the invitation to the ceremony. */
  invitation(): Promise<string> {
    return this.until('an invitation', ({ invitation }) => invitation);
  }

  /** The envelope that a holder sends. */
  async envelope(holder: string, options: Parameters<typeof envelopeOf>[3] = {}) {
    return envelopeOf(this.scenario.person(holder), await this.invitation(), this.scenario.workersKey, options);
  }

  async share(holder: string, options: Parameters<typeof envelopeOf>[3] = {}): Promise<void> {
    await this.handle.signal('share', await this.envelope(holder, options));
  }

  /** Performs these actions of people in order, each when the run asks for it; henry approves if a gate needs another person. */
  async do(...deeds: readonly Deed[]): Promise<void> {
    for (const deed of deeds) {
      const [verb, ...words] = deed.split(' ');
      const about = words.join(' ');
      const gate = about as GateName;
      if (verb === 'shares') await this.shares();
      else if (verb === 'approve' || verb === 'reject') await this.approve(gate, approverOf(gate), verb);
      else if (verb === 'renew') {
        await approveLongAgo(this.scenario, this, gate);
        await approveAgain(this, gate);
      } else await this.decide(verb as DecisionAction, about === '' ? undefined : about);
    }
  }

  /** Waits for the text of the plan. */
  planText(): Promise<string> {
    return this.until('a plan', ({ planText }) => planText);
  }

  /** Waits until a step, or the named step, is parked, with a parking number greater than `after`. */
  parks(step?: string, after = 0): Promise<Parked> {
    return this.waitsFor('decision', (each) => (step === undefined || each.step === step) && each.parkingNo > after);
  }

  /** Enough holders give their shares. */
  async shares(holders: readonly string[] = ['ada', 'bert', 'cleo']): Promise<void> {
    for (const holder of holders) await this.share(holder);
  }

  async approve(gate: GateName, name = 'grace', verdict: 'approve' | 'reject' = 'approve'): Promise<void> {
    const { planDigest } = await this.waitsFor('approval', (waiting) => waiting.gate === gate);
    await this.handle.signal(
      'approve',
      await approvalOf(this.scenario.person(name), { ...(await this.identity()), gate, planDigest, verdict }),
    );
  }

  async decide(action: DecisionAction, step?: string, name = 'grace'): Promise<void> {
    const parked = await this.parks(step);
    await this.handle.signal(
      'decide',
      await decisionOf(this.scenario.person(name), {
        ...(await this.identity()),
        step: parked.step,
        parkingNo: parked.parkingNo,
        action,
      }),
    );
  }

  /** Pauses, resumes, or aborts the run, as an authorized person. */
  async control(
    action: Exclude<ControlAction, 'takeOver'>,
    order: { readonly reason?: string } = {},
    name = 'grace',
  ): Promise<void> {
    await this.handle.signal(action, await this.controlDocument(action, order, name));
  }

  async controlDocument(
    action: ControlAction,
    order: { readonly reason?: string; readonly inputDigest?: string } = {},
    name = 'grace',
  ): Promise<{ readonly document: string }> {
    const { workflowId: wid, runId: rid } = await this.handle.describe();
    return controlOf(this.scenario.person(name), { ns: temporalServer().namespace, wid, rid, action, ...order });
  }

  /** Resets the run to the point where the first activity of this type was scheduled. @returns the run that continues */
  async reset(activity: string): Promise<TestRun> {
    const { workflowId } = this.handle;
    const ordered = (await this.events()).map((event) => event.activityTaskScheduledEventAttributes);
    const { runId } = await this.scenario.client.workflowService.resetWorkflowExecution({
      namespace: temporalServer().namespace,
      workflowExecution: { workflowId, runId: (await this.handle.describe()).runId },
      workflowTaskFinishEventId: ordered.find((each) => each?.activityType?.name === activity)
        ?.workflowTaskCompletedEventId,
      reason: 'a test of the reset',
      requestId: randomUUID(),
    });
    return this.scenario.attach(workflowId, runId);
  }

  /** Performs all actions of people in a switchover without a fault. */
  async people(options: { readonly go?: boolean; readonly shares?: readonly string[] } = {}): Promise<void> {
    await this.shares(options.shares);
    await this.approve('plan');
    if (options.go !== false) await this.approve('go', 'henry');
  }

  /** Waits for the end of the run; fails with the last status if the run does not end. */
  async #result(): Promise<unknown> {
    const timer = new AbortController();
    const late = delay(WAIT_MS, undefined, { signal: timer.signal }).then(async () => {
      throw new Error(`the run did not end; last status ${JSON.stringify(await this.status(), undefined, 1)}`);
    });
    late.catch(() => undefined);
    try {
      return await Promise.race([this.handle.result(), late]);
    } finally {
      timer.abort();
    }
  }

  /** The result of the run, which is its report. */
  async report(): Promise<Report> {
    const report = (await this.#result()) as Report;
    expect(mistakesIn(report)).toEqual([]);
    return report;
  }

  /** Code, message, and details of the failure of the run. */
  async failure(): Promise<{ readonly code: string; readonly message: string; readonly details: unknown }> {
    try {
      await this.#result();
    } catch (error) {
      const { cause } = error as { cause?: { type?: string; message?: string; details?: unknown } };
      if (cause === undefined) throw error;
      return { code: cause.type ?? '', message: cause.message ?? '', details: cause.details };
    }
    throw new Error('the run did not fail');
  }

  async events() {
    return (await this.handle.fetchHistory()).events ?? [];
  }

  /** Number of history events, without workflow tasks that timed out or failed, which happen on a busy machine. */
  async eventCount(): Promise<number> {
    const events = await this.events();
    const lost = events.flatMap((event) => {
      const task = event.workflowTaskTimedOutEventAttributes ?? event.workflowTaskFailedEventAttributes;
      return task ? [event.eventId, task.scheduledEventId, task.startedEventId].map(String) : [];
    });
    return events.filter(({ eventId }) => !lost.includes(String(eventId))).length;
  }

  /** What a signed document of a person names of the run. */
  async identity() {
    const { workflowId, runId } = await this.status();
    return { ns: temporalServer().namespace, wid: workflowId, rid: runId };
  }
}
