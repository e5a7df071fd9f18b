import { DELETE_TOKENS } from '../../src/moves/tokens';
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

/** One DR operation token for one cluster, as a run of its own: kept for the next run, or encrypted to a person's key. */
export const operationTokenCeremony = runbookInParts('operationTokenCeremony', (run, input) => {
  // The run that claims the token deletes it. So does the run that made it, if it is stopped.
  const uses: readonly TokenUse[] = [...new Set([...input.uses, 'dr.operation-token.delete' as const])];
  if (input.recipient === undefined) return run.abortable(() => keep(run, input, uses));
  const { deployment, cluster, recipient: recipientPgpKey } = input;
  const disposal = { deployment, provided: cluster, reason: `the token of ${cluster} is no longer needed` };
  return forPerson(run, recipientPgpKey, {
    ...({ kind: 'operation-token', input, target: { cluster, uses } } as const),
    assess: (call) => call.assessOperationTokenCeremony({ input }),
    leftToDo: [
      `The token does not expire. Once it is no longer needed: \`runbook start operationTokenDisposal --input '${JSON.stringify(disposal)}'\`. The recipient gives it to that run, which deletes it and proves the deletion.`,
    ],
  });
});

/** A root token of one cluster from the holders' key shares, encrypted to one person. Nobody here can read it. */
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
  /** Absent if the run that claims the token is approved instead. */
  readonly gate?: 'ceremony';
}

/** Runs until enough shares are collected. `kindOf`: what is made, and for whose key, once it is approved. */
async function askHolders(
  run: Run,
  { input, assess, target, gate }: Wanted,
  kindOf: (approvals: Approvals) => CeremonyKind,
): Promise<{ readonly ceremony: TokenCeremony; readonly route: TokenRoute } | Ending> {
  const { deployment, reason, requestedBy = 'unknown' } = input;
  // 1. Is the slot free, are there enough holders, can a recipient's key encrypt? The approvers see its fingerprint.
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

/** Makes a token for the record. The run that claims it is approved instead. */
async function keep(run: Run, input: InputOf<'operationTokenCeremony'>, uses: readonly TokenUse[]): Promise<Ending> {
  const { deployment, cluster, keepFor } = input;
  const assess = (call: StepCalls) => call.assessOperationTokenCeremony({ input });
  const kind = { kind: 'operation-token', keepFor } as const;
  const asked = await askHolders(run, { input, assess, target: { cluster, uses } }, () => kind);
  if ('outcome' in asked) return asked;
  const { ceremony } = asked;

  // 3. Generate the token. It stays sealed, in the result of this step and in the record.
  run.state.enterPhase('preparing');
  let leftOver: readonly OperationTokenReference[] | undefined = [];
  // If the run is stopped from here on, nobody wants the token, and it has no lifetime. One that was just made is only in the record.
  run.onEnd(async () => {
    if (!leftOver) return;
    const tokens = leftOver;
    await run.cleanUp(DELETE_TOKENS, async (call) => {
      await call.deleteOperationTokens({ deployment, tokens });
    });
  });
  const made = await ceremony.generate(cluster, uses);
  if (made) leftOver = [made];
  if (run.state.findings.some(({ code }) => code === TOKEN_NOT_IN_RECORD)) {
    const tokens = leftOver;
    // The activity reads the record first. While it cannot, the run waits, because nobody else can end the token.
    await run.step(DELETE_TOKENS, (call) => call.deleteOperationTokens({ deployment, tokens }));
    leftOver = undefined;
    throw run.stop(new RunStopped('the record', 'it could not be written, so no later run would find the token'));
  }

  // 4. Destroy the keys.
  run.state.enterPhase('finishing');
  await ceremony.close();
  leftOver = undefined;
  return {
    outcome: 'completed',
    leftToDo: [
      `The operation token of ${cluster} does not expire. The record keeps it for the next drSwitchover or drFailover, for ${keepFor ?? ''}. If none claims it, operationTokenDisposal deletes it.`,
    ],
  };
}

interface ForPerson extends Wanted {
  readonly kind: CeremonyKind['kind'];
  /** Who ends the token and how, because only the recipient can read it. */
  readonly leftToDo: readonly string[];
}

/** A token that gate `ceremony` approved, made from key shares and encrypted to one person. Nobody here can read it. */
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

      // 3. DANGER: generate the token. It has no lifetime, and only the recipient can read and end it.
      run.state.enterPhase('working');
      const token = await ceremony.generateForPerson();

      // 4. Destroy the keys.
      run.state.enterPhase('finishing');
      await ceremony.close();
      return { outcome: 'completed', ...handedOn(token) };
    });
  } catch (error) {
    // A token that was made reaches its recipient however the run ends: nobody else can end it.
    const token = ceremony?.encrypted;
    if (token === undefined || !(error instanceof RunStopped)) throw error;
    const { result, leftToDo } = handedOn(token);
    const stopped = `The run was stopped by ${escapeUntrusted(error.by)}: ${escapeUntrusted(error.reason)}`;
    return { outcome: 'aborted', result, leftToDo: [stopped, ...leftToDo] };
  }
}
