import type { CeremonyHandle, CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { InboxItem } from '../../src/contracts/signals';
import type { Sealed } from '../../src/contracts/sealed';
import { stepCalls } from './activity-calls';
import type { StepCalls } from './activity-calls';
import { notLookedAt, receiveTokenVerdicts } from './encoded-tokens';
import { failureFacts } from './failures';
import type { Run } from './run';
import type { Parked } from './share-collection';
import { ShareCollection } from './share-collection';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Turns collected key shares into operation tokens, for several clusters from one ask. */
export class Ceremony extends ShareCollection implements TokenCeremony {
  readonly shares = 'sealed';
  readonly #owner: Run;
  readonly #request: CeremonyRequest;
  /** The newest invitation, whose keys open what is handed in. */
  #newest: CeremonyHandle | undefined;
  /** Handed in by people, and not used yet: of each cluster the last one is used where its burst parks. */
  #handedIn: { readonly cluster: string; readonly token: Sealed<'operation-token'> }[] = [];

  constructor(run: Run, request: CeremonyRequest) {
    super(run, request.deployment);
    this.#owner = run;
    this.#request = request;
  }

  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  get spare(): readonly OperationTokenReference[] {
    return this.#handedIn.map(({ cluster, token }) => ({ source: 'sealed', cluster, value: token }));
  }

  override async invite(): Promise<void> {
    await super.invite();
    this.#owner.signals.on('submitEncodedToken', (items) => this.#take(items));
  }

  /** By one burst; where that parks, a token that somebody hands in serves as well. */
  async generate(
    cluster: string,
    uses: readonly TokenUse[],
    parked: Parked = {},
  ): Promise<OperationTokenReference | undefined> {
    const { deployment } = this.#request;
    const made = await this.burst(
      {
        name: `Generate operation token on ${cluster}`,
        cluster,
        call: (call, shares) => call.generateOperationToken({ deployment, cluster, uses, ...shares }),
        instead: () => {
          const token = this.#handedIn.findLast((each) => each.cluster === cluster)?.token;
          return token && { token, attempts: 1, findings: [], badShares: [] };
        },
      },
      parked,
    );
    if (!made) return undefined;
    this.#handedIn = this.#handedIn.filter(({ token }) => token !== made.token);
    return { source: 'sealed', cluster, value: made.token };
  }

  override async close(): Promise<void> {
    this.#owner.signals.on('submitEncodedToken', undefined);
    await super.close();
  }

  override async abandon(): Promise<void> {
    this.#owner.signals.on('submitEncodedToken', undefined);
    await super.abandon();
  }

  protected async create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, runbook, reason, requestedBy, targets, inputDigest } = this.#request;
    const made = await call.createCeremony({
      deployment,
      runbook,
      reason,
      requestedBy,
      targets,
      inputDigest,
      ...round,
    });
    this.#newest = made;
    return made;
  }

  async #take(items: readonly InboxItem[]): Promise<void> {
    const { state } = this.#owner;
    const arrived = items.map(({ arrival }) => arrival);
    const ceremony = this.#newest;
    if (!ceremony) return;
    try {
      const call = stepCalls('Take an encoded token', () => state.sideContext('Take an encoded token'));
      const { verdicts, findings } = await call.takeEncodedToken({
        deployment: this.#request.deployment,
        ceremony: withoutFingerprint(ceremony),
        arrived,
      });
      receiveTokenVerdicts(state, verdicts);
      state.noteFindings(findings);
      for (const { cluster, token } of verdicts) if (cluster && token) this.#handedIn.push({ cluster, token });
    } catch (error) {
      const failure = failureFacts(error);
      if (!failure) throw error;
      const text = `could not be looked at now (${failure.code}); hand it in again`;
      receiveTokenVerdicts(state, notLookedAt(arrived, 'not-checked', text));
    }
  }
}

/** Routing needs the handle alone. */
export function withoutFingerprint(handle: CeremonyHandle & { readonly fingerprint?: string }): CeremonyHandle {
  const { fingerprint: _fingerprint, ...rest } = handle;
  return rest;
}
