import { readFileSync } from 'node:fs';
import { cpus, loadavg, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { obtainTemporalServer } from '../src/dev-server/start-dev-server';
import { startLaboratory } from './bench/laboratory';
import type { Laboratory } from './bench/laboratory';
import { holdCeremony, switchOver } from './bench/runs';
import type { CeremonyTimes, CheckParts, StepOverhead } from './bench/runs';

/*
 * npm run bench [-- --runs N] [--ceremonies N]
 *
 * `--runs 0` measures ceremonies alone, `--ceremonies 0` none.
 *
 * Measures what a run of `drSwitchover` costs beyond the calls that it makes, and how long the steps of a ceremony take
 * (docs/benchmarks.md), and prints Markdown tables.
 */

const LATENCIES_MS = [5, 250];

interface Measured {
  readonly calls: number;
  readonly wholeMs: number;
  readonly inCallsMs: number;
  readonly stepOverheads: readonly StepOverhead[];
  readonly events: number;
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '3' },
      ceremonies: { type: 'string', default: '40' },
    },
  });
  const runs = count('--runs', values.runs);
  const ceremonies = count('--ceremonies', values.ceremonies);
  console.log(machine());

  const stolen = stolenSeconds();
  const server = await obtainTemporalServer({ onProgress: (line) => console.log(line) });
  try {
    const laboratory = await startLaboratory(server);
    const connection = await Connection.connect({ address: server.address });
    try {
      const client = new Client({ connection, namespace: server.namespace });
      // The first run pays for caches and compilation; it is measured by nobody.
      await switchOver(client, laboratory, server.namespace);
      const rows: string[][] = [];
      const costly: string[] = [];
      for (const latencyMs of runs === 0 ? [] : LATENCIES_MS) {
        const measured: Measured[] = [];
        for (let run = 1; run <= runs; run += 1) {
          measured.push(await measure(client, laboratory, server.namespace, latencyMs));
          console.log(`${latencyMs} ms per call, run ${run} of ${runs}: ${inOneLine(measured.at(-1))}`);
        }
        rows.push(row(latencyMs, measured));
        costly.push(`Costliest steps at ${latencyMs} ms per call: ${costliest(measured)}`);
      }
      if (runs > 0) console.log(`\n${table(HEADER, rows)}\n`);
      for (const line of costly) console.log(line);
      if (ceremonies > 0) console.log(`\n${await ceremonyTable(client, laboratory, ceremonies)}\n`);
      const peak = await laboratory.workerPeakBytes();
      console.log(
        `Worker, peak resident memory: ${peak === undefined ? 'not told by this system' : `${(peak / 2 ** 20).toFixed(0)} MiB`}, after ${runs * LATENCIES_MS.length + 1} switchovers`,
      );
    } finally {
      await connection.close();
      await laboratory.stop();
    }
  } finally {
    await server.stop();
  }
  const taken = stolenSeconds() - stolen;
  console.log(
    `Load average at the end: ${loadavg()[0]?.toFixed(1) ?? ''}; other machines took ${taken.toFixed(0)} s of processor time`,
  );
}

/** What a virtual machine had to wait for its processors, over all of them; 0 where the system does not tell. */
function stolenSeconds(): number {
  try {
    const [, , , , , , , , stolen] = (readFileSync('/proc/stat', 'utf8').split('\n')[0] ?? '').split(/\s+/);
    return Number(stolen ?? 0) / 100;
  } catch {
    return 0;
  }
}

function count(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new RangeError(`${option} must be a whole number`);
  return value;
}

const CHECK_PARTS: readonly (readonly [string, (parts: CheckParts) => number])[] = [
  ['… of it until the workflow has ordered the check', ({ ordered }) => ordered],
  ['… until the worker with the keys takes it', ({ taken }) => taken],
  ['… until the verdict is recorded', ({ checked }) => checked],
];

