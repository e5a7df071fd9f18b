/** The door for incident tools: takes signed messages, and starts the run that the inventory's trigger names. */
import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isRunbookError, RunbookError } from '../../errors';
import { readSecret } from '../../inventory';
import type { Inventory, Trigger } from '../../inventory';
import { Budget } from '../budget';
import { openHttpDoor } from '../http';
import type { OpenDoor } from '../http';
import { isLoopback } from '../listening';
import { wishOf } from './incidents';
import { BadSignature, keyOf, verify } from './signatures';
import type { Received } from './signatures';
import { runAgain, startRun } from './start';
import type { Outcome, RunOfIncident, Starting } from './start';

/** The largest message that PagerDuty sends. */
const MOST_BYTES = 256 * 1024;
/** Senders wait 5 to 10 s, and send again if no answer comes. */
const ANSWER_MS = 900;
const RETRY_AFTER_S = 30;
/** A secret that can be guessed is none. */
const LEAST_SECRET_BYTES = 16;
const MOST_CONNECTIONS = 200;
const MOST_AT_ONCE = 20;
const MOST_REMEMBERED = 10_000;
/** How often the same complaint about one trigger is logged. */
const QUIET_MS = 60_000;

export interface ReceiverOptions extends Starting {
  /** `host:port` */
  readonly address: string;
  /** PEM. Absent: plain HTTP, on loopback only. */
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer } | undefined;
  /** The inventory in force. */
  readonly inventory: () => Inventory;
  /** Takes one line: what was started, and what was refused. */
  readonly log: (line: string) => void;
  /** For tests: how long Temporal may take. */
  readonly answerMs?: number;
}

/** Opens the door. Nothing is asked of Temporal before a message comes. */
export async function openReceiver(options: ReceiverOptions): Promise<OpenDoor> {
  const { address, tls } = options;
  if (tls === undefined && !isLoopback(address))
    throw new RunbookError('INVALID_INPUT', `Plain HTTP on ${address} would show secrets to the network.`, {
      needed: 'an address such as 127.0.0.1:8420, or TLS',
      next: 'Add --tls-cert and --tls-key, or listen on loopback behind a proxy that has TLS.',
    });
  const limits = { bodyLimit: MOST_BYTES, connectionTimeout: 10_000 };
  return openHttpDoor({ address, tls, limits, mostConnections: MOST_CONNECTIONS }, (app) => {
    // Raw: the signature is verified over the bytes that came.
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
    app.setErrorHandler(async (error: { readonly statusCode?: number }, _request, reply) => {
      const status = error.statusCode ?? 500;
      // Another text might quote the message.
      const why = status === 413 ? `the body is larger than ${MOST_BYTES / 1024} KiB` : 'the message cannot be read';
      await reply.code(status).send({ started: false, why });
    });
    app.setNotFoundHandler(async (_request, reply) => {
      await reply.code(404).send({ started: false, why: 'no trigger has this address: POST to /triggers/NAME' });
    });
    const receiver = new Receiver(options);
    app.post<{ Params: { name: string } }>('/triggers/:name', (request, reply) => receiver.take(request, reply));
  });
}

/**
 * The secrets of a trigger, one per line of its file.
 *
 * @throws RunbookError `CREDENTIAL_UNAVAILABLE`
 */
export async function secretsOf(trigger: Trigger): Promise<readonly string[]> {
  const lines = (await readSecret(trigger.secret, 'trigger-secret')).reveal().split(/\r?\n/);
  const secrets = lines.map((line) => line.trim()).filter((line) => line !== '');
  if (secrets.every((secret) => keyOf(trigger, secret).length >= LEAST_SECRET_BYTES)) return secrets;
  throw new RunbookError('CREDENTIAL_UNAVAILABLE', `A secret in ${trigger.secret.file} is too short.`, {
    needed: `at least ${LEAST_SECRET_BYTES} bytes each${trigger.kind === 'standard' ? ', as whsec_ and base64' : ''}`,
    next: `Put a random secret into the file, one per line, and give it to the sender of trigger ${trigger.name}.`,
  });
}

/** Too many messages: the sender tries again. */
class Busy extends Error {}

class Receiver {
  readonly #options: ReceiverOptions;
  readonly #budget = new Budget();
  /** Runs by the digest of the messages that led to them, the oldest first. */
  readonly #remembered = new Map<string, RunOfIncident>();
  readonly #complained = new Map<string, number>();
  #atOnce = 0;

  constructor(options: ReceiverOptions) {
    this.#options = options;
  }

