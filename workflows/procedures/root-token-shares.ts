import type { RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from '../engine/activity-calls';
import type { Approvals } from '../engine/approvals';
import type { Run } from '../engine/run';
import { ShareCollection } from './share-collection';

/** Key shares for one root token. */
export class RootTokenShares extends ShareCollection {
  readonly #input: RootTokenCeremonyInput;
  readonly #approvals: Approvals;
  /** What the worker made: also where a stop came with it. */
  #made: string | undefined;

  constructor(run: Run, input: RootTokenCeremonyInput, approvals: Approvals) {
    super(run, input.deployment);
    this.#input = input;
    this.#approvals = approvals;
  }

  /** @returns the token, encrypted to the recipient */
  async generate(): Promise<string> {
    const { deployment, cluster, recipientPgpKey } = this.#input;
    const made = await this.burst({
      name: `Generate root token on ${cluster}`,
      cluster,
      kind: 'root-token',
      call: (call, shares) =>
        this.#approvals.begin('ceremony', async (authority) => {
          const generated = await call.generateRootToken({
            ...{ deployment, cluster, recipientPgpKey, authority, ...shares },
          });
          this.#made = generated.encryptedToken;
          return generated;
        }),
    });
    if (!made) throw new TypeError('a burst that cannot be skipped was skipped');
    return made.encryptedToken;
  }

  override get inHand(): readonly string[] {
    return this.#made === undefined ? [] : [this.#made];
  }

  protected async create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, cluster, recipientPgpKey, reason, requestedBy = 'unknown' } = this.#input;
    return call.createRootTokenCeremony({
      ...{ deployment, cluster, recipientPgpKey, reason, requestedBy, ...round },
      runbook: 'rootTokenCeremony',
      inputDigest: this.#approvals.authority.plan.digest,
    });
  }
}
