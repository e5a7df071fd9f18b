import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { until } from '../support/by-hand';
import { replayRun } from '../support/replay';
import { expectFiltered } from '../support/faults';
import { astray, commandsIn } from './morning';
import type { Played, Player } from './player';

/** Permitted difference between the times of the service and those of the run, in ms. */
const CLOCKS_MS = 250;

/** Calls that end the role of a cluster. */
const DANGEROUS = /replication\/\w+\/(primary\/(demote|disable)|secondary\/(enable|disable|update-primary))$/;
/** An entry of what is left to do that is optional. */
const ON_WISH = /^\w+ stays primary\. To move service back/;

/** Compares the report of a run with the state of the simulated service. Returns one line for each false statement. */
export async function judge(player: Player, played: Played): Promise<string[]> {
  const { night, scenario } = player;
  const { run, report, roles, task, calls } = played;
  const { outcome, outage, loss, leftToDo, steps, findings } = report;
  const wrong: string[] = [];
  const expectThat = (holds: boolean, otherwise: string) => void (holds || wrong.push(otherwise));
  const left = leftToDo.join('\n');
  const clusters = [...scenario.service.clusters.values()];
  const primaries = player.primaries.map(({ name }) => name);
  const changes = ['drSwitchover', 'drFailover', 'performancePromotion'].includes(report.runbook);
  const [old = night.clusters[0]] = played.before;
  const unplanned =
    report.runbook === 'drFailover' || report.takenOver !== undefined || task.input['mode'] === 'unplanned';

  // 1. The run ended, and a replay on another worker gives the same result.
  expectThat(!['running', 'failed', 'timed-out'].includes(outcome), `it ended as ${outcome}`);
  await replayRun(run).catch((error: unknown) => wrong.push(String(error)));

  // 2. There are never two primaries, unless people attested that the old one is gone; then the report says to keep it
  // away.
  const now = new Set<string>(played.before);
  const most = Math.max(now.size, 1);
  const without: { from: number; to?: number }[] = [];
  for (const { at, cluster, mode } of roles) {
    const before = now.size;
    if (mode === 'primary') now.add(cluster);
    else now.delete(cluster);
    expectThat(
      now.size <= most || (unplanned && /[Kk]eep \w+ (fenced|away)/.test(left)),
      `two primaries: ${[...now].join()}`,
    );
    if (now.size === 0) without.push({ from: at });
    else if (before === 0 && without.length > 0) Object.assign(without.at(-1) ?? {}, { to: at });
  }

  // 3. The report is right about which clusters are primary and which are not.
  const isNew = primaries.some((each) => each !== old);
  if (changes && outcome === 'completed')
    expectThat(isNew && (unplanned || primaries.length === 1), `completed; primary ${primaries.join()}`);
  if (outcome === 'rolled-back') expectThat(primaries.join() === old, `rolled back; primary ${primaries.join()}`);
  if (!changes && report.takenOver === undefined) {
    // A run that joins or re-points a cluster never changes the role of the serving cluster.
    const on = calls.filter(({ method, cluster }) => method !== 'GET' && cluster === played.serving);
    const dangerous = on.filter(({ path }) => DANGEROUS.test(path)).map(({ path }) => path);
    expectThat(dangerous.length === 0, `${played.serving} serves, and got ${dangerous.join()}`);
    const discarded = findings.some(({ code }) => code === 'writes-after-split-lost');
    const reported =
      roles.length === 0 || report.runbook === 'secondaryRepointing' || (loss?.loss === 'unknown' && discarded);
    expectThat(reported, 'the writes of the former primary are not reported as lost');
    if (outcome === 'completed') expectThat(!primaries.includes(String(task.input['cluster'])), 'it is still primary');
  }
  for (const [, names = ''] of left.matchAll(/; ([a-z ]+) reported being (?:performance )?primary/g))
    for (const name of names.split(' and ')) expectThat(primaries.includes(name), `${name} is reported as primary`);
  const [none, silent = ''] =
    /no cluster confirmed as (?:performance )?primary(?:; ([a-z ]+) did not answer)?/.exec(left) ?? [];
  if (none !== undefined)
    for (const name of primaries)
      expectThat(silent.split(' and ').includes(name), `${name} is not reported as primary`);
  if (primaries.length === 0 && played.before.length > 0)
    expectThat(
      /no cluster|no primary|none|outcome is unknown|not proven/.test(left),
      `no primary, and left to do: ${left}`,
    );
  if (outcome === 'refused') expectThat(roles.length === 0, 'refused, but a role changed');

  // 4. If the report says that nothing is lost, every acknowledged write is there.
  const [serving] = player.primaries;
  if (serving && primaries.length === 1 && (loss?.loss === 'none' || !changes))
    for (const path of player.kept.keys())
      expectThat(serving.read(path) !== undefined, `${path} is lost: ${loss?.why ?? ''}`);

  // 5. An outage is reported if there was one, from its beginning, and never as over too early.
  const [first, last] = [without[0], without.at(-1)];
  expectThat(
    !changes || first === undefined || outage !== undefined,
    'there was no primary, but no outage is reported',
  );
  if (first && outage && !unplanned)
    expectThat(Date.parse(outage.startedAt) <= first.from + CLOCKS_MS, `the outage began ${JSON.stringify(first)}`);
  if (last && outage?.endedAt !== undefined)
    expectThat(
      Date.parse(outage.endedAt) + CLOCKS_MS >= (last.to ?? Infinity),
      `the outage lasted ${JSON.stringify(last)}`,
    );

  // 6. The outcome of each step is reported correctly.
  for (const { name, outcome: reported, activities } of steps) {
    const results = activities.map((each) => each.outcome);
    const done = results.length > 0 && results.every((each) => each === 'done' || each === 'already');
    const deduced = /^(Generate|Read and check|Compare)/.test(name);
    expectThat(reported !== 'failed' || !done || deduced, `step "${name}" is reported as failed`);
    expectThat(reported !== 'done' || results.at(-1) !== 'failed', `step "${name}" is reported as done`);
  }

  // 7. No token and no quota is left, except those in a report.
  for (const { name, tokens, storage } of clusters) {
    const all = player.reports;
    const reported = all
      .flatMap((each) => each.tokens)
      .filter((each) => each.cluster === name && each.state !== 'deleted').length;
    const alarms = all
      .flatMap((each) => each.findings)
      .filter(({ code, text }) => /orphan|not-in-record/.test(code) && text.includes(name)).length;
    const uncertain = all
      .flatMap((each) => each.leftToDo)
      .filter((each) => each.includes('token') && each.includes(name)).length;
    const alive = tokens.operationTokenCount;
    const known = reported + alarms + uncertain;
    expectThat(alive <= known, `${alive} operation tokens of ${name} are alive, but only ${known} are reported`);
    const quota = storage.keys('quota/').some((key) => key.includes(report.runId));
    expectThat(!quota || !primaries.includes(name) || left.includes('quota'), `a quota is left on ${name}`);
  }

  // 8. If nothing is left to do, every secondary of the run follows the primary.
  if (outcome === 'completed' && leftToDo.every((each) => ON_WISH.test(each))) {
    await player.repair();
    const { secondary, cluster = secondary } = task.input;
    const lost = await astray(player, 60_000, changes ? undefined : new RegExp(`^${String(cluster)}$`));
    expectThat(lost.length === 0, `nothing is left to do, but ${lost.join()} do not follow`);
  }

  // 9. Every command in the report has a valid input.
  for (const { runbook, input } of commandsIn([...leftToDo, ...findings.map(({ next: then = '' }) => then)])) {
    const parsed = RUNBOOK_INPUTS[runbook].safeParse(input);
    expectThat(parsed.success, `${runbook} does not accept ${JSON.stringify(input)}`);
  }
  return wrong;
}

/** After people repaired everything and followed the reports: nothing of ours is left, and the clusters could be switched back. */
export async function judgeMorning({ night, scenario, unreported, serving = '' }: Player): Promise<string[]> {
  for (const { name, storage } of scenario.service.clusters.values())
    await until(`no quota is left on ${name}`, () => storage.keys('quota/').length === 0);
  if (night.drSets['eu']) await expectFiltered(scenario, serving, ['europe']);
  const to = night.clusters.find((each) => each !== serving);
  const input = { to, dryRun: true, acceptLoss: 'bounded' };
  const dry = await scenario.play(night.kind === 'dr' ? 'drSwitchover' : 'performancePromotion', input);
  const failing = dry.preconditions.filter(({ verdict }) => verdict === 'fail');
  return [
    ...failing.map((each) => `the clusters could not be switched back: ${JSON.stringify(each)}`),
    ...[...unreported].map((each) => `no report says that ${each} has no primary`),
  ];
}
