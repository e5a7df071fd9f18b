import { createHash } from 'node:crypto';
import type { Log } from '../src/contracts/log';
import { RunbookError, isRunbookError } from '../src/errors';
import { readLoginSecret } from '../src/inventory';
import type { ClusterEntry, Login } from '../src/inventory';
import { Secret } from '../src/secret';
import { ServiceClient } from '../src/vault';
import type { LoginToken, RequestBody } from '../src/vault';
import { CHANGE_TIMEOUT_MS } from './timing';

/** Minimum remaining life of a token when it is handed out, if its role permits: a primary change takes minutes. */
export const LOGIN_LIFE_MS = 5 * 60_000;
/** Pause after a renewal and a login have both failed, while the token is still valid. */
const PAUSE_MS = 15_000;
/** A valid token that lacks rights is replaced if it is older than this: the role may have other policies by now. */
const RIGHTS_AGE_MS = 60_000;
/** Remaining life of a token above which no caller waits for its renewal or for a new login. */
const ENOUGH_MS = 30_000;
/** How long a refused login is not sent again; longer for AppRole. */
const REFUSED_MS = 5_000;
/** The service locks an AppRole after five refusals that are each less than 15 minutes apart. */
const LOCKED_MS = 16 * 60_000;
/** Time for revoking all tokens when the worker stops. */
const CLOSE_MS = 5_000;

/** The login as text: method and mount, never its credentials. */
export function describeLogin({ method, mount }: Login): string {
  return `login by ${method} at auth/${mount}`;
}

/** The request body of the method at `auth/<mount>/login`. */
async function bodyOf(login: Login): Promise<RequestBody> {
  switch (login.method) {
    case 'approle': {
      const secretId = await readLoginSecret(login.secretId);
      return { role_id: new Secret('login-secret', login.roleId), secret_id: secretId };
    }
    case 'kubernetes':
    case 'jwt':
      return { role: login.role, jwt: await readLoginSecret(login.jwt) };
    case 'cert':
      return { name: login.role };
  }
}

/** A refusal is about the role or the credentials; any other answer is not. */
function loginFix({ method, mount }: Login, cluster: string, { httpStatus, next }: RunbookError): string {
  if (httpStatus === 500 || httpStatus === 502)
    return method === 'kubernetes' || method === 'jwt'
      ? `${cluster} could not verify the credential: let it reach what auth/${mount} is configured with (the token reviewer of Kubernetes, or the keys of the issuer), then retry.`
      : `${cluster} failed inside: read its log, then retry.`;
  if (httpStatus === 429)
    return `A rate-limit quota of ${cluster} refuses the login: raise it, or exempt auth/${mount}/login; then retry.`;
  if (httpStatus === 404)
    return `Enable the auth method at auth/${mount} on ${cluster}, or correct mount in the inventory.`;
  if (httpStatus !== undefined && httpStatus < 500)
    return `Correct the ${method} role on ${cluster}, or the login credential of the worker; then retry.`;
  return next ?? `Make sure that ${cluster} serves logins, then retry.`;
}

/** Identifies repeated logins with the same credentials. The credentials cannot be read from it. */
function digestOf(body: RequestBody): string {
  const sent = Object.entries(body).map(([name, value]) => [name, value instanceof Secret ? value.reveal() : value]);
  return createHash('sha256').update(JSON.stringify(sent)).digest('hex');
}

/** A token that a login returned. Times in ms since the epoch; `Infinity` for no expiry. */
interface Held {
  readonly token: Secret<'service-token'>;
  /** The cluster that issued it. */
  readonly from: string;
  readonly since: number;
  until: number;
  readonly lifeMs: number;
  renewable: boolean;
  readonly revocable: boolean;
}

/** One login of one DR set. Its members share tokens, which the current primary issues. */
interface Session {
  readonly login: Login;
  members: readonly ClusterEntry[];
  held: Held | undefined;
  /** Together with the token that it replaced, while that is valid: a call may still use the old one. */
  given: readonly Held[];
  working: Promise<Held> | undefined;
  /** A failed renewal is not repeated before this time. */
  pausedUntil: number;
  /** By cluster: the last refusal of a login. */
  readonly refused: Map<string, Refusal>;
}

