import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import type { Run } from '../engine/run';
import type { Parked } from './share-collection';
import { ShareCollection } from './share-collection';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Turns collected key shares into operation tokens, for several clusters from one ask. */
export class Ceremony extends ShareCollection implements TokenCeremony {
  readonly source = 'ceremony';
  readonly #request: CeremonyRequest;
  /** Of the keys of this epoch, in epoch milliseconds: they are destroyed so long after the shares were used first. */
  #keys: { readonly useForMs: number; readonly collectUntil: number; usedAt?: number } | undefined;

  constructor(run: Run, request: CeremonyRequest) {
    super(run, request.deployment);
    this.#request = request;
  }

  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  lastsFor(ms: number): boolean {
    if (!this.#keys) return false;
    const { usedAt, collectUntil, useForMs } = this.#keys;
    return Date.now() + ms < (usedAt ?? collectUntil) + useForMs;
  }

  isCurrent(): boolean {
    return true;
  }

  /** Its token was made a moment ago, for this very cluster. */
  takes(): Promise<boolean> {
    return Promise.resolve(true);
  }

  async collectAnew(): Promise<void> {
    await this.invite();
    await this.collect();
  }

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
      },
      parked,
    );
    return made && { source: 'sealed', cluster, value: made.token };
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
    return made;
  }
}
