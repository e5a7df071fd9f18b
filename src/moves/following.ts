import type { ReplicationKind } from '../contracts/runbook-inputs';
import { kindName, statusPath } from './kinds';
import type { Change, Move } from './move';
import { obtaining } from './tokens';
import type { Tokens } from './tokens';

/* A secondary follows a primary of its set. No data is wiped. */

const POINT = {
  dr: (secondary: string, primary: string) => `Point ${secondary} at ${primary}`,
  performance: (secondary: string, primary: string) => `Point ${secondary} at ${primary} (performance)`,
};

/** A way to point a secondary at a primary. */
export type Way = 'token' | 'addresses';

/** Makes a secondary follow a primary, by activation token or by the cluster addresses of the primary. */
export function pointing(kind: ReplicationKind, secondary: string, primary: string, way: Way = 'token'): Change {
  return {
    step:
      way === 'token' || kind === 'dr'
        ? POINT[kind](secondary, primary)
        : `Give ${secondary} the addresses of ${primary}`,
    ifUnknown: `${secondary} may have been pointed at ${primary} (${kindName(kind)}). Read its ${statusPath(kind)}. If it does not follow, start secondaryRepointing, or revoke its id on ${primary}.`,
  };
}

export const waitStreams = (secondary: string, primary: string) => `Wait until ${secondary} streams from ${primary}`;
export const waitFollows = (secondary: string) => `Wait until ${secondary} follows`;
export const WAIT_PERFORMANCE_FOLLOWS = 'Wait until the performance secondaries follow';
export const readFilter = (secondary: string) => `Read the paths filter of ${secondary}`;
export const writeFilter = (secondary: string, when: 'before' | 'after') =>
  `Write the paths filter of ${secondary} (${when} update-primary)`;
export const writeFilterAgain = (secondary: string) => `Write the paths filter of ${secondary} again`;
export const compareFilters = (secondary: string) => `Compare the dynamic filter of ${secondary} on both clusters`;
export const compareRoots = (primary: string, secondary: string) =>
  `Compare the Merkle roots of ${primary} and ${secondary}`;

/** How a DR secondary follows: its token, the re-point, and proof that it streams. */
export function followsAsDr(tokens: Tokens, secondary: string, primary: string, more: Move = {}): Move[] {
  const { step } = pointing('dr', secondary, primary);
  const { when } = more;
  return [
    ...obtaining(tokens, secondary).map((each) => ({ ...each, when })),
    { step, ...more },
    { step: waitStreams(secondary, primary), when },
  ];
}

/** How a performance secondary follows: its filter is written before and after, so that what it keeps away never leaves. */
export function followsAsPerformance(
  secondary: string,
  primary: string,
  filter: string | undefined,
  way: Way = 'token',
  more: Move = {},
): Move[] {
  const { step } = pointing('performance', secondary, primary, way);
  const writes = filter !== undefined && way === 'token';
  return [
    ...(writes ? [{ step: writeFilter(secondary, 'before'), note: filter }] : []),
    { step, ...more },
    ...(writes ? [{ step: writeFilter(secondary, 'after'), note: 'update-primary may drop it' }] : []),
    { step: waitFollows(secondary) },
    { step: compareFilters(secondary) },
  ];
}
