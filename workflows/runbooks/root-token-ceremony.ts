import type { RootTokenCeremonyInput } from '../../src/contracts/runbook-inputs';
import { approvePlan } from '../procedures/approved-plan';
import { RunStopped } from '../engine/failures';
import { TokenCeremony } from '../procedures/token-ceremony';
import type { Run } from '../engine/run';
import type { Ending, RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { escapeUntrusted } from '../../src/contracts/words';

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export async function rootTokenCeremony(input: unknown): Promise<RunbookResult> {
  return executeRunbook<RootTokenCeremonyInput>(
    { name: 'rootTokenCeremony', body: (run, checked) => carryOut(run, checked) },
    input,
  );
}

async function carryOut(run: Run, input: RootTokenCeremonyInput): Promise<Ending> {
  const { deployment, cluster } = input;
  let fingerprint = '';
  let ceremony: TokenCeremony | undefined;
  const handedOn = (encryptedToken: string) => ({
    result: { cluster, recipientKey: fingerprint, encryptedToken },
    leftToDo: [
      `Give the encrypted token (encryptedToken in the result of ${deployment}/${cluster}) to the recipient, who decrypts it: \`base64 -d token.txt | gpg --decrypt\`.`,
    ],
  });
  try {
    return await run.abortable(async () => {
      // 1. Is its slot free, do the holders suffice, can the recipient's key encrypt? Who approves sees the fingerprint.
      const approved = await approvePlan(run, {
        input,
        assess: (call) => call.assessRootTokenCeremony({ input }),
        gate: () => 'ceremony',
      });
      if ('outcome' in approved) return approved;
      ({ fingerprint } = approved.route);

      // 2. Ask the holders.
      const { reason, recipientPgpKey, requestedBy = 'unknown' } = input;
      const { approvals } = approved;
      const asked = new TokenCeremony(
        run,
        {
          ...{ deployment, reason, requestedBy, runbook: 'rootTokenCeremony', targets: [{ cluster, uses: [] }] },
          inputDigest: approvals.authority.plan.digest,
        },
        { kind: 'root', recipientPgpKey, begin: (carryOut) => approvals.begin('ceremony', carryOut) },
      );
      ceremony = asked;
      run.state.asked = {
        kind: 'root-token',
        targets: [{ cluster, uses: ['root-token.generate'] }],
        requestedBy: { name: requestedBy, how: 'claimed' },
        reason,
      };
      run.onEnd(() => asked.abandon());
      run.state.enterPhase('waiting-for-people');
      await asked.ready();
      await asked.collect();

      // 3. DANGER: the token generation. The token has no lifetime, and only the recipient can read and revoke it.
      run.state.enterPhase('working');
      const token = await asked.generateRoot();

      // 4. The keys are not needed any more.
      run.state.enterPhase('finishing');
      await asked.close();
      return { outcome: 'completed', ...handedOn(token) };
    });
  } catch (error) {
    // A token that is in hand reaches its recipient however the run ends: nobody else can end it.
    const token = ceremony?.rootToken;
    if (token === undefined || !(error instanceof RunStopped)) throw error;
    const { result, leftToDo } = handedOn(token);
    const stopped = `The run was stopped by ${escapeUntrusted(error.by)}: ${escapeUntrusted(error.reason)}`;
    return { outcome: 'aborted', result, leftToDo: [stopped, ...leftToDo] };
  }
}
