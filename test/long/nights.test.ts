/**
 * Seeded nights: a change of the primary, in which things go wrong and people decide at random, and the runs of the morning
 * after, until all is well: played by real runs on the Temporal server against the simulated service, whose own state says
 * whether the reports are true.
 *
 *   RUNBOOKS_NIGHTS_FROM=17 RUNBOOKS_NIGHTS=1 npx jest test/long/nights
 */
import { renderMarkdown } from '../../src/report/render';
import { nightOf } from '../nights/night';
import { judge, judgeMorning } from '../nights/oracle';
import { Player } from '../nights/player';

const FROM = Number(process.env['RUNBOOKS_NIGHTS_FROM'] ?? 1);
const NIGHTS = Number(process.env['RUNBOOKS_NIGHTS'] ?? 20);
const LANES = 5;
jest.setTimeout(300_000 + NIGHTS * 30_000);

/** What was wrong in one night, with all that tells why. */
async function mistakesOf(seed: number): Promise<string[]> {
  const night = nightOf(seed);
  const player = await Player.open(night);
  const told: string[] = [];
  const wrong: string[] = [];
  try {
    const outcomes: string[] = [];
    for await (const played of player.plays()) {
      told.push(renderMarkdown(played.report));
      outcomes.push(`${played.task.runbook} ${played.report.outcome}`);
      for (const each of await judge(player, played)) wrong.push(`${played.task.runbook}: ${each}`);
    }
    wrong.push(...(await judgeMorning(player)));
    process.stderr.write(`night ${seed}: ${outcomes.join(', ')}${wrong.map((each) => `\n  ${each}`).join('')}\n`);
    return wrong.length === 0 ? [] : [...wrong, ...player.log, JSON.stringify(night), ...told];
  } catch (error) {
    process.stderr.write(`night ${seed}: ${String(error)}\n`);
    return [
      ...wrong,
      error instanceof Error ? (error.stack ?? error.message) : String(error),
      ...player.log,
      JSON.stringify(night),
      ...told,
    ];
  } finally {
    await player.close();
  }
}

it(`whatever goes wrong in ${NIGHTS} nights, no run is stuck and every report is true`, async () => {
  const seeds = Array.from({ length: NIGHTS }, (_, index) => FROM + index);
  const failures: string[] = [];
  const lane = async () => {
    for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift())
      for (const mistake of await mistakesOf(seed)) failures.push(`night ${seed}: ${mistake}`);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(failures).toEqual([]);
});
