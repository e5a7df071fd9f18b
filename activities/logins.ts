import { createHash } from 'node:crypto';
import type { Log } from '../src/contracts/log';
import { RunbookError, isRunbookError } from '../src/errors';
import { readSecret } from '../src/inventory';
import type { ClusterEntry, Login } from '../src/inventory';
import { Secret } from '../src/secret';
import { ServiceClient } from '../src/vault';
import type { LoginToken, RequestBody } from '../src/vault';
import { CHANGE_TIMEOUT_MS } from './read-act-confirm';

/** A token lives at least so long when it is given out, where its role lets it: a change of the primary takes minutes. */
export const LOGIN_LIFE_MS = 5 * 60_000;
/** After a renewal and a login that both failed, while the token still lives. */
const PAUSE_MS = 15_000;
/** A living token that is refused for its rights is replaced once it is older: the role may have other policies since. */
const RIGHTS_AGE_MS = 60_000;
/** What a token must live on for its renewal, or the login for another, to be waited for by nobody. */
const ENOUGH_MS = 30_000;
/** What was refused is not sent again for so long; of an AppRole for longer. */
const REFUSED_MS = 5_000;
/** A service locks an AppRole after five refusals, none of which is 15 minutes after the one before. */
const LOCKED_MS = 16 * 60_000;
/** For ending all tokens when the worker ends. */
const CLOSE_MS = 5_000;

/** The login in words: method and mount, never what it is made with. */
export function describeLogin({ method, mount }: Login): string {
  return `login by ${method} at auth/${mount}`;
}

/** What its method takes at `auth/<mount>/login`. */
async function bodyOf(login: Login): Promise<RequestBody> {
  switch (login.method) {
    case 'approle': {
      const secretId = await readSecret(login.secretId, 'login-secret');
      return { role_id: new Secret('login-secret', login.roleId), secret_id: secretId };
    }
    case 'kubernetes':
    case 'jwt':
      return { role: login.role, jwt: await readSecret(login.jwt, 'login-secret') };
    case 'cert':
      return { name: login.role };
  }
}

/** Tells whether a login is made with the same again; nothing of it can be read there. */
function digestOf(body: RequestBody): string {
  const sent = Object.entries(body).map(([name, value]) => [name, value instanceof Secret ? value.reveal() : value]);
  return createHash('sha256').update(JSON.stringify(sent)).digest('hex');
}

/** A token in hand. Times in ms since the epoch; `Infinity` for no end. */
interface Held {
  readonly token: Secret<'service-token'>;
  /** The cluster that gave it. */
  readonly from: string;
  readonly since: number;
  until: number;
  readonly lifeMs: number;
  renewable: boolean;
  readonly revocable: boolean;
}

/** One login of one DR set: its members share tokens, and whichever is primary gives them. */
interface Session {
  readonly login: Login;
  members: readonly ClusterEntry[];
  held: Held | undefined;
  /** With the one that it took the place of, while that lives: a call that was given it may still use it. */
  given: readonly Held[];
  working: Promise<Held> | undefined;
  /** Until when a failed renewal is not repeated. */
  pausedUntil: number;
  /** By cluster: the last refusal of a login. */
  readonly refused: Map<string, Refusal>;
}

interface Refusal {
  readonly error: RunbookError;
  /** Of what was sent. */
  readonly digest: string;
  /** Until when it stands for further logins. */
  readonly until: number;
}

/** A cluster that serves logins now. */
interface Serving {
  readonly client: ServiceClient;
  readonly entry: ClusterEntry;
}

/** What is observed of a refusal that is for the token and not for a right. */
export const TOKEN_ENDED = 'an expired token, or one that the cluster does not know';

/** What a cluster makes of a token. `unknown`: it serves no look-ups now, as a DR secondary. */
export type Standing = 'alive' | 'ended' | 'unknown';

/**
 * The tokens that a worker gets by logins, in its memory alone. Renewed when half of a token's life is over; where that
 * fails or gives too little, a new login. Ended when the worker ends.
 */
export class Logins {
  readonly #log: Log;
  readonly #sessions = new Map<string, Session>();
  readonly #clients = new Map<string, ServiceClient>();
  /** The end of tokens that others took the place of. */
  #ending: Promise<unknown> = Promise.resolve();

  constructor(log: Log) {
    this.#log = log;
  }

