import type { TokenRoute } from '../../activities/plans/ceremonies';
import type { Assessment } from '../../src/contracts/activities';
import type { CeremonyTarget } from '../../src/contracts/ceremony';
import { escapeUntrusted } from '../../src/contracts/words';
import type { StepCalls } from '../engine/activity-calls';
import { RunStopped } from '../engine/failures';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { approvePlan } from './approved-plan';
import type { ChangeInput } from './approved-plan';
import { TokenCeremony } from './token-ceremony';

/** A token that the holders' key shares make for one person's key. */
interface TokenForPerson {
  readonly runbook: 'rootTokenCeremony' | 'operationTokenCeremony';
  readonly kind: 'operation-token' | 'root-token';
  readonly input: ChangeInput;
  readonly assess: (call: StepCalls) => Promise<Assessment<TokenRoute>>;
  readonly target: CeremonyTarget;
  readonly recipientPgpKey: string;
  /** Who ends the token, and how, where nobody but the recipient can read it. */
  readonly leftToDo: readonly string[];
}

/** Approved by gate `ceremony`, made from key shares, encrypted to one person: nobody here can read it. */
export async function tokenForPerson(run: Run, wanted: TokenForPerson): Promise<Ending> {
  const { runbook, kind, input, assess, target, recipientPgpKey } = wanted;
  const { deployment, reason, requestedBy = 'unknown' } = input;
  const { cluster } = target;
  let fingerprint = '';
  let ceremony: TokenCeremony | undefined;
  const handedOn = (encryptedToken: string) => ({
    result: { cluster, recipientKey: fingerprint, encryptedToken },
    leftToDo: [
      `Give the encrypted token (encryptedToken in the result of ${deployment}/${cluster}) to the recipient, who decrypts it: \`base64 -d token.txt | gpg --decrypt\`.`,
      ...wanted.leftToDo,
    ],
  });
  try {
    return await run.abortable(async () => {
      // 1. Is its slot free, do the holders suffice, can the recipient's key encrypt? Who approves sees the fingerprint.
      const approved = await approvePlan(run, { input, assess, gate: () => 'ceremony' });
      if ('outcome' in approved) return approved;
      fingerprint = approved.route.fingerprint ?? '';

      // 2. Ask the holders.
      const { approvals } = approved;
      const asked = new TokenCeremony(
        run,
        {
          ...{ deployment, reason, requestedBy, runbook, targets: [target] },
          inputDigest: approvals.authority.plan.digest,
        },
        { kind, person: { recipientPgpKey, begin: (carryOut) => approvals.begin('ceremony', carryOut) } },
      );
      ceremony = asked;
      run.onEnd(() => asked.abandon());
      run.state.enterPhase('waiting-for-people');
      await asked.ready();
      await asked.collect();

      // 3. DANGER: the token generation. The token has no lifetime, and only the recipient can read and end it.
      run.state.enterPhase('working');
      const token = await asked.generateForPerson();

      // 4. The keys are not needed any more.
      run.state.enterPhase('finishing');
      await asked.close();
      return { outcome: 'completed', ...handedOn(token) };
    });
  } catch (error) {
    // A token that is in hand reaches its recipient however the run ends: nobody else can end it.
    const token = ceremony?.encrypted;
    if (token === undefined || !(error instanceof RunStopped)) throw error;
    const { result, leftToDo } = handedOn(token);
    const stopped = `The run was stopped by ${escapeUntrusted(error.by)}: ${escapeUntrusted(error.reason)}`;
    return { outcome: 'aborted', result, leftToDo: [stopped, ...leftToDo] };
  }
}
