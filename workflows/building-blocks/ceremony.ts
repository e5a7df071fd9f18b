import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from './activity-calls';
import type { Run } from './run';
import type { Parked } from './share-collection';
import { ShareCollection } from './share-collection';

export interface CeremonyRequest {
  readonly deployment: string;
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  /** Every cluster on which the run will need a token, so that each holder is asked once. */
  readonly targets: readonly CeremonyTarget[];
  readonly inputDigest: string;
}

/** Turns collected key shares into operation tokens, for several clusters from one ask. */
export class Ceremony extends ShareCollection {
  readonly #request: CeremonyRequest;

  constructor(run: Run, request: CeremonyRequest) {
    super(run, request.deployment);
    this.#request = request;
  }

  /** Whether the holders were asked for this, so that nobody has to be asked again. */
  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  /**
   * The token of one cluster, by one burst.
   *
   * @param parked - choices beside `retry` where the burst parks; with `skipEffect` people may skip it
   * @returns undefined where it was skipped
   */
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
      },
      parked,
    );
    return made && { source: 'sealed', cluster, value: made.token };
  }

  protected create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    return call.createCeremony({ ...this.#request, ...round });
  }
}
