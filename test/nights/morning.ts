/** What people do after a run has ended: they follow its report and check the clusters. */
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import type { Report } from '../../src/contracts/report';
import type { RunbookName } from '../../src/contracts/names';
import { SeededRandom } from '../../src/simulator/random';
import { promoteSecondary } from '../../src/simulator/roles';
import type { Player } from './player';

export interface Task {
  readonly runbook: RunbookName;
  readonly input: Readonly<Record<string, unknown>>;
}

/** The runs whose commands are in the texts. */
export function commandsIn(texts: readonly string[]): Task[] {
  const commands = texts.join('\n').matchAll(/`runbook start (\w+) --input '(.*?)'`/g);
  return [...commands].map(([, runbook = '', input = '']) => ({
    runbook: runbook as RunbookName,
    input: JSON.parse(input.replaceAll("'\\''", "'")) as Task['input'],
  }));
}

/** The clusters, with the kind of replication, that still do not follow the intended primary after `withinMs`. */
export async function astray({ night, scenario, serving }: Player, withinMs: number, who = /./) {
  const { kind, clusters, drSets } = night;
  const followers = clusters.flatMap((name) => (name === serving ? [] : [[kind, name] as const]));
  if (kind === 'dr' && drSets['eu']) followers.push(['performance', 'europe']);
  const check = () =>
    followers.filter(([of, name]) => {
      const { connectedTo, state } = scenario.state(name)[of];
      return who.test(name) && (connectedTo !== serving || state !== 'stream-wals');
    });
  for (const deadline = Date.now() + withinMs; check().length > 0 && Date.now() < deadline;) await delay(50);
  return check();
}

/**
 * The next run that people start; undefined if nothing is left to do.
 *
 * @param changing - whether people change the primary if all is well
 */
export async function next(player: Player, changing: boolean): Promise<Task | undefined> {
  const { night, scenario, reports, primaries, serving } = player;
  const { kind, clusters } = night;
  const random = new SeededRandom(night.seed).derive(`morning ${reports.length}`);
  const refused = reports.at(-1)?.outcome === 'refused';
  const [from, to] = clusters;
  const unplanned = kind === 'performance' && { mode: 'unplanned', overrideDrSecondary: true };
  const change = kind === 'dr' ? ('drSwitchover' as const) : ('performancePromotion' as const);
  if (serving === undefined) {
    if (!refused) return { runbook: kind === 'dr' ? 'drFailover' : change, input: { from, to, ...unplanned } };
    player.note(`people promote ${from} manually`);
    promoteSecondary(scenario.service.cluster(from), kind, '', true);
    return { runbook: 'readiness', input: {} };
  }
  const named = reports.toReversed().flatMap(({ leftToDo }) => commandsIn(leftToDo));
  /** The input from a report, if it contains a matching command. */
  const asReported = (task: Task) => {
    const fits = ({ runbook, input }: Task) =>
      runbook === task.runbook && isDeepStrictEqual({ ...input, ...task.input }, input);
    return named.find(fits) ?? task;
  };
  const rejoining = (cluster: string) =>
    asReported({ runbook: `${kind}Rejoin`, input: { cluster, ...(refused && { primary: serving }) } });
  const former = primaries.find(({ name }) => name !== serving);
  if (former) return rejoining(former.name);
  const [[of, secondary] = [kind, undefined]] = await astray(player, 2_000);
  if (secondary !== undefined) {
    // The report of a terminated run cannot know about a change that was in progress.
    const knows = ({ outcome, leftToDo }: Report) => outcome === 'terminated' || leftToDo.join().includes(secondary);
    if (!reports.some(knows)) player.unreported.add(secondary);
    const { demoted } = { demoted: false, ...scenario.service.cluster(secondary).role(of) };
    if (of === kind && demoted && random.chance(0.6)) return rejoining(secondary);
    return asReported({ runbook: 'secondaryRepointing', input: { kind: of, primary: serving, secondary } });
  }
  const tokensLeft = [...scenario.service.clusters.values()].some(
    ({ isDrSecondary, tokens }) => isDrSecondary && tokens.operationTokenCount > 0,
  );
  if (tokensLeft && reports.every(({ runbook }) => runbook !== 'operationTokenDisposal'))
    return { runbook: 'operationTokenDisposal', input: {} };
  if (!changing) return undefined;
  const back = { to: random.pick(clusters.filter((name) => name !== serving) as [string]), acceptLoss: 'bounded' };
  return { runbook: change, input: kind === 'dr' ? { ...back, go: 'auto' } : back };
}
