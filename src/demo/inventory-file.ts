import { stringify } from 'yaml';
import type { DemoPerson } from './people';
import { HOLDERS } from './people';

/** What the inventory of the demonstration is made of. */
interface InventoryFacts {
  readonly deployment: string;
  /** API addresses and token file of each cluster. */
  readonly clusters: ReadonlyMap<string, { readonly addresses: readonly string[]; readonly credentialFile: string }>;
  readonly drSets: Readonly<Record<string, readonly string[]>>;
  readonly people: ReadonlyMap<string, DemoPerson>;
  readonly signingKeyFile: string;
  readonly uiAddress?: string;
  readonly namespace: string;
  /** Programs and address of the clients' side; absent where nobody writes. */
  readonly hooks?: { readonly command: readonly string[]; readonly probe: string };
  readonly pathsFilters?: Readonly<Record<string, unknown>>;
  /** Rotations by DR set. */
  readonly batchTokens?: Readonly<Record<string, unknown>>;
}

/** The inventory file (docs/inventory.md) of the demonstration. */
export function inventoryText(facts: InventoryFacts): string {
  const {
    deployment,
    clusters,
    drSets,
    people,
    signingKeyFile,
    uiAddress,
    namespace,
    hooks,
    pathsFilters,
    batchTokens,
  } = facts;
  return stringify({
    version: 1,
    temporal: { namespace, ...(uiAddress === undefined ? {} : { uiAddress }) },
    workers: { signingKey: { file: signingKeyFile } },
    people: Object.fromEntries(
      [...people.values()].map(({ name, groups, publicKey }) => [
        name,
        { groups: [...groups], attestation: 'signed', publicKeys: [publicKey] },
      ]),
    ),
    deployments: {
      [deployment]: {
        clusters: Object.fromEntries(
          [...clusters].map(([name, { addresses, credentialFile }]) => [
            name,
            {
              addresses: [...addresses],
              advertisedClusterAddress: 'node-address',
              credential: { file: credentialFile },
            },
          ]),
        ),
        drSets,
        ceremony: { holders: [...HOLDERS], collectFor: '30m', useFor: '30m', tokenSource: 'ceremony' },
        gates: {
          plan: { approvals: 1, groups: ['approvers'], excludeRequester: true, validFor: '4h' },
          go: { approvals: 1, groups: ['approvers'], excludeRequester: true, validFor: '10m' },
        },
        pathsFilters: pathsFilters ?? {},
        batchTokens: batchTokens ?? {},
        // A deployment of a demonstration is switched over and back within minutes.
        limits: { coolDown: '1s', primaryGone: '10s', heartbeatAge: '5s' },
        ...(hooks === undefined
          ? {}
          : {
              hooks: {
                ...Object.fromEntries(
                  ['quiesce', 'release', 'traffic', 'fence', 'unfence', 'dump'].map((name) => [
                    name,
                    { command: [...hooks.command], timeout: '15s', idempotent: true },
                  ]),
                ),
                probe: { url: hooks.probe, expectStatus: [200] },
              },
            }),
      },
    },
  });
}
