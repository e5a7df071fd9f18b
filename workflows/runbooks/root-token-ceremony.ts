import { runbookInParts } from '../engine/runbook';
import { tokenForPerson } from '../procedures/token-for-person';

/** A root token of one cluster from the holders' key shares, encrypted to one person: nobody here can read it. */
export const rootTokenCeremony = runbookInParts('rootTokenCeremony', (run, input) =>
  tokenForPerson(run, {
    ...({ runbook: 'rootTokenCeremony', kind: 'root-token', input } as const),
    assess: (call) => call.assessRootTokenCeremony({ input }),
    target: { cluster: input.cluster, uses: [] },
    shown: ['root-token.generate'],
    recipientPgpKey: input.recipientPgpKey,
    leftToDo: [],
  }),
);
