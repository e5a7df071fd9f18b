import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { RunbookResult } from '../engine/runbook';
import { executeRunbook } from '../engine/runbook';
import { tokenForPerson } from '../procedures/token-for-person';

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export async function rootTokenCeremony(input: unknown): Promise<RunbookResult> {
  return executeRunbook<InputOf<'rootTokenCeremony'>>(
    {
      name: 'rootTokenCeremony',
      body: (run, checked) =>
        tokenForPerson(run, {
          ...({ runbook: 'rootTokenCeremony', kind: 'root-token', input: checked } as const),
          assess: (call) => call.assessRootTokenCeremony({ input: checked }),
          target: { cluster: checked.cluster, uses: [] },
          shown: ['root-token.generate'],
          recipientPgpKey: checked.recipientPgpKey,
          leftToDo: [],
        }),
    },
    input,
  );
}
