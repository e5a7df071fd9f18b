import { CancellationScope, condition, proxyActivities } from '@temporalio/workflow';
import type { RunbookActivities } from '../../activities';
import type { RunbookName } from '../../src/contracts/names';
import type { Notification, NotificationEvent, NotificationFacts } from '../../src/contracts/notifications';
import { directionOf, planIn } from '../../src/contracts/plan';
import type { PlanDocument } from '../../src/contracts/plan';
import type { Finding, RunOutcome, RunPhase } from '../../src/contracts/run-facts';
import type { Waiting } from '../../src/contracts/run-status';
import { CHECK_FAILED, criticalOpen } from '../../src/contracts/run-status';
import { failureFacts } from './failures';

/** Reminders come at the configured interval. After this many of one wait, the interval doubles each time. */
const STEADY_REMINDERS = 6;
const LONGEST_INTERVAL_MS = 6 * 3_600_000;
/** How long the end of a run waits for notifications that are under way. People wait for the lock. */
const LAST_WAIT_MS = 15_000;
/** How long the news of the end waits for that of the start. A target that is down must not keep it back. */
const IN_ORDER_MS = 3_000;

/**
 * Its own few attempts within a short time. The activity itself retries each target, and another attempt by Temporal, after a
 * lost worker, would notify the others twice.
 */
const { notify } = proxyActivities<Pick<RunbookActivities, 'notify'>>({
  startToCloseTimeout: '30 seconds',
  scheduleToCloseTimeout: '1 minute',
  heartbeatTimeout: '10 seconds',
  retry: { maximumAttempts: 2, initialInterval: '2 seconds' },
  summary: 'Notify people outside the run',
});

/** The run that people are notified about, as its state has it. */
interface NotifiedRun {
  readonly deployment: string;
  readonly runbook: RunbookName;
  readonly plan: PlanDocument | undefined;
  readonly waiting: ReadonlyMap<string, Waiting>;
  readonly findings: readonly Finding[];
  readonly serviceIsOut: boolean;
  readonly serviceBackAt: number | undefined;
  readonly holdsClients: boolean;
  /** What people call the matter outside. */
  readonly incident: Pick<Notification, 'ticket' | 'incidentKey'>;
  finding(finding: Finding): void;
}

type Message = Pick<Notification, 'event' | 'severity' | 'subject'> & Partial<Notification>;

/**
 * Notifies people outside the run. It works in the background: no step waits for it, a target that is down becomes one finding,
 * and a site without targets costs no history event.
 */
export class Notifications {
  #site: NotificationFacts | undefined;
  /** `true`: only alarms, for a run that touches nothing. `unless-wrong`: not that it started or ended well. */
  quiet: boolean | 'unless-wrong' = false;
  #startedAs: RunbookName | undefined;
  #number = 0;
  #pending = 0;
  /** Whether it is under way that the run started. */
  #starting = false;
  readonly #failed = new Set<string>();
  /** Subjects for which a target was told to open an incident, each with the delivery of its last notification. */
  readonly #incidents = new Map<string, Promise<void>>();
  /** What is waited for, each with its own mark: a wait that ended and began again is another one. */
  readonly #open = new Map<string, symbol>();
  /** Whether there ever was one. */
  #opened = false;
  #protectedAgain = false;

  constructor(private readonly state: NotifiedRun) {}

