import { ASK_FOR_TOKENS, READ_ROLES, verifyToken } from '../../src/moves/tokens';
import { workflowInfo } from '@temporalio/workflow';
import type { CeremonyHandle, OperationTokenReference, Sealed } from '../../src/contracts/ceremony';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Attested } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import { attestedName } from '../../src/contracts/words';
import type { StepCalls } from '../engine/activity-calls';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { CeremonyRequest, Parked } from './collection';
import { PeoplesTokens, USED_FOR_MS } from './collection';

/** For this long the cluster is not asked again whether it accepts a token. */
const PROVEN_FOR_MS = 60_000;

interface Taken {
  readonly token: Sealed<'operation-token'>;
  readonly by: Attested | undefined;
  /** Epoch milliseconds. */
  readonly at: number;
  provenAt?: number;
}

/**
 * Operation tokens that people generate themselves with the command line of the service, so that no key share comes near this
 * system. A person whom the inventory names gives each token to the run, sealed to its key. Each token is asked for when it is
 * needed.
 */
export class ProvidedTokens extends PeoplesTokens {
  readonly source = 'provided';
  /** The latest token of each cluster. */
  readonly #taken = new Map<string, Taken>();

  constructor(run: Run, request: CeremonyRequest) {
    const words = { invite: ASK_FOR_TOKENS, check: 'Check provided tokens', gives: 'token' } as const;
    super(run, request, words, { kind: 'operation-token', collects: 'tokens' });
  }

  /** People may have given another token since. */
  override isCurrent({ cluster, ...token }: OperationTokenReference): boolean {
    return token.source === 'sealed' && this.#usable(cluster)?.token === token.value;
  }

  /** Waits for the first token, and verifies it. A cluster that is not a DR secondary yet has none; it is asked for one later. */
  async collect(first = this.request.targets[0]?.cluster, choices?: readonly Choice[]): Promise<void> {
    const { deployment } = this;
    const read = (call: StepCalls) => call.readDeployment({ deployment });
    const { observations } = await this.run.step(READ_ROLES, read, { choices });
    if (first === undefined || observations.find((each) => each.cluster === first)?.dr?.mode !== 'secondary') return;
    do await this.#obtain(first, { choices });
    while (!(await this.takes(first)));
  }

  async generate(
    cluster: string,
    _uses: readonly TokenUse[],
    parked: Parked = {},
  ): Promise<OperationTokenReference | undefined> {
    const taken = await this.#obtain(cluster, parked);
    return taken && { source: 'sealed', cluster, value: taken.token };
  }

  /** Whether the cluster accepts the available token right now. A token that it refuses is not used any more. */
  override async takes(cluster: string): Promise<boolean> {
    const { deployment } = this;
    const taken = this.#usable(cluster);
    if (!taken) return false;
    // If no cluster serves, the promotion itself is the proof.
    if (this.run.state.serviceIsOut) return true;
    // The check reads the whole tree, and two in a row prove no more than one.
    if (Date.now() - (taken.provenAt ?? 0) < PROVEN_FOR_MS) return true;
    const { state, text } = await this.run.step(verifyToken(cluster), (call) =>
      call.probeProvidedToken({ deployment, cluster, token: { source: 'sealed', cluster, value: taken.token } }),
    );
    if (state !== 'refused') {
      taken.provenAt = Date.now();
      return true;
    }
    if (this.#taken.get(cluster) === taken) this.#taken.delete(cluster);
    this.run.state.finding({
      severity: 'warning',
      code: 'provided-token-refused',
      text: `The operation token of ${cluster} from ${taken.by ? attestedName(taken.by) : 'somebody'} cannot be used: ${text}.`,
      next: this.#disposes
        ? `It is no longer valid, or another cluster issued it: in that case, name that cluster.`
        : `Generate one on ${cluster} itself, which is a DR secondary, and give that one. Delete or revoke the refused token on the cluster that issued it.`,
    });
    return false;
  }

  /** What people are asked for: a token that somebody holds and wants deleted, or one that they generate now. */
  #asked(cluster: string): { readonly what: string; readonly instructions: readonly string[] } {
    const given = 'It is encrypted on their machine, and deleted at the end of the run.';
    if (this.#disposes)
      return {
        what: `the operation token of ${cluster} that a person holds, which is to be deleted`,
        instructions: [
          `The listed person who holds it gives that token to this run. ${given} Do not generate another one.`,
        ],
      };
    return {
      what: `an operation token of ${cluster}, which people generate themselves`,
      instructions: [
        `Generate it on ${cluster} with the command line of the service: \`vault operator generate-root -dr-token\`. Never give a key share to anything but the service.`,
        `One of the people listed gives the decoded token to this run. ${given}`,
      ],
    };
  }

  get #disposes(): boolean {
    return this.request.runbook === 'operationTokenDisposal';
  }

  #usable(cluster: string): Taken | undefined {
    const taken = this.#taken.get(cluster);
    return taken && Date.now() - taken.at < USED_FOR_MS ? taken : undefined;
  }

  /** The token of one cluster, once somebody gave it. @returns undefined if it was skipped */
  async #obtain(cluster: string, parked: Parked): Promise<Taken | undefined> {
    for (;;) {
      const taken = this.#usable(cluster);
      if (taken) return taken;
      if (this.keysLost !== undefined || Date.now() >= (this.handle?.collectUntil ?? 0))
        await this.ready(parked.choices);
      const { workflowId } = workflowInfo();
      const key = `token:${cluster}`;
      this.run.state.wait(key, {
        for: 'action',
        ...this.#asked(cluster),
        commands: this.required().holders.map((who) => ({
          who,
          command: nextCommandOf.provideToken(workflowId, who),
        })),
      });
      try {
        const isSkipped = await this.waitFor(
          () => this.#usable(cluster) !== undefined,
          {
            ...parked,
            ...({ step: `Operation token of ${cluster}`, code: 'TOKEN_MISSING' } as const),
            message: `${this.run.inOutage ? 'No cluster is primary. ' : ''}Needed: ${this.#asked(cluster).what}.`,
            next: `${this.#disposes ? 'Give' : 'Generate and give'} it as shown, or choose another option.`,
          },
          () => `no operation token of ${cluster} was given in time; asked: ${this.required().holders.join(', ')}`,
        );
        if (isSkipped) return undefined;
      } finally {
        this.run.state.waitOver(key);
      }
    }
  }

  protected override async check(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    const { deployment } = this;
    const { verdicts } = await call.takeProvidedTokens({ deployment, ceremony, arrived });
    const take = () => {
      for (const { cluster, token, holder } of verdicts)
        if (cluster !== undefined && token !== undefined && this.#taken.get(cluster)?.token !== token)
          this.#taken.set(cluster, { token, by: holder, at: Date.now() });
    };
    return { verdicts, take };
  }
}
