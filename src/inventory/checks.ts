import { GATE_NAMES } from '../contracts/plan';
import type { GateName } from '../contracts/plan';
import type { ParsedInventory } from './schema';
import type { Mistake } from './schema-values';

type Deployments = ParsedInventory['deployments'];
type ParsedDeployment = Deployments[string];
type ParsedGate = ParsedDeployment['gates']['plan'];
type ParsedPerson = ParsedInventory['people'][string];
type Path = readonly PropertyKey[];
type Report = (path: Path, message: string) => void;

/** What the schema cannot see: what the members of an inventory say of each other. Gives all mistakes. */
export function crossCheck(inventory: ParsedInventory): Mistake[] {
  const mistakes: Mistake[] = [];
  const report: Report = (path, message) => void mistakes.push({ path, message });
  checkKeys(inventory, report);
  checkClustersAndAddresses(inventory, report);
  checkBatchTokens(inventory, report);
  for (const [name, deployment] of Object.entries(inventory.deployments)) {
    const at = ['deployments', name];
    checkDrSets(deployment, at, report);
    checkCeremony(inventory, deployment, [...at, 'ceremony'], report);
    for (const gate of GATE_NAMES) {
      // A gate that takes the policy of `plan` has its mistakes there.
      if (gate !== 'plan' && deployment.gates[gate] === deployment.gates.plan) continue;
      checkGate(inventory, deployment, gate, [...at, 'gates', gate], report);
    }
    for (const cluster of Object.keys(deployment.pathsFilters))
      if (!Object.hasOwn(deployment.clusters, cluster))
        report([...at, 'pathsFilters', cluster], `this deployment has no cluster ${cluster}`);
  }
  return mistakes;
}

/** Remembers who had a value first, and says so of everybody after. */
function firstOnly(report: Report, told: (owner: string) => string) {
  const owners = new Map<string, string>();
  return (value: string | undefined, owner: string, path: Path): void => {
    if (value === undefined) return;
    const first = owners.get(value);
    if (first !== undefined) report(path, told(first));
    owners.set(value, owner);
  };
}

/** One key, one person: otherwise a signature would not say who signed. */
function checkKeys({ people }: ParsedInventory, report: Report): void {
  const once = firstOnly(report, (owner) => `the same public key is listed for ${owner}`);
  for (const [name, person] of Object.entries(people))
    for (const [index, { kid }] of person.publicKeys.entries()) once(kid, name, ['people', name, 'publicKeys', index]);
}

function checkClustersAndAddresses({ deployments }: ParsedInventory, report: Report): void {
  const names = firstOnly(report, (owner) => `deployment ${owner} has a cluster of this name already`);
  const addresses = firstOnly(report, (owner) => `cluster ${owner} has this address already`);
  const clusterIds = firstOnly(report, (owner) => `cluster ${owner} has this cluster ID already`);
  for (const [deployment, { clusters }] of Object.entries(deployments)) {
    for (const [name, cluster] of Object.entries(clusters)) {
      const path = ['deployments', deployment, 'clusters', name];
      names(name, deployment, path);
      for (const [index, address] of cluster.addresses.entries())
        addresses(address, name, [...path, 'addresses', index]);
      clusterIds(cluster.clusterId, name, [...path, 'clusterId']);
    }
  }
}

function checkDrSets({ clusters, drSets }: ParsedDeployment, at: Path, report: Report): void {
  const sets = new Map<string, string>();
  for (const [set, members] of Object.entries(drSets)) {
    for (const [index, member] of members.entries()) {
      const path = [...at, 'drSets', set, index];
      if (!Object.hasOwn(clusters, member)) report(path, `this deployment has no cluster ${member}`);
      const other = sets.get(member);
      if (other !== undefined) report(path, `cluster ${member} is in DR set ${other} already`);
      sets.set(member, set);
    }
  }
  for (const cluster of Object.keys(clusters))
    if (!sets.has(cluster))
      report(
        [...at, 'clusters', cluster],
        `cluster ${cluster} is in no DR set; one without DR replication is a set of its own`,
      );
}

function checkCeremony(
  { people }: ParsedInventory,
  { ceremony, clusters, batchTokens }: ParsedDeployment,
  at: Path,
  report: Report,
): void {
  checkRoster(people, ceremony, at, report);
  const batch = Object.keys(batchTokens).length > 0 || Object.values(clusters).some(({ batchToken }) => batchToken);
  if (ceremony.tokenSource === 'batch' && !batch)
    report([...at, 'tokenSource'], 'token source "batch" needs a batchToken on a cluster');
  for (const [index, name] of (ceremony.tokenProviders ?? []).entries())
    if (!Object.hasOwn(people, name))
      report([...at, 'tokenProviders', index], `${name} is not among the people of this inventory`);
}

