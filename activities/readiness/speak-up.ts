import type { Notification } from '../../src/contracts/notifications';
import type { ReadinessResult } from '../../src/contracts/readiness';
import { changeText } from '../../src/contracts/readiness-words';
import { findDeployment } from '../../src/inventory';
import type { ActivityDependencies } from '../dependencies';
import type { ActivityContext } from '../execution';
import { tellNow } from '../notifications/notifications';
import type { EarlierReadiness } from './summary';

/** What comes to its end by itself: people are told when it nears, also where the verdict stays what it was. */
const ENDS = new Set(['credential-life', 'batch-token', 'token-source', 'recorded-tokens', 'certificate', 'licence']);

/** Tells people that a verdict is another one than at the last check, worse or better; of the first one where it is red. */
export async function tellChange(
  execution: ActivityContext,
  readiness: ReadinessResult,
  earlier: EarlierReadiness | undefined,
): Promise<void> {
  const { deployment, at, switchover, failover, changes } = readiness;
  const { switchover: s, failover: f } = earlier ?? {};
  const before = s && f && { switchover: s, failover: f };
  const ending = changes.filter(({ change, id }) => change === 'worse' && ENDS.has(id));
  const red = switchover === 'not-ready' || failover === 'not-ready';
  const changed = before ? before.switchover !== switchover || before.failover !== failover : red;
  if (!changed && ending.length === 0) return;
  const worse = red || changes.some(({ change }) => change === 'worse');
  const notification: Notification = {
    ...({ event: 'readiness-changed', runbook: 'readiness', number: 1, subject: 'run' } as const),
    ...{ severity: worse ? 'warning' : 'info', at: Date.parse(at) },
    readiness: { switchover, failover, ...(before && { before }) },
    // The room is small: what is about to end first.
    leftToDo: [...new Set([...ending, ...changes])].map(changeText),
  };
  await tellNow(execution, deployment, notification, execution.run, { signal: execution.signal });
}

const TOLD = 'readiness-overdue';

/**
 * Tells people, once for each last check, that none has ended since: the Schedule is dead, or each of its runs fails. For
 * the workers' sweep, which no Schedule keeps alive.
 */
export async function tellOverdueReadiness(
  dependencies: Pick<ActivityDependencies, 'inventory' | 'log' | 'records'>,
  ns: string,
  deployment: string,
): Promise<void> {
  const { overdueAfterMs } = findDeployment(dependencies.inventory, deployment).readiness;
  let since: string | undefined;
  // Of several workers that sweep, the one whose write is taken tells.
  const noted = await dependencies.records.change(deployment, (values) => {
    const { at } = (values.get('readiness') ?? {}) as { readonly at?: unknown };
    since = typeof at === 'string' ? at : undefined;
    const late = since !== undefined && Date.now() - Date.parse(since) > overdueAfterMs;
    return late && values.get(TOLD) !== since ? { put: { [TOLD]: since } } : undefined;
  });
  if (!noted || since === undefined) return;
  dependencies.log.warn({ deployment }, `no readiness check has ended since ${since}`);
  const notification: Notification = {
    ...({ event: 'readiness-overdue', severity: 'warning', runbook: 'readiness', number: 1, subject: 'run' } as const),
    ...{ at: Date.now(), since: Date.parse(since) },
  };
  const run = { ns, wid: `readiness:${deployment}`, rid: '' };
  await tellNow(dependencies, deployment, notification, run, { id: since });
}
