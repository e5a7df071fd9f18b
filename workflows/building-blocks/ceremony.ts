import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import type { StepCalls } from './activity-calls';
import { HandedIn, takeOperationTokens, withoutFingerprint } from './handed-in';
import type { Run } from './run';
import type { Parked } from './share-collection';
import { ShareCollection } from './share-collection';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Turns collected key shares into operation tokens, for several clusters from one ask. */
export class Ceremony extends ShareCollection implements TokenCeremony {
  readonly shares = 'sealed';
  readonly #request: CeremonyRequest;
  /** Used where a burst parks: what a burst makes itself is surer. */
  readonly #handedIn: HandedIn<Sealed<'operation-token'>>;
  readonly #takenAt = new Map<string, number | undefined>();
  /** Of the keys of this epoch, in epoch milliseconds: they are destroyed so long after the shares were used first. */
  #keys: { readonly useForMs: number; readonly collectUntil: number; usedAt?: number } | undefined;

  constructor(run: Run, request: CeremonyRequest) {
    super(run, request.deployment);
    this.#request = request;
    this.#handedIn = new HandedIn(run, (call, ceremony, arrived) =>
      takeOperationTokens(call, request.deployment, ceremony, arrived),
    );
  }

  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  get spare(): readonly OperationTokenReference[] {
    return this.#handedIn.left.map(({ cluster, value }) => ({ source: 'sealed', cluster, value }));
  }

  lastsFor(ms: number): boolean {
    if (!this.#keys) return false;
    const { usedAt, collectUntil, useForMs } = this.#keys;
    return Date.now() + ms < (usedAt ?? collectUntil) + useForMs;
  }

  async collectAnew(): Promise<void> {
    await this.invite();
    await this.collect();
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
        call: (call, shares) => {
          if (this.#keys) this.#keys.usedAt ??= Date.now();
          return call.generateOperationToken({ deployment, cluster, uses, ...shares });
        },
        instead: () => {
          const token = this.#handedIn.of(cluster);
          return token && { token, attempts: 1, findings: [], badShares: [] };
        },
      },
      parked,
    );
    if (!made) return undefined;
    this.#takenAt.set(cluster, this.#handedIn.use(made.token));
    return { source: 'sealed', cluster, value: made.token };
  }

  takenAt(cluster: string): number | undefined {
    return this.#takenAt.get(cluster);
  }

  async stopHandIns(): Promise<void> {
    await this.#handedIn.finish();
  }

  override async close(): Promise<void> {
    this.#handedIn.stop();
    await super.close();
  }

  override async abandon(): Promise<void> {
    this.#handedIn.stop();
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
    this.#keys = { useForMs: made.useForMs ?? Infinity, collectUntil: made.collectUntil };
    this.#handedIn.listen(withoutFingerprint(made));
    return made;
  }
}
