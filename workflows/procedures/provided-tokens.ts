import { uuid4, workflowInfo } from '@temporalio/workflow';
import type { CeremonyHandle, CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Attested } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import type { InboxItem } from '../../src/contracts/signals';
import { attestedName } from '../../src/contracts/words';
import { activities } from '../engine/activity-calls';
import { outcomeOf } from './ceremony-decisions';
import { RunStopped, failureFacts } from '../engine/failures';
import type { Choice } from '../engine/parking';
import { ABORT, LEAVE } from '../engine/parking';
import { whereItStands } from '../engine/plain-shares';
import type { Run } from '../engine/run';
import type { Parked } from './share-collection';
import { receiveVerdicts } from '../engine/share-receipts';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** A sealed token opens for 24 h. */
const USED_FOR_MS = 23 * 3_600_000;
/** So long nobody asks the cluster again whether it takes a token. */
const PROVEN_FOR_MS = 60_000;
/** A part of the run that asks again does so with new keys where less than this is left. */
const COLLECTING_LEFT_MS = 60_000;
const KEYS_LOST = new Set(['WORKER_UNREACHABLE', 'KEY_RECORD_MISSING']);

interface Taken {
  readonly token: Sealed<'operation-token'>;
  readonly by: Attested | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
  provenAt?: number;
}

/**
 * Operation tokens that people generate themselves, with the command line of the service: no key share comes near this
 * system. One of those whom the inventory names gives each token to the run, sealed to its key.
 */
export class ProvidedTokens implements TokenCeremony {
  readonly source = 'provided';
  /** The attempts are people's own. */
  readonly fingerprint = undefined;
  readonly #run: Run;
  readonly #request: CeremonyRequest;
  readonly #cid = uuid4();
  #handle: CeremonyHandle | undefined;
  #keysLost: string | undefined;
  #inviting: Promise<void> | undefined;
  #closed = false;
  /** The latest token of each cluster. */
  readonly #taken = new Map<string, Taken>();

