import { condition } from '@temporalio/workflow';
import type { InboxItem, SignalName } from '../../src/contracts/signals';
import { inParallel } from './parallel';
import { refusePlainShares } from './plain-shares';
import type { RunState } from './run-state';
import { refuseDeclines } from './decline-receipts';
import { refuseShares } from './share-receipts';
import type { SignalInbox } from './signal-inbox';

type Processor = (items: readonly InboxItem[]) => Promise<void>;

/** Signals whose checks may take different time. */
const LANES: readonly (readonly SignalName[])[] = [
  ['share', 'decline'],
  ['approve'],
  ['decide'],
  ['pause', 'resume', 'abort', 'takeOver'],
];

const NEXT_IN_FLOOD =
  'Find out who sends them, and take their right to signal away. `runbook approve` and `runbook decide` go another way by themselves.';

/** Gives each signal to whoever looks at its name, from the first await of a runbook until its end. */
export class SignalPump {
  readonly #state: RunState;
  readonly #inbox: SignalInbox;
  readonly #processors = new Map<SignalName, Processor>();
  #closing = false;

  constructor(state: RunState, inbox: SignalInbox) {
    this.#state = state;
    this.#inbox = inbox;
    this.on('share', undefined);
    this.on('decline', undefined);
  }

  /** Says who looks at the signals of a name from now on. Without anybody, they stay in the inbox. */
  on(name: SignalName, processor: Processor | undefined): void {
    if (processor) this.#processors.set(name, processor);
    else if (name === 'share') this.#processors.set(name, (items) => refuseShares(this.#state, items));
    else if (name === 'decline') this.#processors.set(name, (items) => refuseDeclines(this.#state, items));
    else this.#processors.delete(name);
  }

  /**
   * Looks at every signal until {@link close}; started before the first await of the runbook. Shares, approvals and
   * orders are looked at side by side: a slow check of one must not hold back a decision inside an outage.
   */
  async pump(): Promise<void> {
    await inParallel([this.#pumpPlain(), this.#watchFlood(), ...LANES.map((lane) => this.#pumpLane(lane))]);
  }

  /** What seems to be a key share in plain text is refused beside everything else, and before the run ends. */
  async #pumpPlain(): Promise<void> {
    for (;;) {
      await condition(() => this.#inbox.plainWaits || this.#closing);
      if (!this.#inbox.plainWaits) return;
      await refusePlainShares(this.#state, this.#inbox.takePlain());
      this.#state.show();
    }
  }

  /** Says at once what is not looked at any more, and warns people while the server still takes signals. */
  async #watchFlood(): Promise<void> {
    const told = new Set<SignalName>();
    let warned = false;
    const newly = () => this.#inbox.beyond.size > told.size || (!warned && this.#inbox.flood !== undefined);
    for (;;) {
      await condition(() => newly() || this.#closing);
      if (!newly()) return;
      for (const name of this.#inbox.beyond.keys()) {
        if (told.has(name)) continue;
        told.add(name);
        this.#state.finding({
          severity: 'warning',
          code: 'too-many-signals',
          text: `More signals ${name} came than this run looks at, in all or in one person's name: further ones are refused unread, and only counted.`,
          next: NEXT_IN_FLOOD,
        });
      }
      if (!warned && this.#inbox.flood !== undefined) {
        warned = true;
        const finding = {
          severity: 'critical',
          code: 'signal-flood',
          text: `${this.#inbox.flood} signals came to this run. The server takes 10,000 and refuses every further one, also of people who are waited for.`,
          next: NEXT_IN_FLOOD,
        } as const;
        this.#state.finding(finding);
        this.#state.notifications.alarm(finding);
      }
    }
  }

  async #pumpLane(lane: readonly SignalName[]): Promise<void> {
    const orders = lane.includes('abort');
    const waits = () =>
      (orders && this.#inbox.unknownWaits) ||
      lane.some((name) => this.#inbox.holds(name) && this.#processors.has(name));
    for (;;) {
      await condition(() => waits() || this.#closing);
      if (!waits()) return;
      if (orders) this.#receiveUnknown();
      for (const name of lane) {
        // Asked for only now: while another signal was looked at, a ceremony or a gate may have ended.
        const processor = this.#processors.get(name);
        const items = processor ? this.#inbox.take(name) : [];
        if (processor && items.length > 0) await processor(items);
      }
      this.#state.show();
    }
  }

  /** What still waits gets a receipt and the pump ends. */
  close(): void {
    this.on('approve', (items) => {
      for (const { arrival } of items) {
        this.#state.receipt({
          signal: 'approve',
          arrival,
          verdict: 'refused',
          code: 'no-gate-open',
          text: 'no gate waits for an approval any more',
        });
      }
      return Promise.resolve();
    });
    const beyond = this.#inbox.unknownWithoutReceipt;
    if (beyond > 0) {
      this.#state.finding({
        severity: 'warning',
        code: 'unknown-signals',
        text: `${beyond} more signals of unknown names arrived than the run gives receipts for.`,
        next: 'Find out who sends them: each costs an event of this run.',
      });
    }
    const notLookedAt = [...this.#inbox.beyond].map(([name, count]) => `${count} ${name}`);
    if (notLookedAt.length > 0) {
      this.#state.finding({
        severity: 'warning',
        code: 'signals-not-looked-at',
        text: `Signals that this run refused unread: ${notLookedAt.join(', ')}.`,
        next: NEXT_IN_FLOOD,
      });
    }
    this.#closing = true;
  }

  /** What came while the report was written is not in it: the status of the ended run tells what became of it. */
  refuseLate(): void {
    for (const { signal, arrival } of this.#inbox.takeAll()) {
      const text = 'refused: the run has ended';
      this.#state.receipt({ signal, arrival, verdict: 'refused', code: 'run-ended', text });
    }
    this.#state.show();
  }

  #receiveUnknown(): void {
    for (const { name, arrival } of this.#inbox.takeUnknown()) {
      this.#state.receipt({
        signal: 'unknown',
        arrival,
        verdict: 'refused',
        code: 'unknown-signal',
        text: `no runbook knows the signal ${name}`,
      });
    }
  }
}
