import type { RosterActivities } from '../../src/contracts/activities';
import type { ActivityDependencies } from '../dependencies';
import { judgeDeclines } from './declines';
import { execute } from '../execution';
import { personLookup } from './person-lookup';

/** Who is asked for a key share, and who cannot give one (protocol: "Decline"). */
export function createRosterActivities({ inventory }: ActivityDependencies): RosterActivities {
  const person = personLookup(inventory);
  return {
    checkDeclines: execute(async ({ ceremony, arrived }, { run }) => ({
      verdicts: (await judgeDeclines(run, person, ceremony, arrived)).map(({ at: _at, ...verdict }) => verdict),
    })),
  };
}
