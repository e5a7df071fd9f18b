import { createServer } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { json } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { z } from 'zod';
import { closeAtOnce, listenOnLoopback } from '../../simulator';

/** An event of PagerDuty's Events API, version 2, as far as the pager shows it. */
const EVENT = z.object({
  event_action: z.enum(['trigger', 'resolve']),
  dedup_key: z.string(),
  payload: z.object({ summary: z.string(), class: z.string() }).optional(),
});

/** An alert of the pager. */
export interface Alert {
  readonly summary: string;
  /** Epoch ms. */
  readonly openedAt: number;
  resolvedAt?: number;
}

/** What an open alert was told. */
export type Update = NonNullable<z.infer<typeof EVENT>['payload']>;

const POLL_MS = 100;

/** Plays PagerDuty on loopback: one alert for each `dedup_key`, which is open until it is resolved. */
export class Pager {
  /** By `dedup_key`, in the order in which they were opened. */
  readonly alerts = new Map<string, Alert>();
  readonly #server = createServer((request, response) => void this.#take(request, response));

  private constructor(private readonly changed: (alert: Alert, update?: Update) => void) {}

  /** @param changed - is called when an alert was opened, updated or resolved */
  static async start(changed: (alert: Alert, update?: Update) => void): Promise<Pager & { readonly address: string }> {
    const pager = new Pager(changed);
    return Object.assign(pager, { address: `http://127.0.0.1:${await listenOnLoopback(pager.#server)}/v2/enqueue` });
  }

  /** Waits for an alert that fulfils the condition. */
  async until(condition: (alerts: readonly Alert[]) => boolean, withinMs: number, stop: AbortSignal): Promise<boolean> {
    const deadline = Date.now() + withinMs;
    while (!condition([...this.alerts.values()])) {
      if (stop.aborted || Date.now() > deadline) return false;
      await delay(POLL_MS);
    }
    return true;
  }

  async stop(): Promise<void> {
    await closeAtOnce(this.#server);
  }

  async #take(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const event = EVENT.safeParse(await json(request).catch(() => undefined));
    response.writeHead(event.success ? 202 : 400).end();
    if (!event.success) return;
    const { event_action: action, dedup_key: key, payload } = event.data;
    const known = this.alerts.get(key);
    const isOpen = known !== undefined && known.resolvedAt === undefined;
    if (action === 'resolve' && isOpen) {
      known.resolvedAt = Date.now();
      this.changed(known);
    } else if (action === 'trigger' && payload && isOpen) {
      this.changed(known, payload);
    } else if (action === 'trigger' && payload) {
      const alert: Alert = { summary: payload.summary, openedAt: Date.now() };
      this.alerts.set(key, alert);
      this.changed(alert);
    }
  }
}
