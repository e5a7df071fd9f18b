import { setTimeout as delay } from 'node:timers/promises';
import type { Report } from '../../src/contracts/report';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { createEnvelope, parseShare, verifyInvitation } from '../../src/keys';
import { envelopeOf } from '../support/people';
import type { Scenario, TestRun } from '../support/scenario';
import type { Act, Holder, Order } from './orders';
import { HOLDERS } from './orders';

/** Each look is a query that the worker answers: the most of what an order costs beside its keys. */
const POLL_MS = 250;
/** Without anything new: a killed worker costs ten seconds, and the machine may be loaded many times over. */
export const WAIT_MS = 150_000;
const STARTS = 5;
const WAYS_OUT = new Set(['retry', 'skip', 'abort']);

type Parked = Extract<Waiting, { for: 'decision' }>;
type Missing = Extract<Waiting, { for: 'shares' }>;

/** What a run asked of people: who, and what exactly. */
export interface Asked {
  readonly action: string;
  readonly persons: readonly string[];
}

function isHolder(name: string): name is Holder {
  return HOLDERS.some((each) => each === name);
}

/** Everybody who has to do with one run. */
export class Player {
  readonly #scenario: Scenario;
  readonly #cluster: string;
  readonly #order: Order;
  readonly #asked: Asked[] = [];
  #sent = 0;
  readonly #called = new Set<string>();
  readonly #last = new Map<Holder, unknown>();
  readonly #secrets = new Map<string, string>();
  #seq = 0;
  #invitation = '';
  #run: TestRun | undefined;
  #ended: Promise<Report> | undefined;

  constructor(scenario: Scenario, cluster: string, order: Order) {
    this.#scenario = scenario;
    this.#cluster = cluster;
    this.#order = order;
    for (const name of HOLDERS) this.#secrets.set(`key share of ${name}`, scenario.person(name).share ?? '');
  }

  async play(invited: () => Promise<void>, freeSlot: () => Promise<void>) {
    const { acts, oneByOne } = this.#order;
    const run = await this.#untilInvited();
    await invited();
    for (const act of acts) {
      await this.send(act);
      const isAnswered = ({ receipts, outcome }: RunStatus) => receipts.length >= this.#sent || outcome !== undefined;
      if (oneByOne) await run.until('a receipt', isAnswered, WAIT_MS);
    }
    const report = await this.#answerUntilTheEnd(freeSlot);
    return { run, report, asked: this.#asked, secrets: this.#secrets };
  }

  /** On a slow machine a run may refuse what it read too late: it asked nobody and changed nothing, and is started again. */
  async #untilInvited(): Promise<TestRun> {
    for (let starts = 1; ; starts += 1) {
      const run = await this.#start();
      const invited = ({ invitation, outcome }: RunStatus) => invitation ?? (outcome && '');
      this.#invitation = await run.until('an invitation', invited, WAIT_MS);
      if (this.#invitation !== '') return run;
      const { outcome } = await run.status();
      if (outcome !== 'refused' || starts === STARTS)
        throw new Error(`ended without an invitation: ${JSON.stringify(await run.status(), undefined, 1)}`);
      // Its status shows the outcome a moment before it ends.
      await run.handle.result().catch(() => undefined);
    }
  }

  async #start(): Promise<TestRun> {
    const asked = { cluster: this.#cluster, uses: ['dr.promote'], keepFor: '1h', reason: `order ${this.#order.seed}` };
    const run = await this.#scenario.run('operationTokenCeremony', asked);
    this.#run = run;
    this.#sent = 0;
    if (this.#order.early) await this.#signal({ document: 'eyJhbGciOiJFZDI1NTE5In0.eyJjaWQiOiJlYXJseSJ9.c2ln' });
    return run;
  }

  async end(): Promise<void> {
    await this.#run?.handle.terminate('its order failed').catch(() => undefined);
  }

  async send(act: Act): Promise<void> {
    switch (act.act) {
      case 'share':
        return this.#give(act.holder, act.share);
      case 'correct':
        return this.#give(act.holder, 'right');
      case 'again':
        return this.#signal(this.#last.get(act.holder));
      case 'stranger':
        return this.#signal(await this.#envelopeOfStranger());
    }
  }

  async #give(holder: Holder, what: 'right' | 'wrong' | 'same' | 'short' | 'epoch'): Promise<void> {
    const { share = '' } = this.#scenario.person(holder);
    const neighbour = HOLDERS[(HOLDERS.indexOf(holder) + 1) % HOLDERS.length] ?? 'ada';
    const wrong = `${share.startsWith('00') ? '11' : '00'}${share.slice(2)}`;
    const given = {
      right: share,
      epoch: share,
      wrong,
      same: this.#scenario.person(neighbour).share ?? '',
      // Of 17 bytes, with the right x-coordinate.
      short: `${share.slice(0, 32)}${share.slice(-2)}`,
    }[what];
    if (what === 'wrong') this.#secrets.set(`wrong share of ${holder}`, wrong);
    const { epoch } = await this.#invited();
    const envelope = await envelopeOf(this.#scenario.person(holder), this.#invitation, this.#scenario.workersKey, {
      share: given,
      seq: ++this.#seq,
      ...(what === 'epoch' ? { epoch: epoch + 1 } : {}),
    });
    this.#last.set(holder, envelope);
    await this.#signal(envelope);
  }

