import type { CeremonyHandle, CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import type { StepCalls } from './activity-calls';
import { DirectCollection } from './direct-collection';
import { takeOperationTokens } from './handed-in';
import type { Run } from './run';
import type { Parked } from './share-collection';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Operation tokens from key shares that the holders give to the service themselves. */
export class DirectCeremony extends DirectCollection<Sealed<'operation-token'>> implements TokenCeremony {
  readonly #request: CeremonyRequest;
  /** Clusters whose token the run has, and when it was handed in: a failover that takes it over goes on with it. */
  readonly #given = new Map<string, number | undefined>();

  constructor(run: Run, request: CeremonyRequest) {
    super(run, request.deployment, 'operation-token');
    this.#request = request;
  }

  covers({ cluster, uses }: CeremonyTarget): boolean {
    const target = this.#request.targets.find((each) => each.cluster === cluster);
    return !this.closed && target !== undefined && uses.every((use) => target.uses.includes(use));
  }

  get spare(): readonly OperationTokenReference[] {
    return this.left.map(({ cluster, value }) => ({ source: 'sealed', cluster, value }));
  }

  /** The first token is in hand before anything is changed, where its cluster takes an attempt already. */
  async collect(first = this.#request.targets[0]?.cluster): Promise<void> {
    if (first !== undefined && !this.#given.has(first)) await this.obtain(first, {}, true);
  }

  /** Nothing that was given is kept: each further token is entered for, whenever it is needed. */
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
    const value = await this.obtain(cluster, parked);
    if (value === undefined) return undefined;
    this.#given.set(cluster, this.use(value));
    return { source: 'sealed', cluster, value };
  }

  takenAt(cluster: string): number | undefined {
    return this.#given.get(cluster);
  }

  protected create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, runbook, reason, requestedBy, targets, inputDigest } = this.#request;
    const request = { deployment, runbook, reason, requestedBy, targets, inputDigest };
    return call.createCeremony({ ...request, ...round, shares: 'direct' });
  }

  protected start(call: StepCalls, ceremony: CeremonyHandle, cluster: string) {
    return call.startDirectAttempt({ deployment: this.deployment, cluster, ceremony });
  }

  protected take(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    return takeOperationTokens(call, this.deployment, ceremony, arrived);
  }
}