  async take(request: FastifyRequest<{ Params: { name: string } }>, reply: FastifyReply): Promise<void> {
    const { name } = request.params;
    const trigger = this.#options.inventory().triggers.find((each) => each.name === name);
    if (trigger === undefined) return reply.callNotFound();
    const body = Buffer.isBuffer(request.body) ? request.body : Buffer.alloc(0);
    const message = { headers: request.headers, body };
    // Slack shows any other status as a failure to the person who typed the command.
    const accepted = trigger.kind === 'slack' ? 200 : 202;
    try {
      await reply.code(accepted).send(await this.#answer(trigger, message));
    } catch (error) {
      if (error instanceof BadSignature) {
        this.#complain(name, `refused a message of trigger ${name}: ${error.message}`);
        return reply.code(401).send({ started: false, why: error.message });
      }
      const busy = error instanceof Busy;
      const why = busy ? error.message : isRunbookError(error) ? error.code : 'Temporal does not answer in time';
      const next = isRunbookError(error) ? `: ${error.message}` : '';
      this.#complain(name, `could not carry out a message of trigger ${name}, which may be sent again: ${why}${next}`);
      return reply
        .code(busy ? 429 : 503)
        .header('retry-after', RETRY_AFTER_S)
        .send({ started: false, why });
    }
  }

  async #answer(trigger: Trigger, message: Received): Promise<object> {
    const now = Date.now();
    const verified = verify(trigger, message, await secretsOf(trigger), now);
    const wish = wishOf(trigger, message, verified, now);
    if (!wish.wanted) return { started: false, ...wish };
    const key = digestOf(trigger, wish.incident, message);
    const known = this.#remembered.get(key);
    if (known === undefined && !this.#budget.take(trigger.name))
      throw new Busy('too many incidents of this trigger: at most 20 at once, and one more every 10 s');
    const outcome = await this.#ask((starting) =>
      known ? runAgain(starting, known) : startRun(starting, trigger, wish),
    );
    if (outcome.started) this.#remember(key, outcome.run);
    return { ...outcome, text: this.#tell(trigger, wish.incident, outcome) };
  }

  /** Asks Temporal, within the time that the answer may take, and a few at a time. */
  async #ask(work: (starting: Starting) => Promise<Outcome>): Promise<Outcome> {
    if (this.#atOnce >= MOST_AT_ONCE) throw new Busy('too many messages at once');
    const { client, answerMs = ANSWER_MS } = this.#options;
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), answerMs);
    this.#atOnce += 1;
    try {
      const over = new Promise<never>((_resolve, reject) => {
        late.signal.addEventListener('abort', () => reject(new Error('late')));
      });
      const asked = client.withDeadline(Date.now() + answerMs, () =>
        client.withAbortSignal(late.signal, () => work(this.#options)),
      );
      asked.catch(() => undefined);
      return await Promise.race([asked, over]);
    } finally {
      clearTimeout(timer);
      this.#atOnce -= 1;
    }
  }

  #remember(key: string, run: RunOfIncident): void {
    const [oldest] = this.#remembered.keys();
    if (this.#remembered.size >= MOST_REMEMBERED && oldest !== undefined) this.#remembered.delete(oldest);
    this.#remembered.set(key, run);
  }

  /** One sentence about the outcome, for people who see the answer. */
  #tell({ name }: Trigger, incident: string, { started, duplicate, runbook, run, state }: Outcome): string {
    const of = `${run.workflowId} (run ${run.runId}, ${state})`;
    if (!started) {
      this.#complain(name, `trigger ${name} did not start a run for ${incident}: ${of} holds the lock`);
      return `Nothing was started: a run of ${runbook} holds the lock, ${of}.`;
    }
    if (duplicate) return `${runbook} was started by an earlier message: ${of}.`;
    this.#options.log(`Trigger ${name} started ${runbook} for ${incident}: ${of}.`);
    return `Started ${runbook}: ${of}.`;
  }

  /** Logs a complaint about a trigger, at most once a minute: anybody can cause some. */
  #complain(name: string, text: string): void {
    const now = performance.now();
    if (now - (this.#complained.get(name) ?? -Infinity) < QUIET_MS) return;
    this.#complained.set(name, now);
    this.#options.log(`${text.charAt(0).toUpperCase()}${text.slice(1)}`);
  }
}

/** Which message it is: the same bytes for the same incident. The headers differ when it is sent again. */
function digestOf({ name }: Trigger, incident: string, { body }: Received): string {
  return createHash('sha256')
    .update(JSON.stringify([name, incident]))
    .update(body)
    .digest('base64');
}