  async #invited() {
    const pins = [{ environment: 'test', ...this.#scenario.workersKey }];
    const { invitation, digest } = await verifyInvitation(this.#invitation, { pins, now: Date.now(), holder: 'ada' });
    return { invitation, digest, epoch: invitation.epoch, cid: invitation.cid };
  }

  async #envelopeOfStranger() {
    const { invitation, digest } = await this.#invited();
    const { key } = this.#scenario.person('grace');
    const share = parseShare('5a'.repeat(33));
    const document = await createEnvelope({
      ...{ invitation, invitationDigest: digest, holder: 'grace', seq: 1, share, signingKey: key },
    });
    return { document };
  }

  async #signal(content: unknown): Promise<void> {
    this.#sent += 1;
    await this.#run?.handle.signal('share', content).catch((error: unknown) => {
      // A late share may come after the end.
      this.#sent -= 1;
      if (!String(error).includes('already completed')) throw error;
    });
  }

  /** People do what the run asks, until it ends. */
  async #answerUntilTheEnd(freeSlot: () => Promise<void>): Promise<Report> {
    let deadline = Date.now() + WAIT_MS;
    let seen = '';
    let answered: string | false = '';
    while (Date.now() < deadline) {
      const report = await this.#reportWithin(POLL_MS);
      if (report) return report;
      const status = await this.#status();
      const shown = JSON.stringify([status?.phase, status?.steps, status?.waiting, status?.receipts.length]);
      if (shown !== seen) deadline = Date.now() + WAIT_MS;
      seen = shown;
      const waiting = status?.waiting.find(({ for: kind }) => kind === 'shares' || kind === 'decision');
      if (!status || !waiting || status.receipts.length < this.#sent) continue;
      const question =
        waiting.for === 'decision'
          ? `parking ${waiting.parkingNo}`
          : waiting.for === 'shares' && `shares ${waiting.epoch} ${waiting.threshold} ${status.receipts.length}`;
      if (question === answered) continue;
      answered = question;
      if (waiting.for === 'shares') await this.#giveWhatIsMissing(waiting);
      else if (waiting.for === 'decision') await this.#decide(waiting, freeSlot);
    }
    throw new Error(`no end in time; last status ${JSON.stringify(await this.#status(), undefined, 1)}`);
  }

  /** The run says who is missing; those give, or those whose share was rejected correct it, or all give up. */
  async #giveWhatIsMissing({ missingHolders: persons, held }: Missing): Promise<void> {
    const asked = persons.length > 0 ? persons : held;
    this.#asked.push({ action: 'give a key share', persons: asked });
    if (this.#order.people === 'give up') return this.#giveUp('nobody can be reached');
    // One after the other: a share that somebody else gave as his own is refused, and so another holder is called.
    const next = persons.find((name): name is Holder => isHolder(name) && !this.#called.has(name));
    if (next !== undefined) {
      this.#called.add(next);
      return this.#give(next, 'right');
    }
    // Everybody was called: the run cannot say whose share is wrong, and all look again.
    for (const name of held.filter(isHolder)) await this.#give(name, 'right');
    for (const name of persons.filter(isHolder)) await this.#give(name, 'right');
  }

  async #decide(parked: Parked, freeSlot: () => Promise<void>): Promise<void> {
    const choices = parked.choices.map(({ action }) => action);
    if (choices.length === 0 || !choices.every((each) => WAYS_OUT.has(each)))
      throw new Error(`odd choices ${choices.join()}`);
    // Whoever of the inventory may decide: two of them are named in the order.
    this.#asked.push({ action: `decide "${parked.step}": ${parked.code}`, persons: ['grace', 'henry'] });
    if (this.#order.people === 'give up' || this.#order.foreign === 'they give up') {
      await this.#run?.decide('abort', parked.step);
      return;
    }
    if (parked.code === 'ATTEMPT_FOREIGN') await freeSlot();
    await this.#run?.decide('retry', parked.step);
  }

  async #giveUp(reason: string): Promise<void> {
    await this.#run?.control('abort', { reason });
  }

  async #reportWithin(ms: number): Promise<Report | undefined> {
    this.#ended ??= this.#run?.handle.result() as Promise<Report>;
    return Promise.race([this.#ended, delay(ms, undefined, { ref: false })]);
  }

  async #status(): Promise<RunStatus | undefined> {
    try {
      return await this.#run?.status();
    } catch {
      return undefined;
    }
  }
}
