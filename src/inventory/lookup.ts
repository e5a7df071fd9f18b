import { RunbookError } from '../errors';
import { GATE_NAMES } from '../contracts/plan';
import type { GateName } from '../contracts/plan';
import type { Attestation } from '../contracts/run-facts';
import type { ClusterEntry, Deployment, Inventory } from './load';
import type { Person } from './schema';

const listed = (names: Iterable<string>): string => [...names].sort().join(', ') || 'none';

/** @throws RunbookError `UNKNOWN_DEPLOYMENT`, listing the known ones. */
export function findDeployment(inventory: Inventory, name: string): Deployment {
  const deployment = inventory.deployments.get(name);
  if (deployment !== undefined) return deployment;
  throw new RunbookError('UNKNOWN_DEPLOYMENT', `The inventory has no deployment "${name}".`, {
    observed: name,
    needed: `one of: ${listed(inventory.deployments.keys())}`,
  });
}

/** @throws RunbookError `UNKNOWN_CLUSTER`, listing the clusters of the deployment. */
export function findCluster(deployment: Deployment, name: string): ClusterEntry {
  const cluster = deployment.clusters.get(name);
  if (cluster !== undefined) return cluster;
  throw new RunbookError('UNKNOWN_CLUSTER', `Deployment "${deployment.name}" has no cluster "${name}".`, {
    observed: name,
    needed: `one of: ${listed(deployment.clusters.keys())}`,
  });
}

/**
 * The DR set of a cluster: its name and all members, the cluster itself among them.
 *
 * @throws RunbookError `UNKNOWN_CLUSTER`.
 */
export function drSetOf(
  deployment: Deployment,
  cluster: string,
): { readonly name: string; readonly members: readonly string[] } {
  const { drSet } = findCluster(deployment, cluster);
  return { name: drSet, members: deployment.drSets.get(drSet) ?? [cluster] };
}

/** The holders of a deployment's ceremonies in the order of the inventory, stand-by holders last; joined or not. */
export function holdersOf(inventory: Inventory, deployment: Deployment): readonly Person[] {
  const { holders, standBy } = deployment.ceremony;
  return [...holders, ...standBy].flatMap((name) => inventory.people.get(name) ?? []);
}

/**
 * The one rule about claims: in a laboratory a name that anybody may use counts; elsewhere it counts for nothing, at no gate
 * and in no decision.
 */
export function countsIn({ laboratory }: Pick<Deployment, 'laboratory'>, how: Attestation): boolean {
  return laboratory || how !== 'claimed';
}

/** Whether there is anything by which to know what this person signs: nothing that they send counts before. */
export function hasJoined({ attestation, publicKeys }: Pick<Person, 'attestation' | 'publicKeys'>): boolean {
  return attestation !== 'signed' || publicKeys.length > 0;
}

/** Whose approvals count at a gate, before anybody is excluded as the requester. */
export function approversOf(inventory: Inventory, deployment: Deployment, gate: GateName): readonly Person[] {
  return membersWhoCount(inventory, deployment, deployment.gates[gate].groups);
}

/** Who may decide about a parked step: everybody who may approve at some gate of this deployment, and its operators. */
export function decidersOf(inventory: Inventory, deployment: Deployment): readonly Person[] {
  const ofGates = Object.values(deployment.gates).flatMap(({ groups }) => groups);
  return membersWhoCount(inventory, deployment, [...ofGates, ...deployment.operators]);
}

function membersWhoCount({ people }: Inventory, deployment: Deployment, groups: readonly string[]): readonly Person[] {
  return [...people.values()].filter(
    (person) =>
      person.groups.some((group) => groups.includes(group)) &&
      hasJoined(person) &&
      countsIn(deployment, person.attestation),
  );
}

/** People who cannot do here what the inventory seems to say of them. */
export interface Voiceless {
  readonly names: readonly string[];
  /** `claimed`: without a key, outside of a laboratory; `not-joined`: their key is not listed yet. */
  readonly why: 'claimed' | 'not-joined';
  readonly deployment: string;
  /** Gates at which their approval counts for nothing. */
  readonly gates: readonly GateName[];
  /** Whether their decisions and orders count for nothing. */
  readonly decides: boolean;
  /** Whether they are asked for no key share. */
  readonly holder: boolean;
}

/** Who counts for nothing where it would matter, and at what; those of whom the same is true together. Pure. */
export function voiceless({ people, deployments }: Inventory): readonly Voiceless[] {
  const found = new Map<string, Voiceless>();
  for (const deployment of deployments.values()) {
    for (const person of people.values()) {
      const joined = hasJoined(person);
      if (joined && countsIn(deployment, person.attestation)) continue;
      const isIn = (groups: readonly string[]) => person.groups.some((group) => groups.includes(group));
      const gates = GATE_NAMES.filter((gate) => isIn(deployment.gates[gate].groups));
      const decides = gates.length > 0 || isIn(deployment.operators);
      // A claimed holder may give a share: the share itself is the proof.
      const holder = deployment.notJoined.includes(person.name);
      if (!decides && !holder) continue;
      const why = joined ? 'claimed' : 'not-joined';
      const same = { why, deployment: deployment.name, gates, decides, holder } as const;
      const key = JSON.stringify(same);
      found.set(key, { ...same, names: [...(found.get(key)?.names ?? []), person.name] });
    }
  }
  return [...found.values()];
}

/** The roster of a deployment's ceremonies: a holder whose key nobody knows yet is not invited. Pure. */
export function rosterOf({ ceremony, notJoined }: Deployment) {
  const joined = (names: readonly string[]) => names.filter((name) => !notJoined.includes(name));
  return { holders: joined(ceremony.holders), standBy: joined(ceremony.standBy) };
}
