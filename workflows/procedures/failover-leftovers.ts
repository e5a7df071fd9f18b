import type { FailoverRoute } from '../../activities/plans/dr-failover';
import type { Run } from '../engine/run';
import { lastLook } from './roles';

/** How far the run came, for what must be told however it ends. */
export interface FailoverProgress {
  route?: FailoverRoute;
  /** Whether the fence hook cut the old primary off; absent where it was not run, or refused before. */
  fenced?: 'done' | 'unknown';
  promoted: boolean;
  finished: boolean;
}

/** Where the run ends early: who said last to be primary, or who does not follow yet. */
export async function tellFailoverLeft(
  run: Run,
  deployment: string,
  { route, fenced, promoted, finished }: FailoverProgress,
): Promise<void> {
  if (!route || finished) return;
  if (promoted) {
    run.state.leftToDo.push(
      ...[...route.otherDrSecondaries, ...route.silentDrSecondaries].map((cluster) => notRepointed(cluster, route.to)),
      ...route.performanceSecondaries.map(
        (cluster) => `Read the performance status of ${cluster}; where it does not follow ${route.to}, re-point it.`,
      ),
      rejoinLater(deployment, route),
    );
    return;
  }
  // Also one that this run is not about: a promotion is refused because another member is primary.
  const members = [route.from, route.to, ...route.otherDrSecondaries, ...route.silentDrSecondaries];
  const { primaries, silent } = await lastLook(run, deployment, members);
  const served = primaries.join(' and ');
  const cutOff = fenced === undefined ? '' : ` ${fencedText(route.from, fenced)}`;
  const [code, text, next] =
    primaries.length > 0
      ? [
          'failover-ended-early',
          `The failover ended; ${served} said to be primary.${cutOff}`,
          `See that clients reach ${served}.${fenced !== undefined && primaries.includes(route.from) ? ` Take the fence of ${route.from} away for that.` : ''}`,
        ]
      : [
          'no-primary',
          `The failover ended with no cluster seen as primary${silent.length > 0 ? `; ${silent.join(' and ')} did not answer` : ''}.${cutOff}`,
          `Clients have no primary. Start drFailover again, or bring ${fenced === undefined ? 'the old primary back' : `${route.from} back and take its fence away`}.`,
        ];
  run.state.finding({ severity: 'critical', code, text, next });
  run.state.leftToDo.push(`${text} ${next}`);
}

/** What the hook did stays where it is when the run ends. */
function fencedText(from: string, fenced: 'done' | 'unknown'): string {
  return fenced === 'done'
    ? `The fence hook of this run cut ${from} off: its clients do not reach it.`
    : `The fence hook of this run was started for ${from} and did not say that it succeeded: ${from} may be cut off, or a part of it.`;
}

export function notRepointed(cluster: string, to: string): string {
  return `${cluster} was not re-pointed: when it answers, issue an activation token on ${to} and use it with update-primary on ${cluster}.`;
}

export function rejoinLater(deployment: string, { from, to }: FailoverRoute): string {
  const rejoin = { deployment, cluster: from, primary: to, reason: `${from} is back after the failover to ${to}` };
  return `Keep ${from} fenced. When it answers again: \`runbook start drRejoin --input '${JSON.stringify(rejoin)}'\``;
}
