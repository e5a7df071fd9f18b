/**
 * Seeded orders of shares and events, each played by a real run on the Temporal server against the simulated service.
 *
 *   RUNBOOKS_CEREMONY_FROM=17 RUNBOOKS_CEREMONY_SEEDS=1 npm run test:ceremony
 */
import { Scenario } from '../support/scenario';
import { CeremonyLane } from './lane';
import { judge } from './oracle';
import type { Verdict } from './oracle';
import { orderOf } from './orders';

const FROM = Number(process.env['RUNBOOKS_CEREMONY_FROM'] ?? 1);
const SEEDS = Number(process.env['RUNBOOKS_CEREMONY_SEEDS'] ?? 200);
const LANES = Number(process.env['RUNBOOKS_CEREMONY_LANES'] ?? 10);

/**
 * Defines the test of every second order, so that two processes share them: the orders with an even number, or those
 * with an odd one.
 */
export function testOrders(which: 'even' | 'odd'): void {
  const seeds = Array.from({ length: SEEDS }, (_, index) => FROM + index).filter(
    (seed) => (seed % 2 === 0) === (which === 'even'),
  );
  jest.setTimeout(180_000 + SEEDS * 5_000);
  // A file needs a test: where the chosen orders are all of the other file, the title says that there are none here.
  const define = seeds.length === 0 ? it.skip : it;
  define(
    `${seeds.length} ${which} orders of shares and events end in a token or in a named action for a named person`,
    () => playAll(seeds),
  );
}

async function playAll(seeds: readonly number[]): Promise<void> {
  const names = Array.from({ length: Math.min(LANES, seeds.length) }, (_, index) => `west-${index + 1}`);
  const scenario = await Scenario.start({
    topology: {
      clusters: [{ name: 'east', nodes: 1 }, ...names.map((name) => ({ name, nodes: 3 }))],
      dr: [{ primary: 'east', secondaries: names }],
    },
  });
  const began = { at: Date.now(), cpu: process.cpuUsage() };
  const failures: string[] = [];
  const verdicts: Verdict[] = [];
  try {
    const waiting = [...seeds];
    const play = async (cluster: string) => {
      const lane = new CeremonyLane(scenario, cluster);
      for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
        const order = orderOf(seed);
        const { mistakes, ...verdict } = await lane
          .play(order)
          .then((played) => judge(scenario, cluster, played))
          .catch((error: unknown) => ({
            mistakes: [error instanceof Error ? (error.stack ?? error.message) : String(error)],
          }));
        if ('end' in verdict) verdicts.push(verdict);
        if (mistakes.length > 0) failures.push(failure(order.seed, mistakes));
      }
    };
    await Promise.all(names.map(play));
    process.stderr.write(figures(verdicts, began));
    expect(failures).toEqual([]);
  } finally {
    await scenario.stop();
  }
}

function failure(seed: number, mistakes: readonly string[]): string {
  const text = [
    `order ${seed}: ${JSON.stringify(orderOf(seed))}`,
    ...mistakes.map((each) => `  ${each}`),
    `  alone: RUNBOOKS_CEREMONY_FROM=${seed} RUNBOOKS_CEREMONY_SEEDS=1 npm run test:ceremony`,
  ].join('\n');
  process.stderr.write(`${text}\n`);
  return text;
}

function figures(verdicts: readonly Verdict[], began: { readonly at: number; readonly cpu: NodeJS.CpuUsage }): string {
  const sum = (of: (verdict: Verdict) => number) => verdicts.reduce((total, each) => total + of(each), 0);
  const { user, system } = process.cpuUsage(began.cpu);
  const tokens = verdicts.filter(({ end }) => end === 'token').length;
  return [
    `orders ${FROM} to ${FROM + SEEDS - 1}: ${verdicts.length} of them in ${((Date.now() - began.at) / 1000).toFixed(1)} s`,
    `${((user + system) / 1e6 / Math.max(1, verdicts.length)).toFixed(2)} s of CPU each in this process`,
    `${tokens} ended in a token, ${verdicts.length - tokens} in a named action`,
    `${sum(({ attempts }) => attempts)} attempts`,
    `${sum(({ orphans }) => orphans)} tokens nobody holds, all told; ${sum(({ unknowable }) => unknowable)} alarms of which only the simulator knows that there is none\n`,
  ].join('; ');
}