  /**
   * The token of a cluster's login, alive as far as is known.
   *
   * @param members - of the cluster's DR set, itself first
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
    // In an outage the other clusters of the set may take long to be no answer.
    cared.catch((error: unknown) => {
      const code = isRunbookError(error) ? error.code : 'INTERNAL';
      this.#log.warn({ cluster: held.from, code }, 'The token could be neither renewed nor replaced by a new login');
    });
    return held.token;
  }

  /**
   * Another token in the place of one that `at` refused: what another call got meanwhile, else a new login there. Undefined
   * where a new one would be no better.
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
    // Where both clusters are primary neither knows what the other gives.
    const mayKnow = standing !== 'ended' || held?.from === members[0]?.name;
    if (held !== undefined && held.token !== refused && mayKnow) return held.token;
    const old = held === undefined || Date.now() - held.since > RIGHTS_AGE_MS;
    if (standing === 'unknown' || (standing === 'alive' && !old)) return undefined;
    return (await this.#once(session, async () => this.#logIn(session, await this.#serving(session)))).token;
  }

  /** Asks a cluster whether it knows a token, by looking the token up with itself. */
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

  /** Ends every token that may live, within seconds. What could not be ended is logged, and ends by itself. */
  async close(): Promise<void> {
    const signal = AbortSignal.timeout(CLOSE_MS);
    const over = new Promise((resolve) => signal.addEventListener('abort', resolve));
    const ended = [...this.#sessions.values()].map(async (session) => {
      // A login that is under way leaves a token too.
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

  /** Undefined where the token cannot be renewed, or lives hardly longer by it: its longest life is near. */
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
          // An answer that was lost leaves at most a token that nobody has, and that ends by itself.
          ...{ cluster: entry.name, retryable: error.retryable, httpStatus: error.httpStatus },
          next: `Correct the ${login.method} role on ${entry.name}, or the login credential of the worker; then retry.`,
        },
      );
      if (error.httpStatus !== 400 && error.httpStatus !== 403) throw failure;
      const until = Date.now() + (login.method === 'approle' ? LOCKED_MS : REFUSED_MS);
      const again = `The worker does not send the same login again before ${new Date(until).toISOString()}. If you corrected the role, retry after that time, or restart the workers.`;
      const told = failure.with({ next: `${failure.next ?? ''} ${again}` });
      refused.set(entry.name, { error: told, digest, until });
      throw told;
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

  /** The member that serves logins now: the cluster itself where it does, else the primary of its DR set. */
  async #serving({ login, members }: Session, signal?: AbortSignal): Promise<Serving> {
    const modes = async (entries: readonly ClusterEntry[]) =>
      Promise.all(
        entries.map(async (entry) => {
          const client = this.#client(entry, login);
          return { entry, client, mode: await modeOf(client, signal) };
        }),
      );
    const [own] = members;
    // Its own answer is enough: the others may be dead, and what serves by itself takes no token of another.
    const asked = await modes(members.slice(0, 1));
    const seen = asked.some(({ mode }) => SERVES.includes(mode))
      ? asked
      : [...asked, ...(await modes(members.slice(1)))];
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

  /** For logins, and for what is asked of their tokens: with the certificate where the login has one. */
  #client({ name, addresses, caFile }: ClusterEntry, login?: Login): ServiceClient {
    const clientCertificate = login?.method === 'cert' ? login : undefined;
    const key = JSON.stringify([addresses, caFile, clientCertificate]);
    const client = this.#clients.get(key) ?? new ServiceClient({ name, addresses, caFile, clientCertificate });
    this.#clients.set(key, client);
    return client;
  }
}

/** When a token is to be renewed or replaced. */
function careAt({ until, lifeMs }: Held): number {
  return until === Infinity ? Infinity : until - Math.max(lifeMs / 2, Math.min(LOGIN_LIFE_MS, lifeMs * 0.9));
}

function endOf({ leaseDurationSeconds }: LoginToken): number {
  return leaseDurationSeconds === 0 ? Infinity : Date.now() + leaseDurationSeconds * 1_000;
}

/** DR modes in which a cluster serves logins and look-ups, the better one first: one without DR may be no part of the set. */
const SERVES = ['primary', 'disabled'];

/** The DR mode of a cluster; or why it is not known, or serves nothing. */
async function modeOf(client: ServiceClient, signal?: AbortSignal): Promise<string> {
  try {
    // A standby may tell of roles that were.
    const node = await client.activeNode({ signal });
    const { replicationDrMode: mode = 'disabled' } = await client.sys.health({ node, signal });
    return SERVES.includes(mode) ? mode : `DR ${mode}`;
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    return error.code;
  }
}
