/** What people do once a run has ended: what its report says, and what a look at the site shows. */
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

/** The runs that texts give the command of. */
export function commandsIn(texts: readonly string[]): Task[] {
  const commands = texts.join('\n').matchAll(/`runbook start (\w+) --input '(.*?)'`/g);
  return [...commands].map(([, runbook = '', input = '']) => ({
    runbook: runbook as RunbookName,
    input: JSON.parse(input.replaceAll("'\\''", "'")) as Task['input'],
  }));
}

/** Who does not follow the primary that people mean, once there was time to, and in which kind of replication. */
export async function astray({ night, scenario, serving }: Player, withinMs: number, who = /./) {
  const { kind, clusters, drSets } = night;
  const followers = clusters.flatMap((name) => (name === serving ? [] : [[kind, name] as const]));
  if (kind === 'dr' && drSets['eu']) followers.push(['performance', 'europe']);
  const look = () =>
    followers.filter(([of, name]) => {
      const { connectedTo, state } = scenario.state(name)[of];
      return who.test(name) && (connectedTo !== serving || state !== 'stream-wals');
    });
  for (const deadline = Date.now() + withinMs; look().length > 0 && Date.now() < deadline;) await delay(50);
  return look();
}

/** @param changing - whether people change the primary where all is well */
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
    player.note(`people promote ${from} by hand`);
    promoteSecondary(scenario.service.cluster(from), kind, '', true);
    return { runbook: 'readiness', input: {} };
  }
  const named = reports.toReversed().flatMap(({ leftToDo }) => commandsIn(leftToDo));
  const told = (task: Task) => {
    const fits = ({ runbook, input }: Task) =>
      runbook === task.runbook && isDeepStrictEqual({ ...input, ...task.input }, input);
    return named.find(fits) ?? task;
  };
  const rejoining = (cluster: string) =>
    told({ runbook: `${kind}Rejoin`, input: { cluster, ...(refused && { primary: serving }) } });
  const former = primaries.find(({ name }) => name !== serving);
  if (former) return rejoining(former.name);
  const [[of, secondary] = [kind, undefined]] = await astray(player, 2_000);
  if (secondary !== undefined) {
    // A run that was terminated knows nothing of a change that was under way.
    const knows = ({ outcome, leftToDo }: Report) => outcome === 'terminated' || leftToDo.join().includes(secondary);
    if (!reports.some(knows)) player.untold.add(secondary);
    const { demoted } = { demoted: false, ...scenario.service.cluster(secondary).role(of) };
    if (of === kind && demoted && random.chance(0.6)) return rejoining(secondary);
    return told({ runbook: 'secondaryRepointing', input: { kind: of, primary: serving, secondary } });
  }
  const held = [...scenario.service.clusters.values()].some(
    ({ isDrSecondary, tokens }) => isDrSecondary && tokens.operationTokenCount > 0,
  );
  if (held && reports.every(({ runbook }) => runbook !== 'operationTokenDisposal'))
    return { runbook: 'operationTokenDisposal', input: {} };
  if (!changing) return undefined;
  const back = { to: random.pick(clusters.filter((name) => name !== serving) as [string]), acceptLoss: 'bounded' };
  return { runbook: change, input: kind === 'dr' ? { ...back, go: 'auto' } : back };
}