interface Refusal {
  readonly error: RunbookError;
  /** Digest of the credentials that were sent. */
  readonly digest: string;
  /** Until then the refusal answers further logins. */
  readonly until: number;
}

/** A cluster that serves logins now. */
interface Serving {
  readonly client: ServiceClient;
  readonly entry: ClusterEntry;
}

/** The observation when the token itself is refused, and not a right of it. */
export const TOKEN_ENDED = 'an expired token, or one that the cluster does not recognize';

/** Whether a cluster knows a token. `unknown`: it serves no lookups at the moment, such as a DR secondary. */
export type Standing = 'alive' | 'ended' | 'unknown';

/**
 * The tokens that a worker obtains by login, kept only in its memory. A token is renewed when half of its life is over.
 * If that fails or adds too little time, the worker logs in again. All tokens are revoked when the worker stops.
 */
export class Logins {
  readonly #log: Log;
  readonly #sessions = new Map<string, Session>();
  readonly #clients = new Map<string, ServiceClient>();
  /** The revocation of tokens that were replaced. */
  #ending: Promise<unknown> = Promise.resolve();

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * The token of a cluster's login, valid as far as is known.
   *
   * @param members - of the cluster's DR set, the cluster itself first
   * @throws RunbookError CREDENTIAL_UNAVAILABLE
   */
  async token(login: Login, members: readonly ClusterEntry[]): Promise<Secret<'service-token'>> {
    const session = this.#session(login, members);
    const { held } = session;
    const now = Date.now();
    if (held !== undefined && (now < careAt(held) || (now < session.pausedUntil && now < held.until)))
      return held.token;
    const cared = this.#once(session, () => this.#care(session));
    if (held === undefined || held.until - now <= ENOUGH_MS) return (await cared).token;
    // In an outage it may take long until the other clusters of the set time out.
    cared.catch((error: unknown) => {
      const code = isRunbookError(error) ? error.code : 'INTERNAL';
      this.#log.warn({ cluster: held.from, code }, 'The token could be neither renewed nor replaced by a new login');
    });
    return held.token;
  }

