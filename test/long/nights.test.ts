/**
 * Seeded nights: a change of the primary, in which things go wrong and people decide at random, played by a real run on the
 * Temporal server against the simulated service, whose own state says whether the report is true.
 *
 *   RUNBOOKS_NIGHTS_FROM=17 RUNBOOKS_NIGHTS=1 npx jest test/long/nights
 */
import { renderMarkdown } from '../../src/report/render';
import { nightOf } from '../nights/night';
import { judge } from '../nights/oracle';
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
  try {
    const { run, report } = await player.play();
    told.push(renderMarkdown(report));
    const wrong = await judge(player, run, report);
    process.stderr.write(
      `night ${seed}: ${night.runbook} ${report.outcome}${wrong.map((each) => `\n  ${each}`).join('')}\n`,
    );
    return wrong.length === 0 ? [] : [...wrong, ...player.log, JSON.stringify(night), ...told];
  } catch (error) {
    return [
      error instanceof Error ? (error.stack ?? error.message) : String(error),
      ...player.log,
      JSON.stringify(night),
    ];
  } finally {
    await player.close();
  }
}

it(`whatever goes wrong in ${NIGHTS} nights, nobody is trapped and every report is true`, async () => {
  const seeds = Array.from({ length: NIGHTS }, (_, index) => FROM + index);
  const failures: string[] = [];
  const lane = async () => {
    for (let seed = seeds.shift(); seed !== undefined; seed = seeds.shift())
      for (const mistake of await mistakesOf(seed)) failures.push(`night ${seed}: ${mistake}`);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  expect(failures).toEqual([]);
});
