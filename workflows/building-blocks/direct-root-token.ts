import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import type { StepCalls } from './activity-calls';
import { DirectCollection } from './direct-collection';
import { takeRootTokens } from './handed-in';
import type { RenewedApprovals } from './renewed-approvals';
import type { Run } from './run';

/** One root token from key shares that the holders give to the service themselves: for its recipient alone. */
export class DirectRootToken extends DirectCollection<string> {
  readonly #input: RootTokenCeremonyInput;
  readonly #approvals: RenewedApprovals<unknown>;
  #token: string | undefined;

  constructor(run: Run, input: RootTokenCeremonyInput, approvals: RenewedApprovals<unknown>) {
    super(run, input.deployment, 'root-token');
    this.#input = input;
    this.#approvals = approvals;
  }

  async collect(): Promise<void> {
    await this.#obtainOne();
  }

  /** @returns the token, encrypted to the recipient */
  async generate(): Promise<string> {
    const token = await this.#obtainOne();
    if (token === undefined) throw new TypeError('a token that cannot be skipped was skipped');
    this.#token = token;
    this.use(token);
    return token;
  }

  /** Where a stop ends the wait, what was handed in before it is looked at first: it is the recipient's. */
  async #obtainOne(): Promise<string | undefined> {
    try {
      return await this.obtain(this.#input.cluster, {});
    } catch (error) {
      await this.stopHandIns();
      throw error;
    }
  }

  /** All that was handed in: anybody can encrypt to the recipient, and nobody here can tell which message is the token. */
  override get inHand(): readonly string[] {
    const left = this.left.map(({ value }) => value);
    return this.#token === undefined ? left : [this.#token, ...left];
  }

  /** Nobody but its recipient can say what was handed in. */
  get wasHandedIn(): boolean {
    return true;
  }

  protected create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, cluster, recipientPgpKey, reason, requestedBy = 'unknown' } = this.#input;
    return call.createRootTokenCeremony({
      ...{ deployment, cluster, recipientPgpKey, reason, requestedBy, ...round },
      runbook: 'rootTokenCeremony',
      inputDigest: this.#approvals.authority.plan.digest,
      shares: 'direct',
    });
  }

  protected start(call: StepCalls, ceremony: CeremonyHandle, cluster: string) {
    const { deployment, recipientPgpKey } = this.#input;
    // The keys may have been lost and made again for hours after the gate.
    return this.#approvals.begin('ceremony', (authority) =>
      call.startDirectRootAttempt({ ...{ deployment, cluster, ceremony, recipientPgpKey }, authority }),
    );
  }

  protected take(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    const { deployment, cluster, recipientPgpKey } = this.#input;
    return takeRootTokens(call, { deployment, cluster, recipientPgpKey }, ceremony, arrived);
  }
}