  /**
   * A replacement for a token that a cluster refused: the token that another call obtained meanwhile, otherwise that of
   * a new login. Undefined if a new token would be no better.
   *
   * @throws RunbookError CREDENTIAL_UNAVAILABLE
   */
  async instead(
    login: Login,
    members: readonly ClusterEntry[],
    refused: Secret,
    standing: Standing,
  ): Promise<Secret<'service-token'> | undefined> {
    const session = this.#session(login, members);
    const { held } = session;
    // If both clusters are primary, neither knows the tokens of the other.
    const mayKnow = standing !== 'ended' || held?.from === members[0]?.name;
    if (held !== undefined && held.token !== refused && mayKnow) return held.token;
    const old = held === undefined || Date.now() - held.since > RIGHTS_AGE_MS;
    if (standing === 'unknown' || (standing === 'alive' && !old)) return undefined;
    return (await this.#once(session, async () => this.#logIn(session, await this.#serving(session)))).token;
  }

  /** Asks a cluster whether it knows a token, by a lookup-self with that token. */
  async standing(entry: ClusterEntry, token: Secret, signal?: AbortSignal): Promise<Standing> {
    const client = this.#client(entry);
    if (!SERVES.includes(await modeOf(client, signal))) return 'unknown';
    try {
      await client.sys.lookupSelf({ token, ...(signal && { signal }) });
      return 'alive';
    } catch (error) {
      return isRunbookError(error, 'PERMISSION_DENIED') ? 'ended' : 'unknown';
    }
  }

  /** Revokes all tokens that may be valid, within seconds. A token that could not be revoked is logged, and expires. */
  async close(): Promise<void> {
    const signal = AbortSignal.timeout(CLOSE_MS);
    const over = new Promise((resolve) => signal.addEventListener('abort', resolve));
    const ended = [...this.#sessions.values()].map(async (session) => {
      // A login that is under way also creates a token.
      await Promise.race([session.working?.catch(() => undefined), over]);
      await Promise.all(session.given.map((each) => this.#revoke(session, each, signal)));
    });
    await Promise.all([...ended, this.#ending]);
    this.#sessions.clear();
    await Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  #session(login: Login, members: readonly ClusterEntry[]): Session {
    const [own] = members;
    const key = JSON.stringify([own?.deployment, own?.drSet, login]);
    const session: Session = this.#sessions.get(key) ?? {
      login,
      members,
      held: undefined,
      given: [],
      working: undefined,
      pausedUntil: 0,
      refused: new Map(),
    };
    session.members = members;
    this.#sessions.set(key, session);
    return session;
  }

  #once(session: Session, work: () => Promise<Held>): Promise<Held> {
    session.working ??= work().finally(() => (session.working = undefined));
    return session.working;
  }

  async #care(session: Session): Promise<Held> {
    const { held } = session;
    try {
      const serving = await this.#serving(session);
      const mayRenew = held?.renewable === true && Date.now() < held.until;
      const renewed = mayRenew ? await this.#renew(held, serving) : undefined;
      return renewed ?? (await this.#logIn(session, serving));
    } catch (error) {
      if (held === undefined || Date.now() >= held.until || !isRunbookError(error)) throw error;
      session.pausedUntil = Date.now() + PAUSE_MS;
      const facts = { cluster: held.from, code: error.code, until: new Date(held.until).toISOString() };
      this.#log.warn(
        facts,
        'The token could be neither renewed nor replaced by a new login; it is used until it expires',
      );
      return held;
    }
  }

  /** Undefined if the token cannot be renewed, or gains hardly any time because its maximum TTL is near. */
  async #renew(held: Held, { client }: Serving): Promise<Held | undefined> {
    try {
      const answer = await client.sys.renewSelf({ token: held.token, timeoutMs: CHANGE_TIMEOUT_MS });
      Object.assign(held, { until: endOf(answer), renewable: answer.renewable === true });
      return Date.now() < careAt(held) ? held : undefined;
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      return undefined;
    }
  }

  async #logIn(session: Session, { client, entry }: Serving): Promise<Held> {
    const { login, refused } = session;
    const body = await bodyOf(login);
    const digest = digestOf(body);
    const last = refused.get(entry.name);
    if (last?.digest === digest && Date.now() < last.until) throw last.error;
    const sent = client.sys.login({ mount: login.mount, body }, { timeoutMs: CHANGE_TIMEOUT_MS });
    const answer = await sent.catch((error: unknown): never => {
      if (!isRunbookError(error) || error.code === 'CREDENTIAL_UNAVAILABLE') throw error;
      const failure = new RunbookError(
        'CREDENTIAL_UNAVAILABLE',
        `The ${describeLogin(login)} failed at ${entry.name}: ${error.message}`,
        {
          // A lost answer leaves at most a token that nobody has, and that expires.
          ...{ cluster: entry.name, retryable: error.retryable, httpStatus: error.httpStatus },
          ...{ answerText: error.answerText, observed: error.observed, next: loginFix(login, entry.name, error) },
        },
      );
      if (error.httpStatus !== 400 && error.httpStatus !== 403) throw failure;
      const until = Date.now() + (login.method === 'approle' ? LOCKED_MS : REFUSED_MS);
      const again = `The worker does not send the same login again before ${new Date(until).toISOString()}. If you corrected the role, retry after that time, or restart the workers.`;
      const refusal = failure.with({ next: `${failure.next ?? ''} ${again}` });
      refused.set(entry.name, { error: refusal, digest, until });
      throw refusal;
    });
    refused.delete(entry.name);
    const now = Date.now();
    const until = endOf(answer);
    session.held = {
      ...{ token: answer.token, from: entry.name, since: now, until, lifeMs: until - now },
      renewable: answer.renewable === true,
      revocable: answer.tokenType !== 'batch',
    };
    const living = [...session.given.filter((each) => each.until > now), session.held];
    session.given = living.slice(-2);
    const ended = living.slice(0, -2).map((each) => this.#revoke(session, each, AbortSignal.timeout(CLOSE_MS)));
    this.#ending = Promise.all([this.#ending, ...ended]);
    this.#log.info({ cluster: entry.name, ttlSeconds: answer.leaseDurationSeconds }, `Logged in: ${login.method}`);
    return session.held;
  }

