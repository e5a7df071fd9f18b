import { GATE_NAMES } from '../contracts/plan';
import type { GateName } from '../contracts/plan';
import { checkBatchTokens } from './batch-token-checks';
import type { ParsedInventory } from './schema';

/** A mistake with the path of the member that it is about. */
export interface Mistake {
  readonly path: readonly PropertyKey[];
  readonly message: string;
}

type ParsedDeployment = ParsedInventory['deployments'][string];
type ParsedGate = ParsedDeployment['gates']['plan'];
type ParsedPerson = ParsedInventory['people'][string];

/** What the schema cannot see: what the members of an inventory say of each other. Gives all mistakes. */
export function crossCheck(inventory: ParsedInventory): Mistake[] {
  const mistakes: Mistake[] = [
    ...checkKeys(inventory),
    ...checkClustersAndAddresses(inventory),
    ...checkBatchTokens(inventory),
  ];
  for (const [name, deployment] of Object.entries(inventory.deployments)) {
    const at = ['deployments', name];
    mistakes.push(...checkDrSets(deployment, at), ...checkCeremony(inventory, deployment, at));
    for (const gate of GATE_NAMES) {
      // A gate that takes the policy of `plan` has its mistakes there.
      if (gate !== 'plan' && deployment.gates[gate] === deployment.gates.plan) continue;
      mistakes.push(...checkGate(inventory, deployment, gate, [...at, 'gates', gate]));
    }
    mistakes.push(...checkNames(deployment, at));
  }
  return mistakes;
}

/** One key, one person: otherwise a signature would not say who signed. */
function* checkKeys({ people }: ParsedInventory): Generator<Mistake> {
  const owners = new Map<string, string>();
  for (const [name, person] of Object.entries(people)) {
    for (const [index, { kid }] of person.publicKeys.entries()) {
      const owner = owners.get(kid);
      if (owner !== undefined) {
        yield { path: ['people', name, 'publicKeys', index], message: `the same public key is listed for ${owner}` };
      }
      owners.set(kid, name);
    }
  }
}

function* checkClustersAndAddresses({ deployments }: ParsedInventory): Generator<Mistake> {
  const clusters = new Map<string, string>();
  const addresses = new Map<string, string>();
  const clusterIds = new Map<string, string>();
  for (const [deployment, { clusters: entries }] of Object.entries(deployments)) {
    for (const [name, cluster] of Object.entries(entries)) {
      const path = ['deployments', deployment, 'clusters', name];
      const other = clusters.get(name);
      if (other !== undefined) yield { path, message: `deployment ${other} has a cluster of this name already` };
      clusters.set(name, deployment);
      for (const [index, address] of cluster.addresses.entries()) {
        const owner = addresses.get(address);
        if (owner !== undefined) {
          yield { path: [...path, 'addresses', index], message: `cluster ${owner} has this address already` };
        }
        addresses.set(address, name);
      }
      const idOwner = cluster.clusterId === undefined ? undefined : clusterIds.get(cluster.clusterId);
      if (idOwner !== undefined) {
        yield { path: [...path, 'clusterId'], message: `cluster ${idOwner} has this cluster ID already` };
      }
      if (cluster.clusterId !== undefined) clusterIds.set(cluster.clusterId, name);
    }
  }
}

function* checkDrSets(deployment: ParsedDeployment, at: readonly string[]): Generator<Mistake> {
  const sets = new Map<string, string>();
  for (const [set, members] of Object.entries(deployment.drSets)) {
    for (const [index, member] of members.entries()) {
      const path = [...at, 'drSets', set, index];
      if (!Object.hasOwn(deployment.clusters, member))
        yield { path, message: `this deployment has no cluster ${member}` };
      const other = sets.get(member);
      if (other !== undefined) yield { path, message: `cluster ${member} is in DR set ${other} already` };
      sets.set(member, set);
    }
  }
  for (const cluster of Object.keys(deployment.clusters)) {
    if (!sets.has(cluster)) {
      yield {
        path: [...at, 'clusters', cluster],
        message: `cluster ${cluster} is in no DR set; one without DR replication is a set of its own`,
      };
    }
  }
}