/** Whom the ceremony asks. Whether they suffice for the threshold is known only to the service: readiness says it. */
function checkRoster(
  people: ParsedInventory['people'],
  ceremony: ParsedDeployment['ceremony'],
  at: Path,
  report: Report,
): void {
  const listed = new Map<string, 'holders' | 'standBy'>();
  for (const list of ['holders', 'standBy'] as const) {
    for (const [index, name] of ceremony[list].entries()) {
      const path = [...at, list, index];
      if (!Object.hasOwn(people, name)) report(path, `${name} is not among the people of this inventory`);
      const before = listed.get(name);
      if (before === list) report(path, `${name} is listed twice`);
      else if (before) report(path, `${name} is a holder already: who stands by is asked later`);
      listed.set(name, list);
    }
  }
  if (ceremony.standBy.length > 0 && ceremony.inviteStandByAfterMs >= ceremony.collectForMs)
    report([...at, 'inviteStandByAfter'], 'who stands by would never be asked: collectFor ends before');
  const once = firstOnly(report, (group) => `group ${group} is listed twice`);
  for (const [index, { group, shares }] of ceremony.groups.entries()) {
    const path = [...at, 'groups', index];
    once(group, group, path);
    const members = [...listed.keys()].filter(
      (name) => Object.hasOwn(people, name) && people[name]?.groups.includes(group) === true,
    );
    if (members.length === 0) report(path, `no holder and nobody who stands by is in group ${group}`);
    else if (members.length < shares)
      report([...path, 'shares'], `${shares} shares needed, but only ${members.join(', ')} may give one`);
  }
}

function checkGate(
  inventory: ParsedInventory,
  { gates, laboratory }: ParsedDeployment,
  name: GateName,
  at: Path,
  report: Report,
): void {
  const gate = gates[name];
  const people = Object.entries(inventory.people);
  const eligible = people.filter(([, person]) => person.groups.some((group) => gate.groups.includes(group)));
  const enough = eligible.length >= gate.approvals;
  if (enough && !laboratory) checkClaims(gate, eligible, at, report);
  // It may be met later, and readiness says so.
  if (name === 'force') return;
  for (const [index, group] of gate.groups.entries())
    if (!people.some(([, person]) => person.groups.includes(group)))
      report([...at, 'groups', index], `nobody is in group ${group}`);
  // Whether the requester is one of them is known only when somebody asks.
  if (!enough) report([...at, 'approvals'], `${gate.approvals} needed, but only ${eligible.length} may approve`);
}

/** Outside a laboratory a claim counts at no gate: one that could be met by claims alone is a gate that never opens. */
function checkClaims(
  { approvals, groups }: ParsedGate,
  eligible: readonly (readonly [string, ParsedPerson])[],
  at: Path,
  report: Report,
): void {
  const attested = eligible.filter(([, { attestation }]) => attestation !== 'claimed');
  const everyGroup = groups.every((group) => attested.some(([, person]) => person.groups.includes(group)));
  if (attested.length >= approvals && everyGroup) return;
  const claimed = eligible.filter((each) => !attested.includes(each)).map(([name]) => name);
  if (claimed.length === 0) return;
  report(
    [...at, 'approvals'],
    `it could be met by claims alone, which count only in a laboratory: ${claimed.join(', ')} ${claimed.length === 1 ? 'has' : 'have'} no key. Each runs "runbook keys init"; list the public line, with attestation: signed`,
  );
}

/** What `batchTokens` says of the rest of the inventory. A token must not be kept where it is gone with its cluster. */
function checkBatchTokens({ deployments }: ParsedInventory, report: Report): void {
  const places = firstOnly(report, (owner) => `${owner} keeps its token there already`);
  for (const [name, deployment] of Object.entries(deployments)) {
    for (const [set, { ttlMs, sink }] of Object.entries(deployment.batchTokens)) {
      const at = ['deployments', name, 'batchTokens', set];
      const members = Object.hasOwn(deployment.drSets, set) ? deployment.drSets[set] : undefined;
      if (members === undefined) report(at, `this deployment has no DR set ${set}`);
      if (ttlMs < 2 * deployment.ceremony.batchMarginMs)
        report(
          [...at, 'ttl'],
          'a token is renewed at half its life, which must still be longer than ceremony.batchMargin',
        );
      const place = JSON.stringify('file' in sink ? sink.file : sink.keyValue);
      places(place, `DR set ${set} of ${name}`, [...at, 'sink']);
      if ('keyValue' in sink) checkPlace(deployments, name, sink.keyValue, [...at, 'sink', 'keyValue'], report);
      else checkReaders(name, deployment, members ?? [], sink.file, report);
    }
  }
}

function checkPlace(
  deployments: Deployments,
  own: string,
  { deployment, drSet }: { readonly deployment: string; readonly drSet?: string | undefined },
  at: Path,
  report: Report,
): void {
  const other = Object.hasOwn(deployments, deployment) ? deployments[deployment] : undefined;
  if (deployment === own)
    report([...at, 'deployment'], 'a token is kept by another deployment: here it would be gone with its cluster');
  else if (other === undefined) report([...at, 'deployment'], `this inventory has no deployment ${deployment}`);
  else if (drSet === undefined ? Object.keys(other.drSets).length > 1 : !Object.hasOwn(other.drSets, drSet))
    report(drSet === undefined ? at : [...at, 'drSet'], `drSet is one of ${Object.keys(other.drSets).join(', ')}`);
}

/** A cluster whose token is rotated reads it where it is put, or names no source of its own. */
function checkReaders(
  name: string,
  { clusters }: ParsedDeployment,
  members: readonly string[],
  file: string,
  report: Report,
): void {
  for (const member of members) {
    const source = clusters[member]?.batchToken;
    if (source === undefined || ('file' in source && source.file === file)) continue;
    report(
      ['deployments', name, 'clusters', member, 'batchToken'],
      `the token of this DR set is put into ${file}: name that file, or leave batchToken out`,
    );
  }
}