  /** The member that serves logins now: the cluster itself if it does, otherwise the primary of its DR set. */
  async #serving({ login, members }: Session, signal?: AbortSignal): Promise<Serving> {
    const ask = async (entry: ClusterEntry) => {
      const client = this.#client(entry, login);
      return { entry, client, mode: await modeOf(client, signal) };
    };
    const [own, ...others] = members;
    const seen = own ? [await ask(own)] : [];
    // Its own answer is enough: the others may be dead, and a cluster that serves does not accept their tokens.
    if (!seen.some(({ mode }) => SERVES.includes(mode))) seen.push(...(await Promise.all(others.map(ask))));
    const serving = SERVES.map((mode) => seen.find((each) => each.mode === mode)).find((each) => each !== undefined);
    if (serving !== undefined) return serving;
    throw new RunbookError('CREDENTIAL_UNAVAILABLE', `No cluster of DR set ${own?.drSet ?? ''} serves logins now.`, {
      observed: seen.map(({ entry, mode }) => `${entry.name} ${mode}`).join(', '),
      needed: 'a primary that answers: a DR secondary does not serve logins',
      next: 'Retry once a primary serves. After a promotion the worker logs in to the new primary.',
    });
  }

  async #revoke(session: Session, held: Held, signal: AbortSignal): Promise<void> {
    if (!held.revocable || held.until <= Date.now()) return;
    try {
      const members = session.members.toSorted(
        (one, other) => Number(other.name === held.from) - Number(one.name === held.from),
      );
      const { client } = await this.#serving({ ...session, members }, signal);
      await client.sys.revokeSelf({ token: held.token, signal });
    } catch (error) {
      const facts = {
        cluster: held.from,
        code: isRunbookError(error) ? error.code : 'INTERNAL',
        until: Number.isFinite(held.until) ? new Date(held.until).toISOString() : 'no end',
      };
      this.#log.warn(facts, 'A login token could not be revoked; it stays valid until it expires');
    }
  }

  /** The client for logins and lookups; with the client certificate if the login uses one. */
  #client({ name, addresses, caFile }: ClusterEntry, login?: Login): ServiceClient {
    const clientCertificate = login?.method === 'cert' ? login : undefined;
    const key = JSON.stringify([addresses, caFile, clientCertificate]);
    const client = this.#clients.get(key) ?? new ServiceClient({ name, addresses, caFile, clientCertificate });
    this.#clients.set(key, client);
    return client;
  }
}

/** When a token must be renewed or replaced. */
function careAt({ until, lifeMs }: Held): number {
  return until === Infinity ? Infinity : until - Math.max(lifeMs / 2, Math.min(LOGIN_LIFE_MS, lifeMs * 0.9));
}

function endOf({ leaseDurationSeconds }: LoginToken): number {
  return leaseDurationSeconds === 0 ? Infinity : Date.now() + leaseDurationSeconds * 1_000;
}

/** DR modes in which a cluster serves logins and lookups, best first: a cluster without DR may be outside the set. */
const SERVES = ['primary', 'disabled'];

/** The DR mode of a cluster; or why it is not known, or why it serves nothing. */
async function modeOf(client: ServiceClient, signal?: AbortSignal): Promise<string> {
  try {
    // A standby may report an old role.
    const node = await client.activeNode({ signal });
    const { replicationDrMode: mode = 'disabled' } = await client.sys.health({ node, signal });
    return SERVES.includes(mode) ? mode : `DR ${mode}`;
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    return error.code;
  }
}
