import type { InputOf, TokenUse } from '../../src/contracts/runbook-inputs';
import type { OperationTokenReference } from '../../src/contracts/ceremony';
import { approvePlan } from '../procedures/approved-plan';
import { TokenCeremony } from '../procedures/token-ceremony';
import { tokenForPerson } from '../procedures/token-for-person';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbookInParts } from '../engine/runbook';

/** One DR operation token for one cluster, as a run of its own: kept for the next run, or made for a person's key. */
export const operationTokenCeremony = runbookInParts('operationTokenCeremony', (run, input) =>
  input.recipient === undefined ? run.abortable(() => keep(run, input)) : forPerson(run, input, input.recipient),
);

/** Whoever takes it deletes it; so does the run that made it, where it is stopped. */
function usesOf({ uses }: InputOf<'operationTokenCeremony'>): readonly TokenUse[] {
  return [...new Set([...uses, 'dr.operation-token.delete' as const])];
}

function forPerson(run: Run, input: InputOf<'operationTokenCeremony'>, recipientPgpKey: string): Promise<Ending> {
  const { deployment, cluster } = input;
  const disposal = { deployment, provided: cluster, reason: `the token of ${cluster} is not needed any more` };
  return tokenForPerson(run, {
    ...({ runbook: 'operationTokenCeremony', kind: 'operation-token', input, recipientPgpKey } as const),
    assess: (call) => call.assessCeremony({ input }),
    target: { cluster, uses: usesOf(input) },
    leftToDo: [
      `The token has no lifetime. Once it is not needed: \`runbook start operationTokenDisposal --input '${JSON.stringify(disposal)}'\`; the recipient gives it to that run, which deletes it and proves it.`,
    ],
  });
}

async function keep(run: Run, input: InputOf<'operationTokenCeremony'>): Promise<Ending> {
  const { deployment, cluster, reason, keepFor } = input;
  // 1. Is it a DR secondary, is its slot free, do the holders suffice? The run that takes the token is approved.
  const approved = await approvePlan(run, {
    input,
    assess: (call) => call.assessCeremony({ input }),
    gate: () => undefined,
  });
  if ('outcome' in approved) return approved;

  // 2. Ask the holders.
  const uses = usesOf(input);
  const ceremony = new TokenCeremony(
    run,
    {
      ...{ deployment, runbook: 'operationTokenCeremony', reason, targets: [{ cluster, uses }] },
      requestedBy: input.requestedBy ?? 'unknown',
      inputDigest: approved.approvals.authority.plan.digest,
    },
    { kind: 'operation-token', keepFor },
  );
  run.onEnd(() => ceremony.abandon());
  run.state.enterPhase('waiting-for-people');
  await ceremony.ready();
  await ceremony.collect();

  // 3. The token generation. The token stays sealed, in the result of this step and in the record.
  run.state.enterPhase('preparing');
  let leftOver: readonly OperationTokenReference[] | undefined;
  // Stopped from here on, nobody wants it, and it has no lifetime; one that was just made is in the record alone.
  run.onEnd(async () => {
    if (!leftOver) return;
    const tokens = leftOver;
    await run.cleanUp('Delete the operation tokens', async (call) => {
      await call.deleteOperationTokens({ deployment, tokens });
    });
  });
  leftOver = [];
  const made = await ceremony.generate(cluster, uses);
  if (made) leftOver = [made];

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

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export const rootTokenCeremony = runbookInParts('rootTokenCeremony', (run, input) =>
  tokenForPerson(run, {
    ...({ runbook: 'rootTokenCeremony', kind: 'root-token', input } as const),
    assess: (call) => call.assessRootTokenCeremony({ input }),
    target: { cluster: input.cluster, uses: [] },
    recipientPgpKey: input.recipientPgpKey,
    leftToDo: [],
  }),
);
