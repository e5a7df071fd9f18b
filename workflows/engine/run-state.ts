import { setCurrentDetails, upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { defineSearchAttributeKey } from '@temporalio/common';
import { planIn } from '../../src/contracts/plan';
import type { PlanDocument } from '../../src/contracts/plan';
import { firstReading } from '../../src/moves/every-run';
import { planNumber } from '../../src/moves/steps';
import { alarmsFirst, isOrphanAlarm } from '../../src/contracts/run-status';
import type { SiteFacts } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { OUTCOME_ATTRIBUTE } from '../../src/contracts/names';
import type { RunbookName } from '../../src/contracts/names';
import type { Attested, Finding, Receipt, RunFact, RunOutcome, RunPhase } from '../../src/contracts/run-facts';
import type { CarryingOut, RunMemo, RunStatus, TimelineStep, Waiting, Asked } from '../../src/contracts/run-status';
import type { RunEnding, RunRecord } from '../../src/report/run-record';
import { carryingOutText, waitedFor } from '../../src/words/status';
import { currentDetails } from './current-details';
import type { Measured } from './current-details';
import { ActivityLog, inStep } from './interceptors';
import { LeftToDo } from './left-to-do';
import { Notifications } from './notifications';

/** Receipts that the status query shows: more than one check of arrivals produces, so that nobody misses theirs. */
const RECEIPTS_SHOWN = 500;
/** Receipts that the report keeps, so that it stays small enough to be a result. Only a flood causes more, and a finding reports it. */
const RECEIPTS_KEPT = 2_000;

const OUTCOME_KEY = defineSearchAttributeKey(OUTCOME_ATTRIBUTE, 'KEYWORD');

type DistributiveOmit<T, K extends PropertyKey> = T extends unknown ? Omit<T, K> : never;

/** A step under way or done. Mutable here, shown as {@link TimelineStep}. */
export type StepRecord = { -readonly [K in keyof TimelineStep]: TimelineStep[K] };

/** What a run knows about itself: timeline, activities, facts, what it waits for. Status and report are made from it. */
export class RunState {
  readonly steps: StepRecord[] = [];
  readonly receipts: (Receipt & { readonly at: number })[] = [];
  readonly findings: Finding[] = [];
  /** What people still have to do after this run, besides what its ending says. */
  readonly left = new LeftToDo();
  readonly waiting = new Map<string, Waiting>();
  /** Decisions that are under way. */
  #carryingOut: readonly CarryingOut[] = [];
  phase: RunPhase = 'checking';
  outcome: RunOutcome | undefined;
  /** What the run cost, once it has ended. */
  measured: Measured | undefined;
  /** All that is left to do, once the run has ended. */
  leftAtEnd: readonly string[] = [];
  paused = false;
  #plan: PlanDocument | undefined;
  /** The steps of the plan. Every plan begins with the reading that it was made from. */
  #planned: readonly { readonly step: string }[] = [firstReading];
  #ofEarlierPlan: readonly Pick<TimelineStep, 'planned' | 'unforeseen'>[] = [];
  invitation: string | undefined;
  /** What the invitation asks for. */
  asked: Asked | undefined;
  outageSince: number | undefined;
  serviceBackAt: number | undefined;
  clientsHeld = false;
  acknowledgedRunId: string | undefined;
  /** Notifies people outside the run. Until the site is known, only alarms. */
  readonly notifications: Notifications = new Notifications(this);
  site: SiteFacts = {};
  /** Input and result of the activities of the steps. */
  readonly activities = new ActivityLog((findings) => this.noteFindings(findings));
  readonly #facts: RunFact[] = [];
  ending: RunEnding | undefined;
  /** What people call the matter outside, as the input says. */
  incident: Pick<RunStatus, 'ticket' | 'incidentKey'>;
  #lastMemo = '';
  #receiptsKept = 0;

  constructor(
    /** The current runbook. It differs from the workflow type once a failover took the run over. */
    public runbook: RunbookName,
    readonly deployment: string,
    private readonly input: object,
  ) {
    this.incident = incidentIn(input);
  }

  become(runbook: RunbookName, input: object): void {
    this.runbook = runbook;
    this.incident = { ...this.incident, ...incidentIn(input) };
    this.fact({ kind: 'became-failover' });
    // They keep the numbers of their own plan.
    this.#ofEarlierPlan = this.steps.map((step) => this.placeOf(step.name));
    this.plan = undefined;
    this.waiting.clear();
    this.notifications.allWaitsOver();
    this.paused = false;
    this.enterPhase('checking');
  }

  /** Takes what the workers know about the site. */
  learnSite(site: SiteFacts): void {
    this.site = site;
    this.notifications.begin(site.notifications);
  }

  /** Keeps a fact for the report. */
  fact(fact: DistributiveOmit<RunFact, 'at'>): void {
    this.#facts.push({ ...fact, at: Date.now() });
  }

  /**
   * Clients have no primary.
   *
   * @param since - when that began; if it is not known, it is counted from the start of this run, as a minimum
   */
  outageBegan(since: number | undefined, why: string): void {
    this.outageSince = since ?? workflowInfo().startTime.getTime();
    this.fact({ kind: 'outage-began', since: this.outageSince, why, ...(since === undefined && { atLeast: true }) });
  }

  /** While people were waited for, a primary came back by itself. They are told at once. */
  primaryIsBack(cluster: string, at: number): void {
    this.serviceBackAt = Math.min(Math.max(at, this.outageSince ?? at), Date.now());
    const since = new Date(this.serviceBackAt).toISOString();
    this.alarm({
      severity: 'warning',
      code: 'primary-is-back',
      text: `${cluster} has reported DR primary again at ${since}. No cluster was changed.`,
      next: `This run ends by itself if ${cluster} stays primary for a minute. To keep it, pause it: \`${nextCommandOf.control('pause', workflowInfo().workflowId)}\``,
    });
    this.publish();
  }

  /** Whether clients have no primary, as far as the run knows. */
  get serviceIsOut(): boolean {
    return this.outageSince !== undefined && this.serviceBackAt === undefined;
  }

  /** Before the change: any wait then keeps clients out of a cluster that could serve them. */
  get holdsClients(): boolean {
    return this.clientsHeld && this.outageSince === undefined;
  }

  /** Runs `body`, whose activities belong to no step of the timeline, for example checks of what people sent. */
  besideSteps<T>(name: string, body: () => Promise<T>): Promise<T> {
    return inStep(this, { number: 0, name, attempt: 1 }, body);
  }

  /** Keeps what an activity found. */
  noteFindings(findings: readonly Finding[] = []): void {
    for (const finding of findings) this.finding(finding);
  }

  /** A token that nobody holds comes before all earlier findings, and is reported outside the run at once. */
  finding(finding: Finding): void {
    this.fact({ kind: 'finding', ...finding });
    this.findings.push(finding);
    if (!isOrphanAlarm(finding)) return;
    this.findings.splice(0, this.findings.length, ...alarmsFirst(this.findings));
    this.notifications.alarm(finding);
  }

  /** A finding that is reported outside the run at once. */
  alarm(finding: Finding): void {
    this.finding(finding);
    this.notifications.alarm(finding);
  }

  /** Shown in the status, even if the report has too many already. */
  receipt(receipt: Receipt): void {
    this.receipts.push({ ...receipt, at: Date.now() });
    if (this.receipts.length > RECEIPTS_SHOWN) this.receipts.shift();
    this.#receiptsKept += 1;
    if (this.#receiptsKept <= RECEIPTS_KEPT) this.fact({ kind: 'receipt', ...receipt });
  }

  enterPhase(phase: RunPhase): void {
    const from = this.phase;
    this.phase = phase;
    this.notifications.phaseChanged(from, phase);
    this.publish();
  }

  wait(key: string, waiting: Waiting): void {
    const began = !this.waiting.has(key);
    this.waiting.set(key, waiting);
    if (began) this.notifications.waitBegan(key, waiting);
    this.publish();
  }

  waitOver(key: string): void {
    if (!this.waiting.delete(key)) return;
    this.notifications.waitOver(key);
    this.show();
  }

  /** While `body` runs, the run waits for people or for the clock. */
  async whileWaiting<T>(key: string, waiting: Waiting, body: () => Promise<T>): Promise<T> {
    this.wait(key, waiting);
    try {
      return await body();
    } finally {
      this.waitOver(key);
    }
  }

  /** A decision was accepted. From here on the run carries it out, and waits for nobody. */
  carryOut(decided: CarryingOut): void {
    this.#carryingOut = [...this.#carryingOut, decided];
    this.publish();
  }

  /** A step ended: the one that was decided on, or what was done instead of it. Ending the run lasts until the run has ended. */
  carriedOut({ name, startedAt }: Pick<StepRecord, 'name' | 'startedAt'>): void {
    const under = this.#carryingOut.filter(({ step, action, at }) => {
      if (action === 'abort' || action === 'leave') return true;
      return action === 'retry' ? step !== name : at > startedAt;
    });
    if (under.length === this.#carryingOut.length) return;
    this.#carryingOut = under;
    this.publish();
  }

  /** The plan that people are asked to approve, or have approved. */
  get plan(): PlanDocument | undefined {
    return this.#plan;
  }

  set plan(plan: PlanDocument | undefined) {
    this.#plan = plan;
    this.#planned = (plan && planIn(plan.text)?.steps) ?? [firstReading];
  }

  /** Where a step stands in the plan. */
  placeOf(name: string): Pick<TimelineStep, 'planned' | 'unforeseen'> {
    const planned = planNumber(this.#planned, name);
    if (planned !== undefined) return { planned };
    return this.#plan === undefined ? {} : { unforeseen: true };
  }

  status(): RunStatus {
    const { namespace, workflowId, runId } = workflowInfo();
    return {
      namespace,
      runbook: this.runbook,
      deployment: this.deployment,
      workflowId,
      runId,
      ...this.incident,
      phase: this.phase,
      outcome: this.outcome,
      paused: this.paused,
      planDigest: this.#plan?.digest,
      planText: this.#plan?.text,
      outageSince: this.outageSince,
      serviceBackAt: this.serviceBackAt,
      waiting: [...this.waiting.values()],
      carryingOut: this.phase === 'finished' ? [] : this.#carryingOut,
      steps: this.steps.map((step, index) => ({ ...step, ...(this.#ofEarlierPlan[index] ?? this.placeOf(step.name)) })),
      receipts: this.receipts,
      findings: this.findings,
      leftToDo: this.leftAtEnd,
      invitation: this.invitation,
      asked: this.invitation === undefined ? undefined : this.asked,
    };
  }

  /** All that the run knows about itself. */
  record(): RunRecord {
    const { namespace, workflowId, runId, startTime, historyLength } = workflowInfo();
    const { requestedBy: name } = this.input as { readonly requestedBy?: string };
    const claimed: Attested | undefined = name === undefined ? undefined : { name, how: 'claimed' };
    return {
      ...{ namespace, workflowId, runId, runbook: this.runbook, deployment: this.deployment },
      input: { ...this.input },
      requestedBy: this.site.startedBy ?? claimed,
      objectives: this.site.objectives,
      startedAt: startTime.getTime(),
      asOf: Date.now(),
      events: historyLength,
      activities: this.activities.records,
      facts: this.#facts,
      left: this.left.texts,
      phase: this.phase,
      waitingFor: this.#waitingFor(),
      carryingOut: this.#carryingOutText(),
      outageSince: this.outageSince,
      ending: this.ending,
    };
  }

  #waitingFor(): string | undefined {
    return [...this.waiting.values()].map(waitedFor).join('; ') || undefined;
  }

  #carryingOutText(): string | undefined {
    const iso = (at: number) => new Date(at).toISOString();
    const texts = this.#carryingOut.map((each) => carryingOutText(each, iso));
    return texts.map(({ title, text }) => `${title}${text}`).join(' ') || undefined;
  }

  /** Redraws the current details; costs no event. */
  show(): void {
    setCurrentDetails(currentDetails(this.status(), this.measured));
  }

  /**
   * Redraws the details, and the memo if it changed: `describe` shows the memo without a worker. A memo costs an event, so
   * only the last one of a workflow task is sent (`interceptors.ts`), and the short phases at the end are left to the result.
   */
  publish(): void {
    this.show();
    if (this.phase !== 'finishing' && this.phase !== 'finished') this.#writeMemo();
  }

  /**
   * Says in the memo how the run ended, and in Temporal's list if the attribute is registered: people tell runs apart without
   * a worker.
   */
  noteOutcome(outcome: RunOutcome, { inList = false }): void {
    const { runbook, deployment, phase } = this;
    const memo: RunMemo = { runbook, deployment, phase, outcome };
    upsertMemo({ step: null, waitingFor: null, carryingOut: null, outageSince: null, ...memo });
    if (inList) upsertSearchAttributes([{ key: OUTCOME_KEY, value: outcome }]);
  }

  #writeMemo(): void {
    const memo: RunMemo = {
      runbook: this.runbook,
      deployment: this.deployment,
      phase: this.phase,
      step: this.steps.at(-1)?.name,
      waitingFor: this.#waitingFor(),
      carryingOut: this.#carryingOutText(),
      outageSince:
        this.outageSince === undefined || !this.serviceIsOut ? undefined : new Date(this.outageSince).toISOString(),
    };
    const key = JSON.stringify([memo.phase, memo.waitingFor, memo.carryingOut, memo.outageSince]);
    if (key === this.#lastMemo) return;
    this.#lastMemo = key;
    // null removes a key that an earlier memo set.
    const gone = { waitingFor: null, carryingOut: null, outageSince: null };
    const present = Object.entries(memo).filter(([, value]) => value !== undefined);
    upsertMemo({ ...gone, ...Object.fromEntries(present) });
  }
}

function incidentIn(input: object): Pick<RunStatus, 'ticket' | 'incidentKey'> {
  const { ticket, incidentKey } = input as Pick<RunStatus, 'ticket' | 'incidentKey'>;
  return { ...(ticket !== undefined && { ticket }), ...(incidentKey !== undefined && { incidentKey }) };
}
