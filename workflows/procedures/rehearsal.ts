import { uuid4 } from '@temporalio/workflow';
import type { RehearsalProof } from '../../src/contracts/activities';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import { holdsKeyShare } from '../../src/contracts/plain-shares';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { Declined } from '../../src/contracts/run-status';
import type { InboxItem } from '../../src/contracts/signals';
import { activities } from '../engine/activity-calls';
import { receiveDeclines } from '../engine/decline-receipts';
import { failureFacts } from '../engine/failures';
import type { Run } from '../engine/run';
import { receiveVerdicts } from '../engine/share-receipts';

export interface RehearsalRequest {
  readonly deployment: string;
  readonly reason: string;
  readonly requestedBy: string;
  readonly holders: readonly string[];
  /** A duration such as `2d`. */
  readonly collectFor: string;
}

/** Codes after which the keys cannot be used any more: those who have not answered are invited again. */
const KEYS_LOST = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);
/** An answer that came in time is still looked at. */
const LAST_CHECK_MS = 30_000;
/** A new invitation is worth it where at least this is left to answer it. */
const WORTH_INVITING_MS = 60_000;

/**
 * The way of a ceremony without its end: an invitation under a type of its own, answers that are checked and opened where
 * the key is, and the key destroyed. Nothing is made of the answers, and no cluster is called.
 */
export class Rehearsal {
  readonly #run: Run;
  readonly #request: RehearsalRequest;
  readonly #cid = uuid4();
  readonly #proofs = new Map<string, RehearsalProof>();
  readonly #declined = new Map<string, Declined>();
  #handle: CeremonyHandle | undefined;
  /** Code of the failure with which the key turned out to be gone. */
  #keysLost: string | undefined;
  /** Checks under way. */
  #checking = 0;
  /** When the time of the first invitation is over: later ones do not make the rehearsal longer. */
  #until: number | undefined;

  constructor(run: Run, request: RehearsalRequest) {
    this.#run = run;
    this.#request = request;
  }

  /** What each person who answered has proven, by name. */
  get proofs(): ReadonlyMap<string, RehearsalProof> {
    return this.#proofs;
  }

