/**
 * The door for holders, approvers and operators: takes their signed documents, and says what waits for them. It has no key, no
 * session and no database, and decides nothing: the activities of the run verify every document again.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isRunWorkflowId } from '../../contracts/names';
import type { MailboxError } from '../../contracts/mailbox';
import { jsonText } from '../../contracts/words';
import { isRunbookError, RunbookError } from '../../errors';
import type { ErrorCode } from '../../errors';
import type { Inventory } from '../../inventory';
import { openHttpDoor } from '../http';
import type { OpenDoor } from '../http';
import { isLoopback } from '../listening';
import { Limits } from './limits';
import { PASSED, passable } from './passing';
import { compareBody, Proofs } from './proofs';
import type { Proven } from './proofs';
import type { OpenRun, RunId, Runs } from './runs';
import { takesPart, waitingFor } from './waiting';

const MOST_BYTES = 64 * 1024;
const MOST_CONNECTIONS = 500;
/** A request may wait 10 s for the run's receipt. */
const IDLE_MS = 30_000;
/** Everybody who asks within this time gets what was read once. */
const FRESH_MS = 1_000;
const RETRY_AFTER_MS = 5_000;
/** How often refusals of strangers are logged: anybody can cause them. */
const QUIET_MS = 1_000;

export interface MailboxOptions {
  /** `host:port` */
  readonly address: string;
  /** PEM. Absent: plain HTTP, on loopback only. */
  readonly tls?: { readonly certificate: Buffer; readonly key: Buffer } | undefined;
  readonly runs: Runs;
  /** The inventory in force. */
  readonly inventory: () => Inventory;
  /** Origins under which people reach this gateway. Empty: not compared. */
  readonly origins: readonly string[];
  /** Takes one line per request: who, what, and the answer's status. Never content. */
  readonly log: (line: string) => void;
  /** For tests: epoch milliseconds. */
  readonly now?: () => number;
}

/** Opens the door. Nothing is asked of Temporal before a person does. */
export function openMailbox(options: MailboxOptions): Promise<OpenDoor> {
  const { address, tls } = options;
  if (tls === undefined && !isLoopback(address))
    throw new RunbookError('INVALID_INPUT', `Plain HTTP on ${address} would show plans and names to the network.`, {
      needed: 'an address such as 127.0.0.1:8421, or TLS',
      next: 'Add --tls-cert and --tls-key, or listen on loopback behind a proxy that has TLS.',
    });
  const limits = { bodyLimit: MOST_BYTES, connectionTimeout: IDLE_MS };
  const mailbox = new Mailbox(options);
  return openHttpDoor({ address, tls, limits, mostConnections: MOST_CONNECTIONS }, (app) => serve(app, mailbox));
}

type RunParams = {
  readonly Params: { readonly workflowId: string; readonly runId?: string; readonly signal?: string };
};

function serve(app: FastifyInstance, mailbox: Mailbox): void {
  // Raw: the digest of the bytes that came is what was signed.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  // Before the body is read: a stranger costs a signature and no more.
  app.addHook('onRequest', async (request, reply) => {
    answerPages(request, reply);
    if (request.method === 'OPTIONS') return reply.code(204).send();
    await mailbox.admit(request, reply);
  });
  app.addHook('preHandler', async (request) => mailbox.compareBody(request));
  app.addHook('onResponse', async (request, reply) => mailbox.note(request, reply));
  app.setErrorHandler(async (error, request, reply) => mailbox.answerError(error, request, reply));
  app.setNotFoundHandler(async (request, reply) => mailbox.answerError(noAddress(), request, reply));
  app.get('/v1/waiting', (request) => mailbox.waiting(request));
  for (const path of ['/v1/runs/:workflowId', '/v1/runs/:workflowId/:runId'])
    app.get<RunParams>(path, (request) => mailbox.view(request));
  app.post<RunParams>('/v1/runs/:workflowId/:runId/:signal', (request, reply) => mailbox.pass(request, reply));
}

