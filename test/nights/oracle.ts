import type { Report } from '../../src/contracts/report';
import { until } from '../support/by-hand';
import { replayRun } from '../support/replay';
import type { TestRun } from '../support/scenario';
import type { Player } from './player';

/** What the service measures and what the run's clock says may differ by this much, ms. */
const CLOCKS_MS = 250;

/** Compares what the report of a night says with what the simulated service knows. Every untruth that it finds is one line. */
export async function judge(player: Player, run: TestRun, report: Report): Promise<string[]> {
  const { night, scenario, roles } = player;
  const { outcome, outage, loss, leftToDo, steps, findings } = report;
  const wrong: string[] = [];
  const expectThat = (holds: boolean, otherwise: string) => void (holds || wrong.push(otherwise));
  const left = leftToDo.join('\n');
  const clusters = [...scenario.service.clusters.values()];
  const primaries = player.primaries.map(({ name }) => name);
  const [old] = night.clusters;
  const unplanned = night.runbook === 'drFailover' || report.takenOver !== undefined;

  // 1. It ended, and another worker would come to the same.
  expectThat(!['running', 'failed', 'timed-out'].includes(outcome), `it ended as ${outcome}`);
  await replayRun(run).catch((error: unknown) => wrong.push(String(error)));

  // 2. Never two primaries, but where people attested that the old one is gone; then the report says to keep it so.
  const now = new Set<string>([old]);
  const without: { from: number; to?: number }[] = [];
  for (const { at, cluster, mode } of roles) {
    const before = now.size;
    if (mode === 'primary') now.add(cluster);
    else now.delete(cluster);
    expectThat(now.size < 2 || (unplanned && /[Kk]eep \w+ fenced/.test(left)), `two primaries: ${[...now].join()}`);
    if (now.size === 0) without.push({ from: at });
    else if (before === 0 && without.length > 0) Object.assign(without.at(-1) ?? {}, { to: at });
  }

  // 3. Who is told to be primary is, and who is told not to be is not.
  const isNew = primaries.some((each) => each !== old);
  if (outcome === 'completed')
    expectThat(isNew && (unplanned || primaries.length === 1), `completed; primary ${primaries.join()}`);
  if (outcome === 'rolled-back') expectThat(primaries.join() === old, `rolled back; primary ${primaries.join()}`);
  for (const [, names = ''] of left.matchAll(/; ([a-z ]+) said to be (?:performance )?primary/g))
    for (const name of names.split(' and ')) expectThat(primaries.includes(name), `${name} is told to be primary`);
  const [none, silent = ''] =
    /no cluster seen as (?:performance )?primary(?:; ([a-z ]+) did not answer)?/.exec(left) ?? [];
  if (none !== undefined)
    for (const name of primaries) expectThat(silent.split(' and ').includes(name), `${name} is told to be no primary`);
  if (primaries.length === 0)
    expectThat(
      /no cluster|no primary|none|outcome was not recorded|not proven/.test(left),
      `no primary, and left to do: ${left}`,
    );
  if (outcome === 'refused') expectThat(roles.length === 0, 'refused, and a role changed');

  // 4. What was kept for clients is there, where nothing is said to be lost.
  const [serving] = player.primaries;
  if (serving && primaries.length === 1 && loss?.loss === 'none')
    for (const path of player.kept.keys()) expectThat(serving.read(path) !== undefined, `${path} is lost: ${loss.why}`);

  // 5. An outage is told where there was one, from its beginning, and never as over too early.
  const [first, last] = [without[0], without.at(-1)];
  expectThat(first === undefined || outage !== undefined, 'there was no primary, and no outage is told');
  if (first && outage && !unplanned)
    expectThat(Date.parse(outage.startedAt) <= first.from + CLOCKS_MS, `the outage began ${JSON.stringify(first)}`);
  if (last && outage?.endedAt !== undefined)
    expectThat(
      Date.parse(outage.endedAt) + CLOCKS_MS >= (last.to ?? Infinity),
      `the outage lasted ${JSON.stringify(last)}`,
    );

  // 6. A step is told as it went.
  for (const { name, outcome: told, activities } of steps) {
    const results = activities.map((each) => each.outcome);
    const done = results.length > 0 && results.every((each) => each === 'done' || each === 'already');
    const deduced = /^(Generate|Read and check|Compare)/.test(name);
    expectThat(told !== 'failed' || !done || deduced, `step "${name}" is told as failed`);
    expectThat(told !== 'done' || results.at(-1) !== 'failed', `step "${name}" is told as done`);
  }

  // 7. No token lives on, no key is left, no client is held, but as the report tells.
  for (const { name, tokens, storage } of clusters) {
    const told = report.tokens.filter((each) => each.cluster === name && each.state !== 'deleted').length;
    const alarms = findings.filter(({ code, text }) => /orphan|not-in-record/.test(code) && text.includes(name)).length;
    const inDoubt = leftToDo.filter((each) => each.includes('token') && each.includes(name)).length;
    const alive = tokens.operationTokenCount;
    expectThat(alive <= told + alarms + inDoubt, `${alive} operation tokens of ${name} are alive, ${told} told`);
    const quota = storage.keys('quota/').some((key) => key.includes(report.runId));
    expectThat(!quota || !primaries.includes(name) || left.includes('quota'), `a quota is left on ${name}`);
  }

  // 8. Where nothing is left to do everybody follows.
  if (outcome === 'completed' && leftToDo.length === 0)
    for (const { name } of clusters.filter(({ name: each }) => each !== primaries[0]))
      await until(`${name} follows`, () => scenario.state(name)[night.kind].connectedTo === primaries[0]).catch(
        (error: unknown) => wrong.push(`nothing is left to do: ${String(error)}`),
      );
  return wrong;
}
