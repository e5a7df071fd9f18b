/** The door for monitoring: what is known about each deployment, for Prometheus. It changes nothing. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { temporal } from '@temporalio/proto';
import { Gauge, Registry } from 'prom-client';
import type { Inventory } from '../../inventory';
import { openHttpDoor } from '../http';
import type { OpenDoor } from '../http';
import { certificates } from './certificates';
import { METRICS, seconds, SOURCES } from './names';
import type { MetricName, Sample } from './names';
import { Readings } from './readings';

/** How long a scrape waits for what is new. Prometheus gives up after ten seconds. */
const ANSWER_MS = 3_500;
/** Two Prometheus servers that scrape one gateway cost no more than one. */
const FRESH_MS = 5_000;
/** When a refresh is given up: the next one may succeed. */
const REFRESH_MS = 15_000;
const CERTIFICATES_MS = 10 * 60_000;
/** A live worker polls at least this often. */
const POLLED_LATELY_MS = 65_000;

export interface MetricsOptions {
  /** `host:port` */
  readonly address: string;
  /** PEM. Absent: plain HTTP. */
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer } | undefined;
  readonly client: Client;
  readonly namespace: string;
  readonly taskQueue: string;
  /** The inventory in force. */
  readonly inventory: () => Inventory;
  readonly version: string;
  /** For tests. */
  readonly freshMs?: number;
}

/** Opens the door. Nothing is asked of Temporal before the first scrape. */
export function openMetrics(options: MetricsOptions): Promise<OpenDoor> {
  const { address, tls } = options;
  const exporter = new Exporter(options);
  const limits = { bodyLimit: 1_024, connectionTimeout: 30_000 };
  return openHttpDoor({ address, tls, limits, mostConnections: 100 }, (app) => {
    app.get('/metrics', async (_request, reply) => reply.type(exporter.contentType).send(await exporter.scrape()));
  });
}

/** What was read last, and when. */
interface Known {
  readonly samples: readonly Sample[];
  readonly at: number;
}

class Exporter {
  readonly #options: MetricsOptions;
  readonly #readings: Readings;
  readonly #registry = new Registry();
  readonly #gauges: ReadonlyMap<string, Gauge>;
  /** By deployment and source. */
  readonly #known = new Map<string, Known & { readonly deployment: string; readonly source: string }>();
  #refreshing: Promise<unknown> | undefined;
  #refreshedAt = -Infinity;

  constructor(options: MetricsOptions) {
    this.#options = options;
    this.#readings = new Readings(options.client, options.taskQueue);
    this.#gauges = new Map(
      Object.entries(METRICS).map(([name, { help, labels }]) => [
        name,
        new Gauge({ name, help, labelNames: [...labels], registers: [this.#registry] }),
      ]),
    );
  }

  get contentType(): string {
    return this.#registry.contentType;
  }

  /** All metrics as text: what could be read within the time, otherwise what was known before, each with its time. */
  async scrape(): Promise<string> {
    const over = new AbortController();
    await Promise.race([this.#refresh(), delay(ANSWER_MS, undefined, { signal: over.signal }).catch(() => undefined)]);
    over.abort();
    for (const gauge of this.#gauges.values()) gauge.reset();
    this.#set({ metric: 'runbooks_info', labels: { version: this.#options.version }, value: 1 });
    const { deployments } = this.#options.inventory();
    const wanted = [...deployments.keys()].flatMap((deployment) => SOURCES.map((source) => ({ deployment, source })));
    for (const labels of [...wanted, { deployment: '', source: 'workers' }])
      this.#set({ metric: 'runbooks_read_timestamp_seconds', labels, value: 0 });
    for (const { deployment, source, samples, at } of this.#known.values()) {
      // A deployment that left the inventory has no metrics.
      if (deployment !== '' && !deployments.has(deployment)) continue;
      samples.forEach((each) => this.#set(each));
      this.#set({ metric: 'runbooks_read_timestamp_seconds', labels: { deployment, source }, value: seconds(at) });
    }
    return this.#registry.metrics();
  }

  #set({ metric, labels, value }: { readonly metric: MetricName } & Omit<Sample, 'metric'>): void {
    this.#gauges.get(metric)?.set(labels, value);
  }

  /** Reads everything once, however many scrapes wait for it. */
  async #refresh(): Promise<void> {
    const { freshMs = FRESH_MS } = this.#options;
    if (performance.now() - this.#refreshedAt < freshMs) return;
    const given = delay(REFRESH_MS, undefined, { ref: false });
    this.#refreshing ??= Promise.race([this.#read(), given]).finally(() => {
      this.#refreshing = undefined;
      this.#refreshedAt = performance.now();
    });
    await this.#refreshing;
  }

  async #read(): Promise<void> {
    const deployments = [...this.#options.inventory().deployments.values()];
    await Promise.all([
      this.#note('', 'workers', () => this.#workers()),
      ...deployments.flatMap((deployment) => {
        const { name } = deployment;
        const known = this.#known.get(keyOf(name, 'certificates'));
        const stale = known === undefined || Date.now() - known.at > CERTIFICATES_MS;
        return SOURCES.map((source) => {
          if (source !== 'certificates') return this.#note(name, source, () => this.#readings[source](deployment));
          return stale ? this.#note(name, source, () => certificates(deployment)) : undefined;
        });
      }),
    ]);
  }

  /** What cannot be read stays as it was, with its time. */
  async #note(deployment: string, source: string, read: () => Promise<readonly Sample[]>): Promise<void> {
    try {
      const at = Date.now();
      const samples = await read();
      this.#known.set(keyOf(deployment, source), { deployment, source, samples, at });
    } catch {
      // The time stamp of the source shows it.
    }
  }

  async #workers(): Promise<readonly Sample[]> {
    const { client, namespace, taskQueue } = this.#options;
    const taskQueueType = temporal.api.enums.v1.TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW;
    const { pollers } = await client.withDeadline(Date.now() + ANSWER_MS, () =>
      client.workflowService.describeTaskQueue({ namespace, taskQueue: { name: taskQueue }, taskQueueType }),
    );
    const since = (Date.now() - POLLED_LATELY_MS) / 1_000;
    const lately = pollers.filter(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) > since);
    return [{ metric: 'runbooks_workers', labels: {}, value: new Set(lately.map(({ identity }) => identity)).size }];
  }
}

const keyOf = (deployment: string, source: string): string => `${deployment} ${source}`;