  /** Sets what the workers' inventory says. Notifications begin here. */
  begin(site: NotificationFacts | undefined): void {
    if (this.quiet === true || !site) return;
    this.#site = site;
    const { runbook } = this.state;
    if (this.#startedAs === runbook) return;
    const tookOver = this.#startedAs;
    this.#startedAs = runbook;
    this.#notify({ event: 'started', severity: 'info', subject: 'run', ...(tookOver && { tookOver }) });
    for (const [key, waiting] of this.state.waiting) this.waitBegan(key, waiting);
  }

  /** The run waits for people. A parked step is reported at once; inside an outage it is meant to wake somebody. */
  waitBegan(key: string, waiting: Waiting): void {
    const site = this.#site;
    // This waits for the clock, not for people.
    if (!site || waiting.for === 'window') return;
    const mark = Symbol(key);
    this.#open.set(key, mark);
    const event = waiting.for === 'decision' ? 'parked' : 'waiting-for-people';
    const severity = this.#keepsClientsOut ? 'critical' : event === 'parked' ? 'warning' : 'info';
    this.#notify({ event, severity, subject: `wait:${key}`, waiting });
    if (waiting.for === 'action' && waiting.toldOnce) return;
    void CancellationScope.nonCancellable(() => this.#remind(site, key, mark));
  }

  /** Something happened to a wait. It is reported together with what is waited for now. */
  ofWait(key: string, event: NotificationEvent, words: string): void {
    const waiting = this.state.waiting.get(key);
    const severity = this.#keepsClientsOut ? 'critical' : 'info';
    this.#notify({ event, severity, subject: `wait:${key}`, words, ...(waiting && { waiting }) });
  }

  waitOver(key: string): void {
    this.#open.delete(key);
    this.#close(`wait:${key}`);
  }

  allWaitsOver(): void {
    this.#open.clear();
    for (const subject of [...this.#incidents.keys()]) if (subject.startsWith('wait:')) this.#close(subject);
  }

  /** Closes the incident of a subject that is over; nothing is sent if there is none. */
  #close(subject: string): void {
    if (this.#incidents.has(subject)) this.#send({ event: 'over', severity: 'info', subject, closes: [subject] });
  }

  phaseChanged(from: RunPhase, to: RunPhase): void {
    if (to === 'outage' && from !== 'outage') {
      this.#notify({ event: 'outage-started', severity: 'critical', subject: 'outage' });
    } else if (from === 'outage' && this.state.serviceBackAt !== undefined) {
      this.serviceReady();
    }
  }

  serviceReady(): void {
    const closes = this.#incidents.has('outage') && ['outage'];
    this.#notify({ event: 'service-ready', severity: 'info', subject: 'outage', ...(closes && { closes }) });
  }

  /** A DR secondary streams from the new primary. Only the first one is reported. */
  protectedAgain(secondary: string, primary: string): void {
    if (this.#protectedAgain) return;
    this.#protectedAgain = true;
    const streaming = { secondary, primary };
    this.#notify({ event: 'protected-again', severity: 'info', subject: 'protection', streaming });
  }

  /** Something that cannot wait for the report. Sent at once, even by a quiet run, and before the site is known. */
  alarm({ code, text: words }: Finding): void {
    const subject = `finding:${code}`;
    this.#send({ event: 'critical-finding', severity: 'critical', subject, finding: code, words });
  }

  finished(outcome: RunOutcome, leftToDo: readonly string[]): void {
    this.#open.clear();
    const left = criticalOpen({ findings: this.state.findings, leftToDo });
    const critical = this.#keepsClientsOut || left.length > 0;
    // What is wrong stays wrong when nobody works on it any more.
    const stays = (subject: string) =>
      (subject === 'outage' && this.#keepsClientsOut) || left.some(({ code }) => subject === `finding:${code}`);
    const closes = [...this.#incidents.keys()].filter((subject) => !stays(subject));
    // In the incident, everything of this run has one key: only the run itself can be over.
    if (this.#opened && this.quiet === false && this.state.incident.incidentKey !== undefined) closes.push('run');
    const severity = critical ? 'critical' : outcome === 'completed' && leftToDo.length === 0 ? 'info' : 'warning';
    const [first, ...others] = this.state.findings.filter(({ code }) => code === CHECK_FAILED);
    const words = first && `${others.length > 0 ? `${others.length + 1} checks failed. ` : ''}${first.text}`;
    const more = { ...(words && { words }), ...(closes.length > 0 && { closes }) };
    this.#notify({ event: 'finished', severity, subject: 'run', outcome, leftToDo, ...more });
  }

  /** Waits a short time for what is under way. What is not confirmed by then becomes a finding. */
  async settle(): Promise<void> {
    if (
      this.#pending === 0 ||
      (await condition(() => this.#pending === 0, LAST_WAIT_MS, { summary: 'notifications are given up' }))
    )
      return;
    this.state.finding({
      severity: 'info',
      code: 'notification-pending',
      text: `${this.#pending} notifications were still under way when the run ended.`,
    });
  }

  /** Whether the wait keeps clients out. */
  get #keepsClientsOut(): boolean {
    return this.state.serviceIsOut || this.state.holdsClients;
  }

  async #remind(site: NotificationFacts, key: string, mark: symbol): Promise<void> {
    const since = Date.now();
    const wants = (event: NotificationEvent) => site.events.includes(event);
    let reminders = 0;
    let remindAt = wants('reminder') ? since + site.remindAfterMs : Infinity;
    let escalateAt = wants('escalation') ? since + site.escalateAfterMs : Infinity;
    for (;;) {
      const next = Math.min(remindAt, escalateAt);
      if (next === Infinity) return;
      const over = () => this.#open.get(key) !== mark;
      const summary = next === escalateAt ? 'notify people again: escalation' : 'remind people';
      if (await condition(over, Math.max(1, next - Date.now()), { summary })) return;
      const waiting = this.state.waiting.get(key);
      if (!waiting) return;
      const about = { subject: `wait:${key}`, since, waiting };
      const now = Date.now();
      if (now >= escalateAt) {
        escalateAt = Infinity;
        this.#notify({ event: 'escalation', severity: this.#keepsClientsOut ? 'critical' : 'warning', ...about });
      }
      if (now >= remindAt) {
        reminders += 1;
        const doubled = site.remindAfterMs * 2 ** Math.max(0, reminders - STEADY_REMINDERS);
        remindAt = now + Math.min(doubled, Math.max(site.remindAfterMs, LONGEST_INTERVAL_MS));
        this.#notify({ event: 'reminder', severity: this.#keepsClientsOut ? 'critical' : 'info', ...about });
      }
    }
  }

  #notify(message: Message): void {
    const closes = (message.closes ?? []).length > 0;
    if (!this.#site?.events.includes(message.event) && !closes) return;
    const asUsual = message.event === 'started' || (message.event === 'finished' && message.severity === 'info');
    if (this.quiet === 'unless-wrong' && asUsual && !closes) return;
    this.#send(message);
  }

  #send(message: Message): void {
    this.#number += 1;
    const { deployment, runbook, plan } = this.state;
    const content = plan && planIn(plan.text);
    const notification = {
      ...(content && { ...directionOf(content), reason: content.reason, requestedBy: content.requestedBy }),
      ...message,
      ...this.state.incident,
      runbook,
      number: this.#number,
      at: Date.now(),
      ...(this.state.serviceIsOut && { inOutage: true }),
      ...(this.state.holdsClients && { clientsHeld: true }),
    };
    const { event, severity, subject, closes = [] } = message;
    // What closes an incident must not overtake what opens it.
    const earlier = closes.flatMap((each) => this.#incidents.get(each) ?? []);
    for (const each of closes) this.#incidents.delete(each);
    const deliver = async () => {
      if (earlier.length > 0) await Promise.all(earlier);
      // A run that is refused ends while people are told that it started.
      if (event === 'finished' && this.#starting) await condition(() => !this.#starting, IN_ORDER_MS);
      await this.#deliver(deployment, notification);
    };
    this.#pending += 1;
    if (event === 'started') this.#starting = true;
    const delivered = CancellationScope.nonCancellable(deliver).then(() => {
      this.#pending -= 1;
      if (event === 'started') this.#starting = false;
    });
    const before = this.#incidents.get(subject) ?? Promise.resolve();
    if (this.#opensIncident(event, severity)) {
      this.#opened = true;
      this.#incidents.set(
        subject,
        before.then(() => delivered),
      );
    } else void delivered;
  }

  /** Before the site is known, an alarm may open one. Nobody is woken because a run waits, unless clients wait with it. */
  #opensIncident(event: NotificationEvent, severity: Notification['severity']): boolean {
    if (event === 'waiting-for-people' && severity !== 'critical') return false;
    return this.#site ? this.#site.opens?.includes(event) === true : event === 'critical-finding';
  }

  /** Never throws: a failed notification must not stop the run. */
  async #deliver(deployment: string, notification: Notification): Promise<void> {
    try {
      const { failed } = await notify({ deployment, notification });
      for (const { target, kind, why } of failed)
        this.#noteFailed(target, `${target} (${kind}) did not get the notification ${notification.event}: ${why}.`);
    } catch (error) {
      const code = failureFacts(error)?.code ?? 'INTERNAL';
      this.#noteFailed('', `The notification ${notification.event} was not delivered (${code}).`);
    }
  }

  /** One finding per target, for the first failure. */
  #noteFailed(target: string, text: string): void {
    if (this.#failed.has(target)) return;
    this.#failed.add(target);
    this.state.finding({
      severity: 'warning',
      code: 'notification-failed',
      text,
      next: 'Fix the target, in the inventory or where it runs. The run does not depend on it.',
    });
  }
}
