import { workflowInfo } from '@temporalio/workflow';
import type { TokenRoute } from '../../activities/plans/ceremonies';
import type { Assessment } from '../../src/contracts/activities';
import { TOKEN_NOT_IN_RECORD } from '../../src/contracts/run-status';
import type { CeremonyTarget, OperationTokenReference } from '../../src/contracts/ceremony';
import type { InputOf, TokenUse } from '../../src/contracts/runbook-inputs';
import { escapeUntrusted } from '../../src/contracts/words';
import type { StepCalls } from '../engine/activity-calls';
import type { Approvals } from '../engine/approvals';
import { RunStopped } from '../engine/failures';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';
import { approvePlan } from '../procedures/approved-plan';
import type { ChangeInput } from '../procedures/approved-plan';
import type { CeremonyKind } from '../procedures/token-ceremony';
import { TokenCeremony } from '../procedures/token-ceremony';

/** One DR operation token for one cluster, as a run of its own: kept for the next run, or made for a person's key. */
export const operationTokenCeremony = runbookInParts('operationTokenCeremony', (run, input) => {
  // Whoever takes it deletes it; so does the run that made it, where it is stopped.
  const uses: readonly TokenUse[] = [...new Set([...input.uses, 'dr.operation-token.delete' as const])];
  if (input.recipient === undefined) return run.abortable(() => keep(run, input, uses));
  const { deployment, cluster, recipient: recipientPgpKey } = input;
  const disposal = { deployment, provided: cluster, reason: `the token of ${cluster} is not needed any more` };
  return forPerson(run, recipientPgpKey, {
    ...({ kind: 'operation-token', input, target: { cluster, uses } } as const),
    assess: (call) => call.assessOperationTokenCeremony({ input }),
    leftToDo: [
      `The token has no lifetime. Once it is not needed: \`runbook start operationTokenDisposal --input '${JSON.stringify(disposal)}'\`; the recipient gives it to that run, which deletes it and proves it.`,
    ],
  });
});

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export const rootTokenCeremony = runbookInParts('rootTokenCeremony', (run, input) =>
  forPerson(run, input.recipientPgpKey, {
    ...({ kind: 'root-token', input, target: { cluster: input.cluster, uses: [] } } as const),
    assess: (call) => call.assessRootTokenCeremony({ input }),
    leftToDo: [],
  }),
);

interface Wanted {
  readonly input: ChangeInput;
  readonly assess: (call: StepCalls) => Promise<Assessment<TokenRoute>>;
  readonly target: CeremonyTarget;
  /** Absent where the run that takes the token is approved. */
  readonly gate?: 'ceremony';
}

/** Up to the shares in hand. `kindOf` what is made, once it is approved, and to whose key. */
async function askHolders(
  run: Run,
  { input, assess, target, gate }: Wanted,
  kindOf: (approvals: Approvals) => CeremonyKind,
): Promise<{ readonly ceremony: TokenCeremony; readonly route: TokenRoute } | Ending> {
  const { deployment, reason, requestedBy = 'unknown' } = input;
  // 1. Is its slot free, do the holders suffice, can a recipient's key encrypt? Who approves sees its fingerprint.
  const approved = await approvePlan(run, { input, assess, ...(gate && { gate }) });
  if ('outcome' in approved) return approved;

  // 2. Ask the holders.
  const { approvals, route } = approved;
  const { runbook } = run.state;
  const inputDigest = approvals.authority.plan.digest;
  const request = { deployment, runbook, reason, requestedBy, targets: [target], inputDigest };
  const ceremony = new TokenCeremony(run, request, kindOf(approvals));
  run.onEnd(() => ceremony.abandon());
  run.state.enterPhase('waiting-for-people');
  await ceremony.ready();
  await ceremony.collect();
  return { ceremony, route };
}

/** Approved by the run that takes it. */
async function keep(run: Run, input: InputOf<'operationTokenCeremony'>, uses: readonly TokenUse[]): Promise<Ending> {
  const { deployment, cluster, keepFor } = input;
  const assess = (call: StepCalls) => call.assessOperationTokenCeremony({ input });
  const kind = { kind: 'operation-token', keepFor } as const;
  const asked = await askHolders(run, { input, assess, target: { cluster, uses } }, () => kind);
  if ('outcome' in asked) return asked;
  const { ceremony } = asked;

  // 3. The token generation. The token stays sealed, in the result of this step and in the record.
  run.state.enterPhase('preparing');
  let leftOver: readonly OperationTokenReference[] | undefined = [];
  // Stopped from here on, nobody wants it, and it has no lifetime; one that was just made is in the record alone.
  run.onEnd(async () => {
    if (!leftOver) return;
    const tokens = leftOver;
    await run.cleanUp('Delete the operation tokens', async (call) => {
      await call.deleteOperationTokens({ deployment, tokens });
    });
  });
  const made = await ceremony.generate(cluster, uses);
  if (made) leftOver = [made];
  if (run.state.findings.some(({ code }) => code === TOKEN_NOT_IN_RECORD)) {
    const tokens = leftOver;
    // The record is read first. While it cannot be the run waits, because nobody else can end the token.
    await run.step('Delete the operation tokens', (call) => call.deleteOperationTokens({ deployment, tokens }));
    leftOver = undefined;
    throw run.stop(new RunStopped('the record', 'it could not be written: no later run would find the token'));
  }

  // 4. The keys are not needed any more.
  run.state.enterPhase('finishing');
  await ceremony.close();
  leftOver = undefined;
  return {
    outcome: 'completed',
    leftToDo: [
      `The operation token of ${cluster} has no lifetime. The record keeps it for the next drSwitchover or drFailover, for ${keepFor ?? ''}; where none takes it, operationTokenDisposal deletes it.`,
    ],
  };
}

interface ForPerson extends Wanted {
  readonly kind: CeremonyKind['kind'];
  /** Who ends the token, and how, where nobody but the recipient can read it. */
  readonly leftToDo: readonly string[];
}

/** Approved by gate `ceremony`, made from key shares, encrypted to one person: nobody here can read it. */
async function forPerson(run: Run, recipientPgpKey: string, wanted: ForPerson): Promise<Ending> {
  const { cluster } = wanted.target;
  let fingerprint = '';
  let ceremony: TokenCeremony | undefined;
  const handedOn = (encryptedToken: string, { workflowId, runId } = workflowInfo()) => ({
    result: { cluster, recipientKey: fingerprint, encryptedToken },
    leftToDo: [
      `Give the encrypted token, result.encryptedToken of \`runbook report ${workflowId} --run-id ${runId} --format json\`, to the recipient, who decrypts it: \`base64 -d token.txt | gpg --decrypt\`.`,
      ...wanted.leftToDo,
    ],
  });
  const kindOf = (approvals: Approvals): CeremonyKind => ({
    kind: wanted.kind,
    person: { recipientPgpKey, begin: (carryOut) => approvals.begin('ceremony', carryOut) },
  });
  try {
    return await run.abortable(async () => {
      const asked = await askHolders(run, { ...wanted, gate: 'ceremony' }, kindOf);
      if ('outcome' in asked) return asked;
      ceremony = asked.ceremony;
      fingerprint = asked.route.fingerprint ?? '';

      // 3. DANGER: the token generation. The token has no lifetime, and only the recipient can read and end it.
      run.state.enterPhase('working');
      const token = await ceremony.generateForPerson();

      // 4. The keys are not needed any more.
      run.state.enterPhase('finishing');
      await ceremony.close();
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
