import type { Precondition } from '../../src/contracts/plan';
import type { PrimaryChanges } from '../roles/primary-changes';
import type { Rule, SwitchoverWorld } from './switchover-rule';

/** Not at once after the last change of the primary: a planned run has time. */
export const pace: Rule = (world) => [coolDown(world)];

function coolDown({ changes, now, deployment }: SwitchoverWorld): Precondition {
  const name = 'cool-down since the last change of the primary';
  const needed = `${inWords(deployment.limits.coolDownMs)} ago or more`;
  if (changes === undefined) return unreadable(name, needed);
  const [last] = changes.changes;
  const passed = last === undefined || now - last.at >= deployment.limits.coolDownMs;
  const observed =
    last === undefined
      ? 'none lately'
      : `${last.runbook} ${inWords(Math.max(0, now - last.at))} ago (run ${last.runId})`;
  if (passed && changes.unattested.length > 0) return doubtful(name, changes, needed);
  if (passed) return { name, observed, needed, verdict: 'ok' };
  const next =
    'Wait for the cool-down: what is broken shows then. If it cannot wait, lower limits.coolDown in the inventory.';
  return { name, observed, needed, verdict: 'fail', next };
}

/** What no worker attested counts as unknown: people see it, and nobody is held back by what somebody made up. */
function doubtful(name: string, { unattested }: PrimaryChanges, needed: string): Precondition {
  return {
    name,
    observed: `no worker attested the promotion that ${unattested.length === 1 ? 'a run tells' : `${unattested.length} runs tell`} of (${unattested[0] ?? ''})`,
    needed,
    verdict: 'warn',
    next: 'Find out who writes to this namespace, and whether the primary was changed lately.',
  };
}

function unreadable(name: string, needed: string): Precondition {
  return { name, observed: 'Temporal does not tell the closed runs', needed, verdict: 'not-checkable' };
}

function inWords(milliseconds: number): string {
  const units = [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1_000, 's'],
  ] as const;
  const [size, unit] = units.find(([each]) => milliseconds >= 2 * each) ?? [1, 'ms'];
  return `${Math.floor(milliseconds / size)} ${unit}`;
}