function* checkCeremony(
  inventory: ParsedInventory,
  deployment: ParsedDeployment,
  at: readonly string[],
): Generator<Mistake> {
  const { tokenSource } = deployment.ceremony;
  yield* checkRoster(inventory, deployment, [...at, 'ceremony']);
  const entries = Object.entries(deployment.clusters);
  const rotated = Object.keys(deployment.batchTokens).length > 0;
  if (tokenSource === 'batch' && !rotated && !entries.some(([, cluster]) => cluster.batchToken !== undefined)) {
    yield { path: [...at, 'ceremony', 'tokenSource'], message: 'token source "batch" needs a batchToken on a cluster' };
  }
  for (const [index, name] of (deployment.ceremony.tokenProviders ?? []).entries()) {
    if (Object.hasOwn(inventory.people, name)) continue;
    const message = `${name} is not among the people of this inventory`;
    yield { path: [...at, 'ceremony', 'tokenProviders', index], message };
  }
}

/** Whom the ceremony asks. Whether they suffice for the threshold is known only to the service: readiness says it. */
function* checkRoster(
  { people }: ParsedInventory,
  { ceremony }: ParsedDeployment,
  at: readonly string[],
): Generator<Mistake> {
  const listed = new Map<string, 'holders' | 'standBy'>();
  for (const list of ['holders', 'standBy'] as const) {
    for (const [index, name] of ceremony[list].entries()) {
      const path = [...at, list, index];
      if (!Object.hasOwn(people, name)) yield { path, message: `${name} is not among the people of this inventory` };
      const before = listed.get(name);
      if (before === list) yield { path, message: `${name} is listed twice` };
      else if (before) yield { path, message: `${name} is a holder already: who stands by is asked later` };
      listed.set(name, list);
    }
  }
  if (ceremony.standBy.length > 0 && ceremony.inviteStandByAfterMs >= ceremony.collectForMs) {
    const message = 'who stands by would never be asked: collectFor ends before';
    yield { path: [...at, 'inviteStandByAfter'], message };
  }
  const named = new Set<string>();
  for (const [index, { group, shares }] of ceremony.groups.entries()) {
    const path = [...at, 'groups', index];
    const members = [...listed.keys()].filter(
      (name) => Object.hasOwn(people, name) && people[name]?.groups.includes(group) === true,
    );
    if (named.has(group)) yield { path, message: `group ${group} is listed twice` };
    named.add(group);
    if (members.length === 0) yield { path, message: `no holder and nobody who stands by is in group ${group}` };
    else if (members.length < shares) {
      const message = `${shares} shares needed, but only ${members.join(', ')} may give one`;
      yield { path: [...path, 'shares'], message };
    }
  }
}

function* checkNames(deployment: ParsedDeployment, at: readonly string[]): Generator<Mistake> {
  const known = (cluster: string) => Object.hasOwn(deployment.clusters, cluster);
  for (const cluster of Object.keys(deployment.pathsFilters)) {
    if (known(cluster)) continue;
    yield { path: [...at, 'pathsFilters', cluster], message: `this deployment has no cluster ${cluster}` };
  }
}

function* checkGate(
  inventory: ParsedInventory,
  { gates, laboratory }: ParsedDeployment,
  name: GateName,
  at: readonly string[],
): Generator<Mistake> {
  const gate = gates[name];
  const people = Object.entries(inventory.people);
  const eligible = people.filter(([, person]) => person.groups.some((group) => gate.groups.includes(group)));
  const enough = eligible.length >= gate.approvals;
  if (enough && !laboratory) yield* checkClaims(gate, eligible, at);
  // It may be met later, and readiness says so.
  if (name === 'force') return;
  for (const [index, group] of gate.groups.entries()) {
    if (!people.some(([, person]) => person.groups.includes(group))) {
      yield { path: [...at, 'groups', index], message: `nobody is in group ${group}` };
    }
  }
  // Whether the requester is one of them is known only when somebody asks.
  if (!enough) {
    yield {
      path: [...at, 'approvals'],
      message: `${gate.approvals} needed, but only ${eligible.length} may approve`,
    };
  }
}

/** Outside a laboratory a claim counts at no gate: one that could be met by claims alone is a gate that never opens. */
function* checkClaims(
  { approvals, groups }: ParsedGate,
  eligible: readonly (readonly [string, ParsedPerson])[],
  at: readonly string[],
): Generator<Mistake> {
  const attested = eligible.filter(([, { attestation }]) => attestation !== 'claimed');
  const everyGroup = groups.every((group) => attested.some(([, person]) => person.groups.includes(group)));
  if (attested.length >= approvals && everyGroup) return;
  const claimed = eligible.filter((each) => !attested.includes(each)).map(([name]) => name);
  if (claimed.length === 0) return;
  yield {
    path: [...at, 'approvals'],
    message: `it could be met by claims alone, which count only in a laboratory: ${claimed.join(', ')} ${claimed.length === 1 ? 'has' : 'have'} no key. Each runs "runbook keys init"; list the public line, with attestation: signed`,
  };
}
