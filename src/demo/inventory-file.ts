import { stringify } from 'yaml';

/** A person as an inventory lists one who signs. */
export interface InventoryPerson {
  readonly name: string;
  readonly groups: readonly string[];
  /** `<kid>:<x>` */
  readonly publicKey: string;
}

/** What the inventory of a simulated deployment is made of. */
interface InventoryFacts {
  readonly name: string;
  /** API addresses and token file of each cluster. */
  readonly clusters: readonly {
    readonly name: string;
    readonly addresses: readonly string[];
    readonly credentialFile: string;
  }[];
  /** Those of group `holders` hold the key shares, those of `approvers` approve. */
  readonly people: Iterable<InventoryPerson>;
  readonly signingKeyFile: string;
  readonly temporal: { readonly namespace: string; readonly uiAddress?: string };
  /** Further members of the deployment: DR sets, limits, hooks. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** The inventory file (docs/inventory.md) of one simulated deployment. */
export function inventoryText({ name, clusters, people, signingKeyFile, temporal, members }: InventoryFacts): string {
  const listed = [...people];
  const gate = { approvals: 1, groups: ['approvers'], excludeRequester: true };
  const deployment = {
    clusters: Object.fromEntries(
      clusters.map((cluster) => [
        cluster.name,
        {
          addresses: [...cluster.addresses],
          advertisedClusterAddress: 'node-address',
          credential: { file: cluster.credentialFile },
        },
      ]),
    ),
    ceremony: {
      holders: listed.filter(({ groups }) => groups.includes('holders')).map((person) => person.name),
      tokenSource: 'ceremony',
    },
    gates: { plan: { ...gate, validFor: '4h' }, go: { ...gate, validFor: '10m' } },
    ...members,
  };
  return stringify({
    version: 1,
    temporal,
    workers: { signingKey: { file: signingKeyFile } },
    people: Object.fromEntries(
      listed.map(({ name, groups, publicKey }) => [
        name,
        { groups: [...groups], attestation: 'signed', publicKeys: [publicKey] },
      ]),
    ),
    deployments: { [name]: deployment },
  });
}
