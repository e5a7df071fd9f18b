import { constants } from 'node:fs';
import { lstat, open, rename, unlink } from 'node:fs/promises';
import type { Stats } from 'node:fs';
import { dirname } from 'node:path';
import { RunbookError, errnoOf, isRunbookError, orElse } from '../../src/errors';
import { readCredential } from '../../src/inventory';
import type { BatchTokenSink, KeyValuePlace } from '../../src/inventory';
import { Secret } from '../../src/secret';
import { apiPathOf } from '../../src/vault';
import type { SecretPlace, StoredSecret } from '../../src/vault';
import type { ClusterAccess, Clusters } from '../clusters';
import { lookUpKey } from '../evidence/marker';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';

/** Where the batch token of a DR set is kept. What is written replaces the token before it as a whole, or not at all. */
export interface BatchTokenStore {
  /** In words, for people. */
  readonly where: string;
  /** @throws RunbookError PRECONDITION_FAILED where a token must not, or cannot, be kept there. */
  check(signal: AbortSignal): Promise<void>;
  /** The token that is there; undefined where there is none. */
  read(signal: AbortSignal): Promise<Secret<'batch-token'> | undefined>;
  /** Puts the token there, and sees that it is. */
  replace(token: Secret<'batch-token'>, signal: AbortSignal): Promise<void>;
}

export function storeOf(clusters: Clusters, sink: BatchTokenSink): BatchTokenStore {
  return 'file' in sink ? new BatchTokenFile(sink.file) : new BatchTokenKey(clusters, sink.keyValue);
}

/** Rights of others, and the right of a group to write: nobody else may read a token, or put another in its place. */
const OTHERS = 0o007;
const GROUP_WRITES = 0o020;

/**
 * A batch token in a file of mode 0600. A new one replaces the old one as a whole: written beside it, synced, renamed.
 * One writer at a time: the lock of the rotation.
 */
export class BatchTokenFile implements BatchTokenStore {
  readonly where: string;
  readonly #file: string;

  constructor(file: string) {
    this.#file = file;
    this.where = `file ${file}`;
  }