/** A saved page has no origin of its own, which browsers send as "null". No page that a server sends may read an answer. */
function answerPages(request: FastifyRequest, reply: FastifyReply): void {
  void reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', vary: 'origin' });
  if (request.headers.origin !== 'null') return;
  void reply.headers({
    'access-control-allow-origin': 'null',
    'access-control-allow-methods': 'GET, POST',
    'access-control-allow-headers': 'authorization, content-type',
    'access-control-expose-headers': 'retry-after',
    'access-control-max-age': '600',
  });
}

/** What is known about a request while it is under way. */
interface Underway {
  readonly at: number;
  readonly proven?: Proven;
  readonly code?: string;
  readonly signer?: string;
}

class Mailbox {
  readonly #options: MailboxOptions;
  readonly #proofs: Proofs;
  readonly #limits = new Limits();
  readonly #underway = new WeakMap<FastifyRequest, Underway>();
  #reading: Promise<readonly OpenRun[]> | undefined;
  #strangers = { since: -Infinity, more: 0 };

  constructor(options: MailboxOptions) {
    const { origins, now } = options;
    this.#options = options;
    this.#proofs = new Proofs({ people: () => options.inventory().people, origins, now });
  }

  /** Lets a request in, if it proves whose it is. */
  async admit(request: FastifyRequest, reply: FastifyReply): Promise<void> {
    this.#know(request, { at: performance.now() });
    const { method, url } = request.raw;
    const proven = await this.#proofs.verify(request.headers.authorization, method ?? '', url ?? '');
    this.#know(request, { proven });
    const leave = this.#proofs.useOnce(proven, () => this.#limits.enter(proven.person.name));
    reply.raw.once('close', leave);
  }

