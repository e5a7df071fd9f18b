import { ServiceClient } from '../src/vault';
import { RunbookError } from '../src/errors';
import type { BatchTokenSource, ClusterEntry, Deployment } from '../src/inventory';
import { findCluster, findDeployment, readCredential } from '../src/inventory';
import { Secret } from '../src/secret';
import type { ActivityDependencies } from './dependencies';
import { storeOf } from './tokens/batch-token-store';
import { READ_TIMEOUT_MS } from './read-act-confirm';

/** One cluster of the inventory with its client. */
export interface ClusterAccess {
  readonly entry: ClusterEntry;
  readonly client: ServiceClient;
  /** Read from its source at every use. */
  credential(): Promise<Secret<'service-token'>>;
  /** The prepared batch token, from where the inventory has it; undefined where it has none. */
  batchToken(): Promise<Secret<'batch-token'>> | undefined;
}

/** Gives the clusters of the inventory, one client each for as long as its entry stays the same. */
export class Clusters {
  readonly #dependencies: Pick<ActivityDependencies, 'inventory' | 'log'>;
  /** Each with the entry that it was made of: where that changed, a new one takes its place. */
  readonly #clients = new Map<string, { readonly client: ServiceClient; readonly of: string }>();

  constructor(dependencies: Pick<ActivityDependencies, 'inventory' | 'log'>) {
    this.#dependencies = dependencies;
  }

  deployment(name: string): Deployment {
    return findDeployment(this.#dependencies.inventory, name);
  }

  of(deployment: string, cluster: string): ClusterAccess {
    return this.access(findCluster(this.deployment(deployment), cluster));
  }

  all(deployment: string): ClusterAccess[] {
    return [...this.deployment(deployment).clusters.values()].map((entry) => this.access(entry));
  }

  access(entry: ClusterEntry): ClusterAccess {
    const { batchToken } = entry;
    return {
      entry,
      client: this.#client(entry),
      credential: () => readCredential(entry.credential),
      batchToken: () => (batchToken === undefined ? undefined : this.#batchToken(batchToken)),
    };
  }

  async #batchToken(source: BatchTokenSource): Promise<Secret<'batch-token'>> {
    if (!('keyValue' in source)) return new Secret('batch-token', (await readCredential(source)).reveal());
    const store = storeOf(this, source);
    const token = await store.read(AbortSignal.timeout(READ_TIMEOUT_MS * 2));
    if (token) return token;
    throw new RunbookError('CREDENTIAL_UNAVAILABLE', `The batch token is not at ${store.where}.`, {
      next: 'Start batchTokenRotation.',
    });
  }

  #client(entry: ClusterEntry): ServiceClient {
    const known = this.#clients.get(entry.name);
    const of = JSON.stringify(entry);
    if (known?.of === of) return known.client;
    const client = new ServiceClient(
      { name: entry.name, addresses: entry.addresses, caFile: entry.caFile },
      {
        requestTimeoutMs: READ_TIMEOUT_MS,
        connectTimeoutMs: 2_000,
        onWarning: (warning) => this.#dependencies.log.warn({ cluster: entry.name }, warning),
      },
    );
    this.#clients.set(entry.name, { client, of });
    return client;
  }
}

export { ceremonyToken } from './ceremony/ceremony-access';
export { majorVersion } from './checks/versions';
