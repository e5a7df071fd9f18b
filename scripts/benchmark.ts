import { cpus, loadavg, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { Client, Connection } from '@temporalio/client';
import { holdCeremony, startLaboratory, switchOver } from './bench-runs';
import type { CeremonyTimes, Laboratory, Switchover } from './bench-runs';

/*
 * npm run bench [-- --runs N] [--ceremonies N]
 *
 * `--runs 0` measures only ceremonies; `--ceremonies 0` measures only runs.
 *
 * Measures how long a run of `drSwitchover` takes beyond its calls to the service, and how long the steps of a ceremony
 * take (docs/benchmarks.md). Prints Markdown tables.
 */

const LATENCIES_MS = [5, 250];

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      runs: { type: 'string', default: '3' },
      ceremonies: { type: 'string', default: '40' },
    },
  });
  const runs = count('--runs', values.runs);
  const ceremonies = count('--ceremonies', values.ceremonies);
  const [cpu] = cpus();
  const machine = `${process.platform} ${process.arch}, ${cpus().length} x ${cpu?.model ?? 'unknown'}`;
  console.log(`Node ${process.versions.node}, ${machine}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB; ${load()}`);

  // Hide the service's own warnings about each role change.
  const laboratory = await startLaboratory((line) => line.startsWith('worker:') || console.log(line));
  const { server } = laboratory;
  try {
    const connection = await Connection.connect({ address: server.address });
    try {
      const client = new Client({ connection, namespace: server.namespace });
      // The first run is not measured: it fills caches and compiles code.
      await switchOver(client, laboratory);
      const rows: string[][] = [];
      for (const latencyMs of runs === 0 ? [] : LATENCIES_MS) {
        laboratory.service.latencyMs = latencyMs;
        const measured: Switchover[] = [];
        while (measured.length < runs) measured.push(await switchOver(client, laboratory));
        rows.push(row(latencyMs, measured));
      }
      if (runs > 0) console.log(`\n${table(HEADER, rows)}`);
      if (ceremonies > 0) console.log(`\n${await ceremonyTable(client, laboratory, ceremonies)}`);
      const peak = await laboratory.workerPeakBytes();
      const memory = peak === undefined ? 'not available on this system' : `${(peak / 2 ** 20).toFixed(0)} MiB`;
      const switchovers = runs * LATENCIES_MS.length + 1;
      console.log(`\nWorker, peak resident memory: ${memory}, after ${switchovers} switchovers; ${load()}`);
    } finally {
      await connection.close();
    }
  } finally {
    await laboratory.stop();
  }
}

const load = () => `load average ${loadavg()[0]?.toFixed(1) ?? ''}`;

function count(option: string, text: string): number {
  const value = Number(text);
  if (!Number.isInteger(value) || value < 0) throw new RangeError(`${option} must be a non-negative integer`);
  return value;
}

/** How long people wait for a verdict and the run waits for its token, at the lowest latency per call. */
async function ceremonyTable(client: Client, laboratory: Laboratory, ceremonies: number): Promise<string> {
  laboratory.service.latencyMs = LATENCIES_MS[0] ?? 0;
  await holdCeremony(client, laboratory);
  const held: CeremonyTimes[] = [];
  while (held.length < ceremonies) held.push(await holdCeremony(client, laboratory));
  const lines = {
    'signal received to share checked': held.flatMap(({ shareCheckedMs }) => shareCheckedMs),
    'generation from 3 shares to available token': held.map(({ generationMs }) => generationMs),
  };
  return table(
    ['at 5 ms per call, ms', 'measured', 'p50', 'p99', 'maximum'],
    Object.entries(lines).map(([name, values]) => [
      name,
      String(values.length),
      ...[50, 99, 100].map((percent) => percentile(values, percent).toFixed(0)),
    ]),
  );
}

/** The columns of the switchover table, after the latency: header, value, and number of decimal digits. */
const COLUMNS: readonly (readonly [header: string, value: (each: Switchover) => number, digits: number])[] = [
  ['calls', ({ calls }) => calls, 0],
  ['runbook, s', ({ wholeMs }) => wholeMs / 1000, 1],
  ['runbook / its own calls', ({ wholeMs, inCallsMs }) => wholeMs / inCallsMs, 2],
  ['events', ({ events }) => events, 0],
];
const HEADER = ['per call', ...COLUMNS.map(([header]) => header), 'overhead per step p50, ms', 'p99, ms'];

function row(latencyMs: number, measured: readonly Switchover[]): string[] {
  const steps = measured.flatMap(({ stepOverheadsMs }) => stepOverheadsMs);
  return [
    `${latencyMs} ms`,
    ...COLUMNS.map(([, value, digits]) => spread(measured.map(value), digits)),
    percentile(steps, 50).toFixed(0),
    percentile(steps, 99).toFixed(0),
  ];
}

/** Nearest-rank percentile. @throws RangeError if there are no values. */
function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const found = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (found === undefined) throw new RangeError('no values');
  return found;
}

/** Median, minimum, and maximum of measurements: `1.05 (1.02-1.09)` */
function spread(values: readonly number[], digits: number): string {
  const [median, minimum, maximum] = [50, 0, 100].map((percent) => percentile(values, percent).toFixed(digits));
  return `${median} (${minimum}-${maximum})`;
}

/** A Markdown table. */
function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

void main();
