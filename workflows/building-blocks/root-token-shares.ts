import type { RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from './activity-calls';
import { HandedIn, takeRootTokens } from './handed-in';
import type { RenewedApprovals } from './renewed-approvals';
import type { Run } from './run';
import { ShareCollection } from './share-collection';

/** Key shares for one root token. */
export class RootTokenShares extends ShareCollection {
  readonly #input: RootTokenCeremonyInput;
  readonly #approvals: RenewedApprovals<unknown>;
  readonly #handedIn: HandedIn<string>;
  /** What the worker made: also where a stop came with it. */
  #made: string | undefined;

  constructor(run: Run, input: RootTokenCeremonyInput, approvals: RenewedApprovals<unknown>) {
    super(run, input.deployment);
    this.#input = input;
    this.#approvals = approvals;
    const { deployment, cluster, recipientPgpKey } = input;
    this.#handedIn = new HandedIn(run, (call, ceremony, arrived) =>
      takeRootTokens(call, { deployment, cluster, recipientPgpKey }, ceremony, arrived),
    );
  }

  /**
   * Where a stop ends it, what was handed in before is looked at first: it is the recipient's.
   *
   * @returns the token, encrypted to the recipient
   */
  async generate(): Promise<string> {
    try {
      return await this.#generate();
    } catch (error) {
      await this.#handedIn.finish();
      throw error;
    }
  }

  async #generate(): Promise<string> {
    const { deployment, cluster, recipientPgpKey } = this.#input;
    const made = await this.burst({
      name: `Generate root token on ${cluster}`,
      cluster,
      kind: 'root-token',
      call: (call, shares) =>
        this.#approvals.begin('ceremony', async (authority) => {
          // Anybody can encrypt to the recipient: what came before the burst parks says nothing of its token.
          this.#handedIn.stop();
          this.#handedIn.forget();
          try {
            const made = await call.generateRootToken({
              ...{ deployment, cluster, recipientPgpKey, authority, ...shares },
            });
            this.#made = made.encryptedToken;
            return made;
          } catch (error) {
            this.#handedIn.listen(shares.ceremony);
            throw error;
          }
        }),
      instead: () => {
        const encryptedToken = this.#handedIn.of(cluster);
        return encryptedToken === undefined ? undefined : { encryptedToken, attempts: 1, findings: [], badShares: [] };
      },
    });
    if (!made) throw new TypeError('a burst that cannot be skipped was skipped');
    return made.encryptedToken;
  }

  /** What the worker made; else all that was handed in, of which only the recipient can tell which is the token. */
  override get inHand(): readonly string[] {
    return this.#made === undefined ? this.#handedIn.left.map(({ value }) => value) : [this.#made];
  }

  /** Nobody but its recipient can say what was handed in. */
  get wasHandedIn(): boolean {
    return this.#made === undefined;
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
    const { deployment, cluster, recipientPgpKey, reason, requestedBy = 'unknown' } = this.#input;
    return call.createRootTokenCeremony({
      ...{ deployment, cluster, recipientPgpKey, reason, requestedBy, ...round },
      runbook: 'rootTokenCeremony',
      inputDigest: this.#approvals.authority.plan.digest,
    });
  }
}
