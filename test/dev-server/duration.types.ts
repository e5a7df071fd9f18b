import type { Duration } from '@temporalio/common';

/**
 * Checked by the type checker alone, which `npm test` runs first: a misspelt unit must be an error. `Duration` comes from
 * a package whose types TypeScript does not find under `nodenext`; without `paths` in tsconfig.json it is silently `any`,
 * the error is not there, and the unused directive below fails the check.
 */
export const RIGHT: Duration = '10 minutes';
// @ts-expect-error the unit is misspelt
export const WRONG: Duration = '10 minuts';
