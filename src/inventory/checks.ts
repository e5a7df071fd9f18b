import { inputMistakes, RUNBOOK_INPUTS } from '../contracts/runbook-inputs';
import type { GateName } from '../contracts/gates';
import { GATE_NAMES } from '../contracts/gates';
import type { ParsedDeployment, ParsedGate, ParsedInventory, Person } from './schema';
import { listed } from './lookup';
import type { Mistake } from './schema-values';
import { inputOfTrigger, isHarmless, NOT_BY_TRIGGER } from './triggers';

type Path = readonly PropertyKey[];
type Mistakes = Generator<Mistake>;
type People = ParsedInventory['people'];

const at = (path: Path, message: string): Mistake => ({ path, message });

/** Checks across members, which the schema cannot do. Yields all mistakes. */
export function* crossChecks(inventory: ParsedInventory): Mistakes {
  const { people, deployments } = inventory;
  yield* uniqueKeys(people);
  yield* uniqueClusters(inventory);
  for (const [name, deployment] of deployments) {
    const path = ['deployments', name];
    yield* drSets(deployment, path);
    yield* batchTokens(deployment, path);
    const groups = new Set([...groupsOf(people), 'operators']);
    for (const [index, group] of deployment.operators.entries())
      yield* oneOf(group, groups, [...path, 'operators', index], `nobody is in group ${group}`);
    yield* ceremony(people, deployment, [...path, 'ceremony']);
    for (const gate of GATE_NAMES) yield* gatePolicy(people, deployment, gate, [...path, 'gates', gate]);
    for (const cluster of Object.keys(deployment.pathsFilters))
      yield* oneOf(cluster, deployment.clusters, [...path, 'pathsFilters', cluster], noCluster(cluster));
    if (deployment.snapshot?.to === 'hook' && !deployment.hooks.snapshot)
      yield at([...path, 'snapshot', 'to'], 'this deployment has no hooks.snapshot');
    const targets = once((target) => `${target} is listed twice`);
    for (const [index, target] of deployment.notifications.entries())
      yield* targets(target.name, target.name, [...path, 'notifications', index, 'name']);
  }
  yield* triggers(inventory);
}

/** A trigger starts only what harms nothing, with an input that its runbook accepts. */
function* triggers({ triggers, deployments }: ParsedInventory): Mistakes {
  const names = once((name) => `${name} is listed twice`);
  for (const [index, trigger] of triggers.entries()) {
    const path = ['triggers', index];
    yield* names(trigger.name, trigger.name, [...path, 'name']);
    yield* oneOf(trigger.deployment, deployments, [...path, 'deployment'], `no deployment ${trigger.deployment}`);
    if (!isHarmless(trigger))
      yield at(
        [...path, 'runbook'],
        `a trigger starts readiness, drFailover, or a dry run: set input: { dryRun: true }, or let people start ${trigger.runbook}`,
      );
    for (const member of NOT_BY_TRIGGER)
      if (Object.hasOwn(trigger.input, member))
        yield at([...path, 'input', member], 'the gateway sets this member, or only a person may decide it');
    // The input of readiness is the deployment alone.
    const { success, error } = RUNBOOK_INPUTS[trigger.runbook].safeParse({
      ...trigger.input,
      ...inputOfTrigger(trigger, { ticket: 'a ticket' }),
    });
    if (!success) for (const mistake of inputMistakes(error)) yield at([...path, 'input'], mistake);
    const clusters = deployments.get(trigger.deployment)?.clusters;
    for (const member of ['to', 'from', 'cluster', 'primary', 'secondary']) {
      const cluster = trigger.input[member];
      if (clusters && typeof cluster === 'string')
        yield* oneOf(cluster, clusters, [...path, 'input', member], noCluster(cluster));
    }
  }
}

/** Checks that something has this name; otherwise lists the names that there are. */
function* oneOf(
  name: string,
  known: ReadonlySet<string> | ReadonlyMap<string, unknown>,
  path: Path,
  message: string,
): Mistakes {
  if (!known.has(name)) yield at(path, `${message}; there are: ${listed(known.keys())}`);
}

const noCluster = (name: string) => `this deployment has no cluster ${name}`;

/** Every group that somebody is in. */
function groupsOf(people: People): ReadonlySet<string> {
  return new Set([...people.values()].flatMap(({ groups }) => groups));
}

/** Remembers the first owner of each value, and reports every later one. */
function once(message: (owner: string) => string) {
  const owners = new Map<string, string>();
  return function* (value: string | undefined, owner: string, path: Path): Mistakes {
    if (value === undefined) return;
    const first = owners.get(value);
    if (first !== undefined) yield at(path, message(first));
    owners.set(value, owner);
  };
}

/** One key belongs to one person: otherwise a signature would not show who signed. */
function* uniqueKeys(people: People): Mistakes {
  const keys = once((owner) => `the same public key is listed for ${owner}`);
  for (const [name, person] of people)
    for (const [index, { kid }] of person.publicKeys.entries())
      yield* keys(kid, name, ['people', name, 'publicKeys', index]);
}

