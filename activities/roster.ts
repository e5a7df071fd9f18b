import type { RosterActivities } from '../src/contracts/activities';
import type { ActivityDependencies } from './dependencies';
import { judgeDeclines } from './support/approvals/declines';
import { execute } from './support/execution';
import { personLookup } from './support/approvals/people';

/** Who is asked for a key share, and who cannot give one (protocol: "Decline"). */
export function createRosterActivities({ inventory }: ActivityDependencies): RosterActivities {
  const person = personLookup(inventory);
  return {
    checkDeclines: execute(async ({ ceremony, arrived }, { run }) => ({
      verdicts: (await judgeDeclines(run, person, ceremony, arrived)).map(({ at: _at, ...verdict }) => verdict),
    })),
  };
}