  constructor(run: Run, request: CeremonyRequest) {
    this.#run = run;
    this.#request = request;
  }

  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.#closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  isCurrent({ cluster, ...token }: OperationTokenReference): boolean {
    return token.source === 'sealed' && this.#usable(cluster)?.token === token.value;
  }

  async ready(): Promise<void> {
    const handle = this.#handle;
    if (handle && this.#keysLost === undefined && Date.now() < handle.collectUntil - COLLECTING_LEFT_MS) return;
    this.#inviting ??= this.#invite();
    try {
      await this.#inviting;
    } finally {
      this.#inviting = undefined;
    }
  }

  /** Waits for the first token, and proves it. A cluster that is no DR secondary yet has none: it is asked for when it is. */
  async collect(first = this.#request.targets[0]?.cluster): Promise<void> {
    const { deployment } = this.#request;
    const { observations } = await this.#run.step('Read the roles', (call) => call.readDeployment({ deployment }));
    if (first === undefined || observations.find((each) => each.cluster === first)?.dr?.mode !== 'secondary') return;
    do await this.#obtain(first, {});
    while (!(await this.takes(first)));
  }

  /** Each further token is asked for when it is needed. */
  lastsFor(): boolean {
    return true;
  }

  async collectAnew(): Promise<void> {
    await this.collect();
  }

  async generate(
    cluster: string,
    _uses: readonly TokenUse[],
    parked: Parked = {},
  ): Promise<OperationTokenReference | undefined> {
    const taken = await this.#obtain(cluster, parked);
    return taken && { source: 'sealed', cluster, value: taken.token };
  }

  async takes(cluster: string): Promise<boolean> {
    const { deployment } = this.#request;
    const taken = this.#usable(cluster);
    if (!taken) return false;
    // Where nobody serves the promotion itself is the proof.
    if (this.#run.state.serviceIsOut) return true;
    // The check reads the whole tree: two in a row prove no more than one.
    if (Date.now() - (taken.provenAt ?? 0) < PROVEN_FOR_MS) return true;
    const { state, text } = await this.#run.step(
      `Prove the operation token of ${cluster}`,
      (call) =>
        call.probeProvidedToken({ deployment, cluster, token: { source: 'sealed', cluster, value: taken.token } }),
      { note: (probed) => probed.text },
    );
    if (state !== 'refused') {
      taken.provenAt = Date.now();
      return true;
    }
    if (this.#taken.get(cluster) === taken) this.#taken.delete(cluster);
    this.#run.state.finding({
      severity: 'warning',
      code: 'provided-token-refused',
      text: `The operation token of ${cluster} from ${taken.by ? attestedName(taken.by) : 'somebody'} is of no use: ${text}.`,
      next: `Generate one on ${cluster} itself, which is a DR secondary, and give that. Delete or revoke the refused one where it belongs.`,
    });
    return false;
  }

  async close(): Promise<void> {
    const ceremony = this.#stopAsking();
    if (!ceremony) return;
    await this.#run.skippableStep(
      'Destroy the ceremony keys',
      'the sweeper of the worker destroys them when the invitation has expired',
      (call) => call.destroyCeremonyKeys({ deployment: this.#run.state.deployment, ceremony }),
      { note: (result) => result.text },
    );
  }

  async abandon(): Promise<void> {
    const ceremony = this.#stopAsking();
    if (!ceremony) return;
    await this.#run.cleanUp('Destroy the ceremony keys', async (call) => {
      await call.destroyCeremonyKeys({ deployment: this.#run.state.deployment, ceremony });
    });
  }

  #stopAsking(): CeremonyHandle | undefined {
    const ceremony = this.#handle;
    this.#closed = true;
    this.#handle = undefined;
    if (!ceremony) return undefined;
    this.#run.signals.on('share', undefined);
    this.#run.state.invitation = undefined;
    return ceremony;
  }

  #usable(cluster: string): Taken | undefined {
    const taken = this.#taken.get(cluster);
    return taken && Date.now() - taken.at < USED_FOR_MS ? taken : undefined;
  }

  async #invite(): Promise<void> {
    const before = this.#handle;
    if (before)
      this.#run.state.finding({
        severity: 'warning',
        code: 'ceremony-keys-lost',
        text: `The keys of epoch ${before.epoch} cannot be used any more (${this.#keysLost ?? 'EXPIRED'}): there are new ones.`,
      });
    const epoch = (before?.epoch ?? 0) + 1;
    const name = epoch === 1 ? 'Ask for operation tokens' : `Ask for operation tokens again (epoch ${epoch})`;
    const { deployment, runbook, reason, requestedBy, targets, inputDigest } = this.#request;
    const facts = { deployment, runbook, reason, requestedBy, targets, inputDigest, epoch, cid: this.#cid };
    const { fingerprint: _ours, ...handle } = await this.#run.step(
      name,
      (call) => call.createCeremony({ ...facts, collects: 'tokens' }),
      { note: ({ holders }) => `may provide them: ${holders.join(', ')}` },
    );
    this.#handle = handle;
    this.#keysLost = undefined;
    this.#run.state.invitation = handle.invitation;
    this.#run.signals.on('share', (items) => this.#receive(items));
  }

  /** The token of one cluster, once somebody gave it. @returns undefined where it was skipped */
  async #obtain(cluster: string, parked: Parked): Promise<Taken | undefined> {
    for (;;) {
      const taken = this.#usable(cluster);
      if (taken) return taken;
      if (this.#keysLost !== undefined || Date.now() >= (this.#handle?.collectUntil ?? 0)) await this.ready();
      const { workflowId } = workflowInfo();
      const key = `token:${cluster}`;
      this.#run.state.wait(key, {
        for: 'action',
        what: `an operation token of ${cluster}, which people generate themselves`,
        instructions: [
          `Generate it on ${cluster} with the command line of the service: \`vault operator generate-root -dr-token\`. Never give a key share to anything but the service.`,
          'One of those named gives the decoded token to this run. It is encrypted on that machine, and deleted at the end.',
        ],
        commands: this.#required().holders.map((who) => ({
          who,
          command: nextCommandOf.provideToken(workflowId, who),
        })),
      });
      try {
        if ((await this.#waitFor(cluster, parked)) === 'skipped') return undefined;
      } finally {
        this.#run.state.waitOver(key);
      }
    }
  }

  /** Inside an outage, and where it may be skipped, the clock never ends this wait, and people may go another way. */
  async #waitFor(cluster: string, parked: Parked): Promise<'again' | 'skipped'> {
    const run = this.#run;
    const { skipEffect, choices } = parked;
    const done = () => this.#usable(cluster) !== undefined || this.#keysLost !== undefined;
    const leftMs = Math.max(1000, this.#required().collectUntil - Date.now());
    if (run.inOutage || skipEffect !== undefined) {
      const failure = {
        code: 'TOKEN_MISSING',
        message: `${run.inOutage ? 'No cluster is primary, and an' : 'An'} operation token of ${cluster} is needed that people generate themselves.`,
        next: 'Generate and give it as shown; or decide for another way.',
        outcomeKnown: true,
      };
      const skip: readonly Choice[] = skipEffect === undefined ? [] : [{ action: 'skip', effect: skipEffect }];
      const ways = [...skip, ...(choices ?? [run.inOutage ? LEAVE : ABORT])];
      const decision = await run.decisionWhile(`Operation token of ${cluster}`, failure, ways, done, leftMs);
      if (decision) return outcomeOf(run, decision, cluster, parked);
    } else if (!(await run.waitFor(done, leftMs)) && !run.state.serviceIsOut) {
      const why = `nobody gave an operation token of ${cluster} in time; asked: ${this.#required().holders.join(', ')}`;
      throw run.stop(new RunStopped('the clock', why));
    }
    if (!done()) this.#keysLost = 'EXPIRED';
    return 'again';
  }

  async #receive(items: readonly InboxItem[]): Promise<void> {
    const { state } = this.#run;
    const { deployment } = this.#request;
    const arrived = items.map(({ arrival }) => arrival);
    try {
      const ceremony = this.#required();
      const { verdicts } = await state.besideSteps('Check provided tokens', () =>
        activities.takeProvidedTokens({ deployment, ceremony, arrived }),
      );
      receiveVerdicts(state, verdicts, 'token');
      for (const { cluster, token, holder, code, arrival, eventId } of verdicts) {
        if (code === 'plain-text-token') this.#notePlainToken(`signal share, number ${arrival}`, eventId);
        if (cluster === undefined || token === undefined || this.#taken.get(cluster)?.token === token) continue;
        this.#taken.set(cluster, { token, by: holder, at: Date.now() });
      }
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      if (KEYS_LOST.has(failure.code)) this.#keysLost = failure.code;
      const text = `could not be checked now (${failure.code}); send it again`;
      receiveVerdicts(
        state,
        arrived.map((arrival) => ({ arrival, code: 'not-checked', text })),
        'token',
      );
    }
  }

  #notePlainToken(what: string, eventId: number | undefined): void {
    const { state } = this.#run;
    const finding = {
      severity: 'critical',
      code: 'plain-text-token',
      text: `A token seems to stand in plain text in ${whereItStands({ what, eventId })}. It was refused and copied nowhere, and is in Temporal's database.`,
      next: 'In this order: end that token now (an operation token with operation-token/delete on its cluster, any other by revoking it); finish this run; then delete this run, its resets, exports and backups.',
    } as const;
    state.finding(finding);
    state.notifications.alarm(finding);
  }

  #required(): CeremonyHandle {
    if (!this.#handle) throw new TypeError('nobody was asked for tokens yet');
    return this.#handle;
  }
}
