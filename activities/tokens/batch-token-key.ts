import type { StoredSecret } from '../../src/vault';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { KeyValuePlace } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import type { BatchTokenStore } from './batch-token-store';
import type { ClusterAccess, Clusters } from '../clusters';
import { CHANGE_TIMEOUT_MS } from '../read-act-confirm';

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
    const { mount, path, version } = this.#place;
    const full = version === 1 ? `${mount}/${path}` : `${mount}/data/${path}`;
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
      await keeper.client.keyValue.writeSecret({ ...this.#place, value: token, replaces: before?.version }, options);
      return false;
    } catch (error) {
      if (!isRunbookError(error) || error.outcomeKnown) throw error;
      return true;
    }
  }

  async #stored(keeper: ClusterAccess, signal: AbortSignal): Promise<StoredSecret | undefined> {
    return keeper.client.keyValue.readSecret(this.#place, { token: await keeper.credential(), signal });
  }

  /** The one cluster of the other deployment that serves clients; roles are read, never configured. */
  async #keeper(signal: AbortSignal): Promise<ClusterAccess> {
    const { deployment, drSet } = this.#place;
    const members = this.#clusters.all(deployment).filter(({ entry }) => drSet === undefined || entry.drSet === drSet);
    const asked = await Promise.all(
      members.map(async (access) => {
        try {
          const { replicationDrMode: mode, sealed } = await access.client.sys.health({ signal });
          return { access, mode: sealed ? 'sealed' : (mode ?? 'not told') };
        } catch (error) {
          if (!isRunbookError(error) || signal.aborted) throw error;
          return { access, mode: error.code };
        }
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
    return new RunbookError('PRECONDITION_FAILED', `The batch token cannot be kept at ${this.where}.`, {
      outcomeKnown: !doubt,
      observed,
      needed,
      next: `Put the place of the token in order: ${this.where}.`,
    });
  }
}