/** How long people wait for a verdict, and the run for its token, at the shortest time per call. */
async function ceremonyTable(client: Client, laboratory: Laboratory, ceremonies: number): Promise<string> {
  laboratory.service.latencyMs = LATENCIES_MS[0] ?? 0;
  await holdCeremony(client, laboratory);
  const held: CeremonyTimes[] = [];
  while (held.length < ceremonies) held.push(await holdCeremony(client, laboratory));
  const lines: readonly (readonly [name: string, values: readonly number[]])[] = [
    ['signal received to share checked', held.flatMap(({ shareCheckedMs }) => shareCheckedMs)],
    ...CHECK_PARTS.map(([name, of]) => [name, held.flatMap(({ checkParts }) => checkParts.map(of))] as const),
    ['generation from 3 shares to token in hand', held.map(({ generationMs }) => generationMs)],
    ['… of it while the service answers', held.map(({ generationInCallsMs }) => generationInCallsMs)],
  ];
  return table(
    ['at 5 ms per call, ms', 'measured', 'p50', 'p99', 'greatest'],
    lines.map(([name, values]) => [
      name,
      String(values.length),
      ...[50, 99, 100].map((percent) => percentile(values, percent).toFixed(0)),
    ]),
  );
}

async function measure(
  client: Client,
  laboratory: Laboratory,
  namespace: string,
  latencyMs: number,
): Promise<Measured> {
  laboratory.service.latencyMs = latencyMs;
  const { calls, report, wholeMs, inCallsMs, stepOverheads } = await switchOver(client, laboratory, namespace);
  return {
    calls,
    wholeMs,
    inCallsMs,
    stepOverheads,
    events: report.historyEvents,
  };
}

/** The columns of the table of switchovers, after the latency: what is told of the runs, and with how many digits. */
const COLUMNS: readonly (readonly [header: string, value: (each: Measured) => number, digits: number])[] = [
  ['calls', ({ calls }) => calls, 0],
  ['runbook, s', ({ wholeMs }) => wholeMs / 1000, 1],
  ['runbook / its own calls', ({ wholeMs, inCallsMs }) => wholeMs / inCallsMs, 2],
  ['events', ({ events }) => events, 0],
];
const HEADER = ['per call', ...COLUMNS.map(([header]) => header), 'overhead per step p50, ms', 'p99, ms'];

function row(latencyMs: number, measured: readonly Measured[]): string[] {
  const steps = measured.flatMap(({ stepOverheads }) => stepOverheads.map(({ ms }) => ms));
  return [
    `${latencyMs} ms`,
    ...COLUMNS.map(([, value, digits]) => spread(measured.map(value), digits)),
    percentile(steps, 50).toFixed(0),
    percentile(steps, 99).toFixed(0),
  ];
}

/** The three steps with the greatest median overhead. */
function costliest(measured: readonly Measured[]): string {
  const byStep = new Map<string, number[]>();
  for (const { step, ms } of measured.flatMap(({ stepOverheads }) => stepOverheads)) {
    // The direction changes from run to run; the step is the same.
    const name = step.replace(/\b(east|west)\b/g, 'CLUSTER');
    byStep.set(name, [...(byStep.get(name) ?? []), ms]);
  }
  return [...byStep]
    .map(([name, values]) => ({ name, median: percentile(values, 50) }))
    .sort((a, b) => b.median - a.median)
    .slice(0, 3)
    .map(({ name, median }) => `"${name}" ${median.toFixed(0)} ms`)
    .join(', ');
}

function inOneLine(measured: Measured | undefined): string {
  if (measured === undefined) return '';
  const { calls, wholeMs, inCallsMs, events } = measured;
  const seconds = (milliseconds: number): string => `${(milliseconds / 1000).toFixed(2)} s`;
  return `${calls} calls, ${events} events, runbook ${seconds(wholeMs)} (a call under way ${seconds(inCallsMs)})`;
}

function machine(): string {
  const [cpu] = cpus();
  return `Node ${process.versions.node}, ${process.platform} ${process.arch}, ${cpus().length} x ${cpu?.model ?? 'unknown'}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB; load average at the start ${loadavg()[0]?.toFixed(1) ?? ''}`;
}

/** Nearest-rank percentile. @throws RangeError for no values. */
function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const found = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (found === undefined) throw new RangeError('no values');
  return found;
}

/** Middle, least and greatest of some measurements: `1.05 (1.02-1.09)` */
function spread(values: readonly number[], digits: number): string {
  const [median, least, greatest] = [percentile(values, 50), Math.min(...values), Math.max(...values)];
  return `${median.toFixed(digits)} (${least.toFixed(digits)}-${greatest.toFixed(digits)})`;
}

/** A Markdown table. */
function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

main().catch((error: unknown) => {
  console.error(error);
  process.exitCode = 1;
});
