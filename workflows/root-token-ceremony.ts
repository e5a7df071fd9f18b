import type { Authority } from '../src/contracts/activities';
import type { RootTokenCeremonyInput } from '../src/contracts/runbook-inputs';
import { rootTokenCeremonyInput } from '../src/contracts/runbook-inputs';
import type { StepCalls } from './building-blocks/activity-calls';
import { approvePlan } from './building-blocks/approved-plan';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';
import { ShareCollection } from './building-blocks/share-collection';

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export async function rootTokenCeremony(input: unknown): Promise<RunbookResult> {
  return executeRunbook<RootTokenCeremonyInput>(
    { name: 'rootTokenCeremony', input: rootTokenCeremonyInput, body: (run, checked) => carryOut(run, checked) },
    input,
  );
}

function carryOut(run: Run, input: RootTokenCeremonyInput): Promise<Ending> {
  const { deployment, cluster } = input;
  return run.stoppable(async () => {
    // 1. Is its slot free, do the holders suffice, can the recipient's key encrypt? Who approves sees the fingerprint.
    const approved = await approvePlan(run, {
      input,
      assess: (call) => call.assessRootTokenCeremony({ input }),
      gate: () => 'ceremony',
    });
    if ('outcome' in approved) return approved;
    const { fingerprint } = approved.route;

    // 2. Ask the holders.
    const ceremony = new RootTokenShares(run, input, approved.authority);
    run.onEnd(() => ceremony.abandon());
    run.state.enterPhase('waiting-for-people');
    await ceremony.invite();
    await ceremony.collect();

    // 3. DANGER: one burst. The token has no lifetime, and only the recipient can read and revoke it.
    run.state.enterPhase('working');
    const encryptedToken = await ceremony.generate();

    // 4. The keys are not needed any more.
    run.state.enterPhase('finishing');
    await ceremony.close();
    return {
      outcome: 'completed',
      result: { cluster, recipientKey: fingerprint, encryptedToken },
      leftToDo: [
        `Give the encrypted token (encryptedToken in the result of ${deployment}/${cluster}) to the recipient, who decrypts it: base64 -d token.txt | gpg --decrypt.`,
      ],
    };
  });
}

/** Key shares for one root token. */
class RootTokenShares extends ShareCollection {
  readonly #input: RootTokenCeremonyInput;
  readonly #authority: Authority;

  constructor(run: Run, input: RootTokenCeremonyInput, authority: Authority) {
    super(run, input.deployment);
    this.#input = input;
    this.#authority = authority;
  }

  /** @returns the token, encrypted to the recipient */
  async generate(): Promise<string> {
    const { deployment, cluster, recipientPgpKey } = this.#input;
    const made = await this.burst({
      name: `Generate root token on ${cluster}`,
      cluster,
      kind: 'root-token',
      call: (call, shares) =>
        call.generateRootToken({ deployment, cluster, recipientPgpKey, authority: this.#authority, ...shares }),
    });
    if (!made) throw new TypeError('a burst that cannot be skipped was skipped');
    return made.encryptedToken;
  }

  protected create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, cluster, recipientPgpKey, reason, requestedBy = 'unknown' } = this.#input;
    return call.createRootTokenCeremony({
      ...{ deployment, cluster, recipientPgpKey, reason, requestedBy, ...round },
      runbook: 'rootTokenCeremony',
      inputDigest: this.#authority.plan.digest,
    });
  }
}