  async check(): Promise<void> {
    const directory = dirname(this.#file);
    const found = await this.#look(directory);
    if (found?.isDirectory() !== true) throw this.#refused(`${directory} is not a directory`, 'a directory');
    if ((found.mode & (OTHERS | GROUP_WRITES)) !== 0)
      throw this.#refused(
        `mode ${(found.mode & 0o777).toString(8)} of ${directory}`,
        'a directory that others cannot enter and its group cannot write to: mode 0750 or 0700',
      );
    const own = process.getuid?.();
    if (own !== undefined && found.uid !== own && found.uid !== 0)
      throw this.#refused(`${directory} belongs to user ${found.uid}`, "the worker's user or root");
    const file = await this.#look(this.#file);
    if (file !== undefined && !file.isFile())
      throw this.#refused(
        `${this.#file} is ${file.isSymbolicLink() ? 'a symbolic link' : 'no regular file'}`,
        'a file',
      );
  }

  async read(): Promise<Secret<'batch-token'> | undefined> {
    try {
      return new Secret('batch-token', (await readCredential({ file: this.#file })).reveal());
    } catch (error) {
      if (isRunbookError(error, 'CREDENTIAL_UNAVAILABLE')) return undefined;
      throw error;
    }
  }

  async replace(token: Secret<'batch-token'>): Promise<void> {
    await this.check();
    const next = `${this.#file}.new`;
    // What a worker left that died between writing and renaming; never followed where it is a link.
    await unlink(next).catch(ignoreMissing);
    const { O_CREAT, O_EXCL, O_WRONLY, O_NOFOLLOW } = constants;
    try {
      const handle = await open(next, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW, 0o600);
      try {
        await handle.chmod(0o600);
        await handle.writeFile(`${token.reveal()}\n`);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await rename(next, this.#file);
    } catch (error) {
      await unlink(next).catch(() => undefined);
      throw this.#refused(errnoOf(error) ?? 'it cannot be written', 'a file that can be written');
    }
    const directory = await open(dirname(this.#file), 'r');
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }

  async #look(path: string): Promise<Stats | undefined> {
    try {
      return await lstat(path);
    } catch (error) {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw this.#refused(`${path}: ${errnoOf(error) ?? 'not readable'}`, 'a directory that can be looked at');
    }
  }

  #refused(observed: string, needed: string): RunbookError {
    return notKeepable(this.where, { observed, needed });
  }
}

function ignoreMissing(error: unknown): void {
  if (errnoOf(error) !== 'ENOENT') throw error;
}

/** Writes of one token: the second after a lost answer that did not take effect. */
const MAX_WRITES = 2;

/**
 * A batch token in a key-value engine of another deployment: of its present primary, whichever cluster that is. On a
 * version 2 engine a write replaces exactly the version that was read.
 */
export class BatchTokenKey implements BatchTokenStore {
  readonly where: string;
  readonly #clusters: Clusters;
  readonly #place: KeyValuePlace;

  constructor(clusters: Clusters, place: KeyValuePlace) {
    this.#clusters = clusters;
    this.#place = place;
    this.where = `${place.mount}/${place.path} of deployment ${place.deployment}`;
  }

  async check(signal: AbortSignal): Promise<void> {
    const keeper = await this.#keeper(signal);
    await this.#stored(keeper, signal);
    const full = apiPathOf(await this.#lookUp(keeper, signal));
    const capabilities = await keeper.client.sys.capabilitiesSelf([full], { token: await keeper.credential(), signal });
    const granted = capabilities[full] ?? [];
    if (granted.some((each) => each === 'root' || each === 'update' || each === 'create')) return;
    throw this.#refused(`${full}: ${granted.join(', ') || 'none'}`, `read, create and update on ${full}`);
  }

  async read(signal: AbortSignal): Promise<Secret<'batch-token'> | undefined> {
    return (await this.#stored(await this.#keeper(signal), signal))?.value;
  }

  async replace(token: Secret<'batch-token'>, signal: AbortSignal): Promise<void> {
    const keeper = await this.#keeper(signal);
    const before = await this.#stored(keeper, signal);
    for (let writes = 1; ; writes += 1) {
      const lost = await this.#write(keeper, token, before);
      const now = await this.#stored(keeper, signal);
      if (now?.value?.reveal() === token.reveal()) return;
      if (lost && now?.version === before?.version && writes < MAX_WRITES) continue;
      throw this.#refused('another token stands there now', 'the token that was written', lost);
    }
  }

  /** @returns whether the answer was lost */
  async #write(keeper: ClusterAccess, token: Secret, before: StoredSecret | undefined): Promise<boolean> {
    try {
      // Not with the signal: what is cancelled in its middle would leave the place in doubt.
      const options = { token: await keeper.credential(), timeoutMs: CHANGE_TIMEOUT_MS };
      const place = await this.#lookUp(keeper);
      await keeper.client.keyValue.writeSecret({ ...place, value: token, replaces: before?.version }, options);
      return false;
    } catch (error) {
      if (!isRunbookError(error) || error.outcomeKnown) throw error;
      return true;
    }
  }

  async #stored(keeper: ClusterAccess, signal: AbortSignal): Promise<StoredSecret | undefined> {
    const place = await this.#lookUp(keeper, signal);
    return keeper.client.keyValue.readSecret(place, { token: await keeper.credential(), signal });
  }

  async #lookUp(keeper: ClusterAccess, signal = AbortSignal.timeout(CHANGE_TIMEOUT_MS)): Promise<SecretPlace> {
    const { mount, path, field } = this.#place;
    return { ...(await lookUpKey(keeper, `${mount}/${path}`, signal)), field };
  }

  /** The one cluster of the other deployment that serves clients; roles are read, never configured. */
  async #keeper(signal: AbortSignal): Promise<ClusterAccess> {
    const { deployment, drSet } = this.#place;
    const members = this.#clusters.all(deployment).filter(({ entry }) => drSet === undefined || entry.drSet === drSet);
    const asked = await Promise.all(
      members.map(async (access) => {
        const mode = await access.client.sys.health({ signal }).then(
          (seen) => (seen.sealed ? 'sealed' : (seen.replicationDrMode ?? 'not told')),
          orElse(signal, ({ code }) => code),
        );
        return { access, mode };
      }),
    );
    const serving = asked.filter(({ mode }) => mode === 'primary' || mode === 'disabled');
    const [keeper] = serving;
    if (keeper !== undefined && serving.length === 1) return keeper.access;
    throw this.#refused(
      asked.map(({ access, mode }) => `${access.entry.name} ${mode}`).join(', '),
      `exactly one cluster of ${deployment} that serves clients`,
    );
  }

  #refused(observed: string, needed: string, doubt = false): RunbookError {
    return notKeepable(this.where, { observed, needed, outcomeKnown: !doubt });
  }
}

function notKeepable(
  where: string,
  seen: { readonly observed: string; readonly needed: string; readonly outcomeKnown?: boolean },
): RunbookError {
  const next = `Put the place of the token in order: ${where}${where.startsWith('file ') ? ' on this worker' : ''}.`;
  return new RunbookError('PRECONDITION_FAILED', `The batch token cannot be kept: ${where}.`, { ...seen, next });
}