function* uniqueClusters({ deployments }: ParsedInventory): Mistakes {
  const names = once((owner) => `deployment ${owner} already has a cluster of this name`);
  const addresses = once((owner) => `cluster ${owner} already has this address`);
  const clusterIds = once((owner) => `cluster ${owner} already has this cluster ID`);
  for (const [deployment, { clusters }] of deployments) {
    for (const [name, cluster] of clusters) {
      const path = ['deployments', deployment, 'clusters', name];
      yield* names(name, deployment, path);
      for (const [index, address] of cluster.addresses.entries())
        yield* addresses(address, name, [...path, 'addresses', index]);
      yield* clusterIds(cluster.clusterId, name, [...path, 'clusterId']);
    }
  }
}

function* drSets({ clusters, drSets }: ParsedDeployment, path: Path): Mistakes {
  const sets = new Map<string, string>();
  for (const [set, members] of drSets) {
    for (const [index, member] of members.entries()) {
      const here = [...path, 'drSets', set, index];
      yield* oneOf(member, clusters, here, noCluster(member));
      const other = sets.get(member);
      if (other !== undefined) yield at(here, `cluster ${member} is already in DR set ${other}`);
      sets.set(member, set);
    }
  }
  for (const cluster of clusters.keys())
    if (!sets.has(cluster))
      yield at(
        [...path, 'clusters', cluster],
        `cluster ${cluster} is in no DR set; a cluster without DR replication needs its own set`,
      );
}

/**
 * The people whom the ceremony asks. Only the service knows whether they reach the threshold; readiness checks that.
 */
function* ceremony(people: People, { ceremony, clusters, batchTokens }: ParsedDeployment, path: Path): Mistakes {
  const { holders, standBy, tokenSource, tokenProviders = [] } = ceremony;
  const person = (name: string, here: Path) =>
    oneOf(name, people, here, `${name} is not among the people of this inventory`);
  for (const [list, names] of Object.entries({ holders, standBy })) {
    const twice = once((name) => `${name} is listed twice`);
    for (const [index, name] of names.entries()) {
      const here = [...path, list, index];
      yield* person(name, here);
      yield* twice(name, name, here);
      if (list === 'standBy' && holders.includes(name))
        yield at(here, `${name} is already a holder: stand-by holders are asked later`);
    }
  }
  if (standBy.length > 0 && ceremony.inviteStandByAfterMs >= ceremony.collectForMs)
    yield at([...path, 'inviteStandByAfter'], 'stand-by holders would never be asked: collectFor ends first');
  const batch = Object.keys(batchTokens).length > 0 || [...clusters.values()].some(({ batchToken }) => batchToken);
  if (tokenSource === 'batch' && !batch)
    yield at([...path, 'tokenSource'], 'token source "batch" needs a batchToken on a cluster');
  for (const [index, name] of tokenProviders.entries()) yield* person(name, [...path, 'tokenProviders', index]);
}

function* gatePolicy(people: People, { gates, laboratory }: ParsedDeployment, name: GateName, path: Path): Mistakes {
  const gate = gates[name];
  // The mistakes of a gate that uses the policy of `plan` are reported there.
  if (name !== 'plan' && gate === gates.plan) return;
  const eligible = [...people.values()].filter((person) => person.groups.some((group) => gate.groups.includes(group)));
  const enough = eligible.length >= gate.approvals;
  if (enough && !laboratory) yield* claims(gate, eligible, path);
  // Whether `force` can be satisfied may change later; readiness checks it.
  if (name === 'force') return;
  for (const [index, group] of gate.groups.entries())
    yield* oneOf(group, groupsOf(people), [...path, 'groups', index], `nobody is in group ${group}`);
  // Whether the requester is one of them is known only when a run is requested.
  if (!enough) yield at([...path, 'approvals'], `${gate.approvals} needed, but only ${eligible.length} may approve`);
}

/** Outside a laboratory claims count at no gate: a gate that could be satisfied by claims only would never open. */
function* claims({ approvals, groups }: ParsedGate, eligible: readonly Person[], path: Path): Mistakes {
  const attested = eligible.filter(({ attestation }) => attestation !== 'claimed');
  const everyGroup = groups.every((group) => attested.some((person) => person.groups.includes(group)));
  const claimed = eligible.filter((each) => !attested.includes(each)).map(({ name }) => name);
  if ((attested.length >= approvals && everyGroup) || claimed.length === 0) return;
  yield at(
    [...path, 'approvals'],
    `only claims could satisfy this gate, and claims count only in a laboratory: ${claimed.join(', ')} ${claimed.length === 1 ? 'has' : 'have'} no key. Remove attestation: claimed; each of them runs "runbook join", and you run "runbook inventory add-person"`,
  );
}

/** Checks `batchTokens` against the rest of the inventory. */
function* batchTokens({ batchTokens, drSets, ceremony, clusters }: ParsedDeployment, path: Path): Mistakes {
  for (const [set, { ttlMs }] of Object.entries(batchTokens)) {
    const here = [...path, 'batchTokens', set];
    yield* oneOf(set, drSets, here, `this deployment has no DR set ${set}`);
    if (ttlMs < 2 * ceremony.batchMarginMs)
      yield at(
        [...here, 'ttl'],
        'a token is renewed at half its TTL, which must not be shorter than ceremony.batchMargin',
      );
    for (const member of drSets.get(set) ?? [])
      if (clusters.get(member)?.batchToken !== undefined)
        yield at(
          [...path, 'clusters', member, 'batchToken'],
          'the token of this DR set is kept in the record: remove batchToken',
        );
  }
}