  /** Who cannot answer, by name, and has not answered all the same. */
  get declined(): ReadonlyMap<string, Declined> {
    return new Map([...this.#declined].filter(([name]) => !this.#proofs.has(name)));
  }

  /** Makes key and invitation for those who have not answered yet; who declined may answer all the same. */
  async invite(): Promise<void> {
    const { deployment, reason, requestedBy, collectFor } = this.#request;
    const holders = this.#request.holders.filter((name) => !this.#proofs.has(name));
    const epoch = (this.#handle?.epoch ?? 0) + 1;
    const name = epoch === 1 ? 'Invite to the rehearsal' : `Invite to the rehearsal again (epoch ${epoch})`;
    const inputDigest = `${deployment}/${holders.join('+')}`;
    const handle = await this.#run.step(
      name,
      (call) =>
        call.createRehearsal({
          ...{ deployment, reason, requestedBy, collectFor, holders, epoch, inputDigest },
          cid: this.#cid,
        }),
      { note: ({ holders: invited }) => `${invited.length} people; no key share is asked for` },
    );
    this.#handle = handle;
    this.#until ??= handle.collectUntil;
    this.#keysLost = undefined;
    this.#run.state.invitation = handle.invitation;
    const by = { name: requestedBy, how: 'claimed' } as const;
    this.#run.state.asked = { kind: 'rehearsal', targets: [], requestedBy: by, reason };
    this.#run.signals.on('share', (items) => this.#receive(items));
    this.#run.signals.on('decline', (items) => this.#decline(items));
  }

  /** Waits until everybody has answered or declined, or the time is over. */
  async collect(): Promise<void> {
    for (;;) {
      const left = this.#timeLeft();
      if (this.#missing().length === 0 || left <= 0) break;
      this.#show();
      await this.#run.waitFor(() => this.#missing().length === 0 || this.#keysLost !== undefined, left);
      if (this.#keysLost === undefined) continue;
      this.#tellKeysLost(this.#keysLost);
      if (this.#timeLeft() < WORTH_INVITING_MS) break;
      await this.invite();
    }
    if (this.#checking > 0) await this.#run.waitFor(() => this.#checking === 0, LAST_CHECK_MS);
    this.#run.state.waitOver('rehearsal');
  }

  /** Destroys the key: recorded answers cannot be opened any more. */
  async close(): Promise<void> {
    const ceremony = this.#end();
    if (!ceremony) return;
    await this.#run.skippableStep(
      'Destroy the key of the rehearsal',
      'the sweeper of the worker destroys it when the invitation has expired',
      (call) => call.destroyCeremonyKeys({ deployment: this.#run.state.deployment, ceremony }),
      { note: (result) => result.text },
    );
  }

  /** As {@link close}, for a run that ends early: a failure becomes a finding and never holds the lock. */
  async abandon(): Promise<void> {
    const ceremony = this.#end();
    if (!ceremony) return;
    await this.#run.cleanUp('Destroy the key of the rehearsal', async (call) => {
      await call.destroyCeremonyKeys({ deployment: this.#run.state.deployment, ceremony });
    });
  }

  #end(): CeremonyHandle | undefined {
    const handle = this.#handle;
    this.#handle = undefined;
    for (const name of ['share', 'decline'] as const) this.#run.signals.on(name, undefined);
    this.#run.state.invitation = undefined;
    this.#run.state.waitOver('rehearsal');
    return handle;
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const ceremony = this.#handle;
    if (!ceremony) return;
    this.#checking += 1;
    const { deployment } = this.#request;
    const arrived = items.map(({ arrival }) => arrival);
    try {
      const { verdicts, proofs } = await this.#run.state.besideSteps('Check answers', () =>
        activities.openRehearsal({ deployment, ceremony, arrived }),
      );
      receiveVerdicts(this.#run.state, verdicts);
      for (const proof of proofs) this.#proofs.set(proof.name, proof);
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      const lost = KEYS_LOST.has(failure.code);
      if (lost) this.#keysLost = failure.code;
      const text = lost
        ? 'refused: the key of this rehearsal is gone; a new invitation follows'
        : `could not be checked now (${failure.code}); send it again`;
      const code = lost ? 'keys-gone' : 'not-checked';
      receiveVerdicts(
        this.#run.state,
        items.map(({ arrival, input }) =>
          holdsKeyShare(input)
            ? { arrival, code: 'plain-text-share', text: ENVELOPE_VERDICTS['plain-text-share'] }
            : { arrival, code, text },
        ),
      );
    } finally {
      this.#checking -= 1;
    }
    if (this.#run.state.waiting.has('rehearsal')) this.#show();
  }

  /** Who cannot answer is not waited for. */
  async #decline(items: readonly InboxItem[]): Promise<void> {
    const ceremony = this.#handle;
    if (!ceremony) return;
    const { state } = this.#run;
    const { cid, epoch, keyHome } = ceremony;
    // Who has answered has nothing left to decline.
    const holders = ceremony.holders.filter((name) => !this.#proofs.has(name));
    this.#checking += 1;
    const arrived = items.map(({ arrival }) => arrival);
    try {
      const asked = { deployment: this.#request.deployment, ceremony: { cid, epoch, keyHome, holders } };
      const { verdicts } = await state.besideSteps('Check declines', () =>
        activities.noteRehearsalDeclines({ ...asked, arrived }),
      );
      for (const declined of receiveDeclines(state, verdicts, [])) this.#declined.set(declined.by.name, declined);
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      const text = `could not be checked now (${failure.code}); send it again`;
      receiveDeclines(
        state,
        arrived.map((arrival) => ({ arrival, accepted: false, code: 'not-checked', text })),
        [],
      );
    } finally {
      this.#checking -= 1;
    }
    if (state.waiting.has('rehearsal')) this.#show();
  }

  #tellKeysLost(code: string): void {
    this.#run.state.finding({
      severity: 'warning',
      code: 'rehearsal-key-lost',
      text: `The key of the rehearsal cannot be used any more (${code}); who has not answered is invited again.`,
      next: 'See why the worker lost its key directory: in a ceremony the holders would be asked again.',
    });
  }

  #show(): void {
    this.#run.state.wait('rehearsal', {
      for: 'rehearsal',
      epoch: this.#handle?.epoch ?? 1,
      answered: [...this.#proofs.keys()],
      missing: this.#missing(),
      ...(this.declined.size > 0 && { declined: [...this.declined.values()] }),
      until: this.#until ?? Date.now(),
    });
  }

  #missing(): string[] {
    return this.#request.holders.filter((name) => !this.#proofs.has(name) && !this.#declined.has(name));
  }

  #timeLeft(): number {
    return (this.#until ?? Date.now()) - Date.now();
  }
}
