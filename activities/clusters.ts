import { ServiceClient } from '../src/vault';
import type { TokenGuard } from '../src/vault';
import { RunbookError } from '../src/errors';
import type { ClusterEntry, Deployment } from '../src/inventory';
import { describeSource, findCluster, findDeployment, readCredential } from '../src/inventory';
import { Secret } from '../src/secret';
import { Logins, TOKEN_ENDED, describeLogin } from './logins';
import type { Standing } from './logins';
import type { ActivityDependencies } from './dependencies';
import { openBatchToken } from './tokens/kept-batch-token';
import { ruleFor } from './tokens/policies';

/** One cluster of the inventory with its client. */
export interface ClusterAccess {
  readonly entry: ClusterEntry;
  readonly client: ServiceClient;
  /** Read from its source at every use. With a login: the current token, which all clusters of the DR set share. */
  credential(): Promise<Secret<'service-token'>>;
  /** The prepared batch token, from the last rotation or from its source; undefined if there is neither. */
  batchToken(): Promise<Secret<'batch-token'>> | undefined;
  /** The batch token is in the record, which cannot be read here: nothing is known about the token. */
  readonly batchTokenIsElsewhere: boolean;
}

/** Without a record and seal keys, as in a check from a shell, no batch token of a rotation is available. */
type ClustersOptions = Pick<ActivityDependencies, 'inventory' | 'log'> &
  Partial<Pick<ActivityDependencies, 'records' | 'sealKeyring'>>;

/** The clusters of the inventory, with one client each for as long as the entry does not change. */
export class Clusters {
  readonly #dependencies: ClustersOptions;
  /** Each client with the entry that it was created from: if the entry changes, the client is replaced. */
  readonly #clients = new Map<string, { readonly client: ServiceClient; readonly of: string }>();
  readonly #logins: Logins;
  /** The cluster whose credential a token is. */
  readonly #owners = new WeakMap<Secret, ClusterEntry>();

  constructor(dependencies: ClustersOptions) {
    this.#dependencies = dependencies;
    this.#logins = new Logins(dependencies.log);
  }

  /** Revokes the tokens that were obtained by login, as far as that is possible within seconds. */
  close(): Promise<void> {
    return this.#logins.close();
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
    const { records, sealKeyring } = this.#dependencies;
    return {
      entry,
      client: this.#client(entry),
      credential: () => this.#credential(entry),
      batchToken: () => this.#batchToken(entry),
      batchTokenIsElsewhere: entry.batchToken === 'record' && !(records && sealKeyring),
    };
  }

  async #credential(entry: ClusterEntry): Promise<Secret<'service-token'>> {
    const { credential } = entry;
    const token = await ('method' in credential
      ? this.#logins.token(credential, this.#membersOf(entry))
      : readCredential(credential));
    this.#owners.set(token, entry);
    return token;
  }

  /** The members of a cluster's DR set, the cluster itself first. They share their tokens. */
  #membersOf(entry: ClusterEntry): readonly ClusterEntry[] {
    const all = [...this.deployment(entry.deployment).clusters.values()];
    return [entry, ...all.filter(({ name, drSet }) => drSet === entry.drSet && name !== entry.name)];
  }

  /** Ensures that a credential reaches only clusters of its own DR set, and decides what replaces a refused one. */
  #guard(entry: ClusterEntry): TokenGuard {
    return {
      demandOwn: (token) => {
        const owner = this.#owners.get(token);
        if (owner === undefined || (owner.deployment === entry.deployment && owner.drSet === entry.drSet)) return;
        throw new RunbookError(
          'PRECONDITION_FAILED',
          `The credential of ${owner.name} must not be sent to ${entry.name}.`,
          {
            cluster: entry.name,
            observed: `${owner.name} belongs to DR set ${owner.drSet}`,
            needed: `a credential of DR set ${entry.drSet}`,
          },
        );
      },
      instead: async (token, refusal, { method, path }, { repeated, signal }) => {
        const owner = this.#owners.get(token);
        if (owner === undefined) throw refusal;
        const { credential } = owner;
        const standing = await this.#logins.standing(entry, token, signal);
        const other = repeated ? undefined : await this.#another(owner, entry, token, standing);
        if (other !== undefined && other.reveal() !== token.reveal()) {
          this.#owners.set(other, owner);
          return other;
        }
        if (standing === 'unknown') throw refusal;
        const right = `Add to the policy of the workers' credential: \`${ruleFor(method, path)}\``;
        const ended = `Renew the credential of ${owner.name}: ${'method' in credential ? describeLogin(credential) : describeSource(credential)}; then retry.`;
        throw refusal.with(standing === 'alive' ? { next: right } : { observed: TOKEN_ENDED, next: ended });
      },
    };
  }

  /** What the source of a refused token offers now: the token of a replaced file, or that of a new login. */
  async #another({ credential }: ClusterEntry, at: ClusterEntry, token: Secret, standing: Standing) {
    if ('method' in credential) return this.#logins.instead(credential, this.#membersOf(at), token, standing);
    return standing === 'ended' ? readCredential(credential) : undefined;
  }

  #batchToken(entry: ClusterEntry): Promise<Secret<'batch-token'>> | undefined {
    const { batchToken: source } = entry;
    const { records, sealKeyring } = this.#dependencies;
    if (source !== 'record')
      return source && readCredential(source).then((token) => new Secret('batch-token', token.reveal()));
    return records && sealKeyring && openBatchToken({ records, sealKeyring }, entry);
  }

  #client(entry: ClusterEntry): ServiceClient {
    const known = this.#clients.get(entry.name);
    const of = JSON.stringify(entry);
    if (known?.of === of) return known.client;
    const client = new ServiceClient(
      { name: entry.name, addresses: entry.addresses, caFile: entry.caFile },
      {
        onWarning: (warning) => this.#dependencies.log.warn({ cluster: entry.name }, warning),
        tokens: this.#guard(entry),
      },
    );
    this.#clients.set(entry.name, { client, of });
    return client;
  }
}