  compareBody(request: FastifyRequest): void {
    compareBody(this.#proven(request), bodyOf(request));
  }

  async waiting(request: FastifyRequest): Promise<object> {
    const { runs, inventory, now = Date.now } = this.#options;
    const open = await this.#openRuns();
    const { namespace } = runs;
    return waitingFor(this.#proven(request).person.name, inventory(), { namespace, runs: open, now: now() });
  }

  async view(request: FastifyRequest<RunParams>): Promise<object> {
    const { runs, inventory } = this.#options;
    const { view, deployment } = await runs.view(runOf(request));
    if (takesPart(inventory(), deployment, this.#proven(request).person.name)) return view;
    throw new RunbookError('REQUEST_REFUSED', 'You have no part in the deployment of this run.', {
      ...{ httpStatus: 403, needed: 'a holder, approver or operator of its deployment in the inventory' },
      next: 'Ask the operators of the deployment.',
    });
  }

  async pass(request: FastifyRequest<RunParams>, reply: FastifyReply): Promise<object> {
    const { runs, inventory } = this.#options;
    const { person } = this.#proven(request);
    const signal = PASSED.find((each) => each === request.params.signal);
    const { workflowId, runId } = runOf(request);
    if (signal === undefined || runId === undefined) throw noAddress();
    const to = { workflowId, runId };
    const addressed = { ...to, namespace: runs.namespace, sender: person.name };
    const { input, digest, signer } = await passable(signal, bodyOf(request), addressed, inventory().people);
    this.#know(request, { signer });
    this.#limits.takeDocument(person.name);
    const sent = await runs.send(to, signal, input, digest);
    // What waits for people may have changed.
    this.#reading = undefined;
    return reply.code(sent.receipt === undefined ? 202 : 200).send(sent);
  }

  async answerError(error: unknown, request: FastifyRequest, reply: FastifyReply): Promise<void> {
    const { status, retryAfterMs, body } = answerTo(error);
    this.#know(request, { code: body.error.code });
    // A text of an unexpected error might quote content.
    if (status === 500)
      this.#options.log(jsonText({ door: 'people', failed: error instanceof Error ? error.name : '' }));
    if (retryAfterMs !== undefined) void reply.header('retry-after', Math.ceil(retryAfterMs / 1_000));
    // What may be left of a body is not read.
    if (request.method !== 'GET') void reply.header('connection', 'close');
    await reply.code(status).send(body);
  }

  /** One line per request of a person; strangers can cause many, so theirs are counted. */
  note(request: FastifyRequest, reply: FastifyReply): void {
    const known = this.#underway.get(request);
    if (known === undefined) return;
    const { at, proven, code, signer } = known;
    const { workflowId, runId, signal } = (request.params ?? {}) as RunParams['Params'];
    const person = proven?.person.name;
    const line = {
      ...{ at: new Date().toISOString(), door: 'people', method: request.method, person },
      ...(person !== undefined && { workflowId, runId, signal: PASSED.find((each) => each === signal) }),
      ...(signer !== person && { signer }),
      ...{ status: reply.statusCode, code, ms: Math.round(performance.now() - at) },
    };
    if (person !== undefined) return this.#options.log(jsonText(line));
    const { since, more } = this.#strangers;
    if (performance.now() - since < QUIET_MS) return void (this.#strangers = { since, more: more + 1 });
    this.#strangers = { since: performance.now(), more: 0 };
    this.#options.log(jsonText({ ...line, ...(more > 0 && { more }) }));
  }

  #know(request: FastifyRequest, more: Partial<Underway>): void {
    const before = this.#underway.get(request) ?? { at: performance.now() };
    this.#underway.set(request, { ...before, ...more });
  }

  #proven(request: FastifyRequest): Proven {
    const proven = this.#underway.get(request)?.proven;
    if (proven === undefined) throw new RunbookError('INTERNAL', 'The request was not proven.');
    return proven;
  }

  /** The open runs, read once however many people ask at the same time. */
  #openRuns(): Promise<readonly OpenRun[]> {
    if (this.#reading !== undefined) return this.#reading;
    const reading = this.#options.runs.open();
    const forget = () => {
      if (this.#reading === reading) this.#reading = undefined;
    };
    reading.then(() => void setTimeout(forget, FRESH_MS).unref(), forget);
    this.#reading = reading;
    return reading;
  }
}

const bodyOf = ({ body }: FastifyRequest): Buffer => (Buffer.isBuffer(body) ? body : Buffer.alloc(0));

const RUN_ID = /^[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}$/;

/** The run that an address names. Never the record of a deployment, which believes what it is sent. */
function runOf({ params: { workflowId, runId } }: FastifyRequest<RunParams>): RunId {
  if (workflowId.length > 200 || !isRunWorkflowId(workflowId) || (runId !== undefined && !RUN_ID.test(runId)))
    throw noAddress();
  return { workflowId, runId };
}

const noAddress = () =>
  new RunbookError('NOT_FOUND', 'The gateway has no such address.', {
    needed: `GET /v1/waiting, GET /v1/runs/WORKFLOW-ID, or POST /v1/runs/WORKFLOW-ID/RUN-ID/ and one of ${PASSED.join(', ')}`,
    next: 'Use `runbook` or a page of the same version as the gateway.',
  });

const STATUS_OF: Readonly<Partial<Record<ErrorCode, number>>> = {
  NOT_FOUND: 404,
  TEMPORAL_UNAVAILABLE: 503,
  REPORT_UNAVAILABLE: 503,
};

/** An error as an answer. Only errors of our own say anything. */
function answerTo(error: unknown) {
  const { code, message, observed, needed, next, httpStatus, retryAfterMs } = isRunbookError(error)
    ? error
    : ofHttp((error as { readonly statusCode?: number } | null)?.statusCode);
  const status = httpStatus ?? STATUS_OF[code] ?? 500;
  const waitMs = retryAfterMs ?? (status === 503 ? RETRY_AFTER_MS : undefined);
  const body: MailboxError = {
    error: { code, message, ...(observed && { observed }), ...(needed && { needed }), ...(next && { next }) },
  };
  return { status, retryAfterMs: waitMs, body };
}

/** The error of a request that the HTTP server itself refuses. */
function ofHttp(status = 500): RunbookError {
  if (status >= 500)
    return new RunbookError('INTERNAL', 'The gateway failed.', { httpStatus: 500, next: 'Tell the operators.' });
  const why = status === 413 ? `The body is larger than ${MOST_BYTES / 1024} KiB.` : 'The request cannot be read.';
  return new RunbookError('INVALID_INPUT', why, { httpStatus: status, next: 'Use `runbook` or the page.' });
}
