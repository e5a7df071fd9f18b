import { isMap, isSeq, parseDocument } from 'yaml';
import type { Document, YAMLMap } from 'yaml';
import { policyFor, policyText, runbooksOfEveryDay } from '../../../activities/tokens/policies';
import { RunbookError } from '../../errors';
import { findDeployment, parseInventory } from '../../inventory';
import type { Deployment, Inventory } from '../../inventory';
import { readCluster } from './clusters';
import type { FoundCluster, NamedCluster } from './clusters';
import { clusterText, judged } from './files';

/* What `runbook init` adds to the inventory of an installation. Comments and order stay. */

const read = (text: string): Document => parseDocument(text, { version: '1.2', merge: true });
const written = (document: Document): string => document.toString({ lineWidth: 0 });

/**
 * Adds a deployment, and the people who are not in the file yet. People who are keep their groups and keys, and join the
 * groups of the deployment.
 *
 * @param fresh - an inventory of this deployment alone
 * @throws RunbookError `INVALID_INPUT` if the two contradict each other
 */
export function addDeployment(text: string, fresh: string, deployment: string): string {
  const document = read(text);
  const added = read(fresh);
  const people = added.get('people');
  for (const { key } of isMap(people) ? people.items : []) {
    const path = ['people', String(key)];
    const entry = document.getIn(path);
    if (entry === undefined) document.setIn(path, added.getIn(path, true));
    else if (isMap(entry)) joinGroups(entry, namesIn(added.getIn([...path, 'groups'])), document);
  }
  const path = ['deployments', deployment];
  document.setIn(path, added.getIn(path, true));
  judged(written(document));
  return written(document);
}

function joinGroups(person: YAMLMap, groups: readonly string[], document: Document): void {
  if (groups.length === 0) return;
  const all = document.createNode([...new Set([...namesIn(person.get('groups')), ...groups])]);
  all.flow = true;
  person.set('groups', all);
}

const namesIn = (list: unknown): string[] => (isSeq(list) ? list.items.map(String) : []);

/** A cluster to add, and where. */
export interface Addition {
  readonly deployment: Deployment;
  readonly cluster: FoundCluster;
  readonly drSet: string;
  /** A cluster whose credential, and CA file if none is given, it shares. */
  readonly like: string;
}

/**
 * Where a new cluster belongs: in the DR set that is named, or in that of the cluster with which it replicates.
 *
 * @throws RunbookError `INVALID_INPUT` if nobody says it
 */
export async function placeOf(
  inventory: Inventory,
  named: NamedCluster,
  given: { readonly deployment?: string; readonly drSet?: string; readonly caFile?: string },
): Promise<Addition> {
  const deployment = findDeployment(inventory, given.deployment ?? onlyOne(inventory));
  if ([...inventory.deployments.values()].some(({ clusters }) => clusters.has(named.name)))
    throw new RunbookError('INVALID_INPUT', `The inventory already has a cluster ${named.name}. Nothing was written.`, {
      needed: 'another name; to change a cluster, edit the inventory',
    });
  const all = [...deployment.clusters.values()];
  const sibling = all.find(({ drSet }) => drSet === given.drSet) ?? all[0];
  const cluster = await readCluster(named, given.caFile ?? sibling?.caFile);
  const peer = given.drSet === undefined && cluster.drSet !== undefined ? await peerOf(cluster, all) : undefined;
  const drSet = given.drSet ?? peer?.drSet;
  const like = peer ?? sibling;
  if (drSet !== undefined && like !== undefined) return { deployment, cluster, drSet, like: like.name };
  const sets = [...deployment.drSets].map(([name, members]) => `${name} (${members.join(', ')})`);
  throw new RunbookError('INVALID_INPUT', `The DR set of ${cluster.name} is unknown. Nothing was written.`, {
    observed: `${cluster.role}, and it replicates with no cluster of ${deployment.name} that answers`,
    needed: `--dr-set: the set that it is to join, or the name of a new one. There are: ${sets.join(', ')}`,
  });
}

function onlyOne({ deployments }: Inventory): string {
  const [one = '', ...others] = deployments.keys();
  if (others.length === 0) return one;
  throw new RunbookError('INVALID_INPUT', 'The inventory has several deployments. Nothing was written.', {
    needed: `--deployment with one of ${[one, ...others].join(', ')}`,
  });
}

/** The cluster of the inventory that is in the same DR replication. */
async function peerOf(
  { drSet }: FoundCluster,
  all: readonly (NamedCluster & { readonly caFile?: string | undefined })[],
) {
  const seen = await Promise.allSettled(all.map((each) => readCluster(each, each.caFile)));
  const index = seen.findIndex((each) => each.status === 'fulfilled' && each.value.drSet === drSet);
  const peer = all[index];
  return peer as (typeof peer & { readonly drSet: string }) | undefined;
}

/** @throws RunbookError `INVALID_INPUT` if the cluster contradicts the rest of the file */
export function addCluster(text: string, { deployment, cluster, drSet, like }: Addition, caFile?: string): string {
  const document = read(text);
  const of = ['deployments', deployment.name];
  // Not the node: it may be an alias, or come from a merge key.
  const { clusters } = (document.toJS({ maxAliasCount: 100 }) as Plain).deployments[deployment.name] ?? {
    clusters: {},
  };
  const { credential, caFile: usual } = clusters[like] ?? {};
  const shared = document.createNode(credential);
  if (isMap(shared)) shared.flow = true;
  const added = read(clusterText(cluster, caFile ?? usual, '{}')).getIn([cluster.name], true);
  if (isMap(added)) added.set('credential', shared);
  document.setIn([...of, 'clusters', cluster.name], added);
  const members = [...(deployment.drSets.get(drSet) ?? []), cluster.name];
  const list = document.createNode(members);
  list.flow = true;
  if (members.length === 1) document.setIn([...of, 'drSets', drSet], list);
  else document.addIn([...of, 'drSets', drSet], cluster.name);
  judged(written(document));
  return written(document);
}

/** What is read of an inventory that has no mistakes. */
interface Plain {
  readonly deployments: Readonly<
    Record<
      string,
      { readonly clusters: Readonly<Record<string, { readonly credential?: unknown; readonly caFile?: string }>> }
    >
  >;
}

/** Whether the everyday policy of a deployment allows more with the new text of the inventory. */
export function changesPolicy(before: string, after: string, deployment: string): boolean {
  const [had, has] = [before, after].map((text) => {
    const found = findDeployment(parseInventory(text, 'inventory'), deployment);
    return policyText(policyFor(found, 'credential', runbooksOfEveryDay(found)));
  });
  return had !== has;
}
