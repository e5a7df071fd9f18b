import type { ClusterObservation, NodeObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { describeReplication, heartbeatAge, isAlive, kindName, rolesText } from '../observe';
import { asWarning, check } from './check';
import { supportedVersion } from './versions';

/* What a cluster reports about its nodes. */

export function everyNodeAnswers({ cluster, nodes }: ClusterObservation): Check {
  const good = nodes.every(({ reachable }) => reachable);
  return check('every node answers', cluster, good, {
    observed: nodesText(nodes, ({ reachable, error }) => (reachable ? 'answers' : (error ?? 'does not answer'))),
    needed: 'every node of the inventory answers',
    next: certificatesOf(nodes) ?? `Bring back the missing nodes of ${cluster}, or remove them from the inventory.`,
  });
}

/** Judges the nodes that answer; {@link everyNodeAnswers} judges the others. */
export function everyNodeUnsealed(observation: ClusterObservation): Check {
  const { cluster, nodes } = observation;
  const good = nodes.every(({ sealed, initialized }) => sealed !== true && initialized !== false);
  return check('every node is unsealed', cluster, good, {
    observed: nodesText(nodes, sealText),
    needed: 'every node is initialized and unsealed',
    next: unsealing(observation),
  });
}

/** `sys/health` answers 530 for a node that was removed, and 474 for a standby without a connection to its active node. */
function sealText({ sealed, healthStatus }: NodeObservation): string {
  if (healthStatus === REMOVED) return 'removed from its raft cluster';
  if (sealed === undefined) return 'not read';
  if (healthStatus === UNCONNECTED) return 'unsealed, without a connection to the active node';
  return sealed ? 'sealed' : 'unsealed';
}
const REMOVED = 530;
const UNCONNECTED = 474;

/** How to unseal the sealed nodes of a cluster, depending on its seal. */
function unsealing({ cluster, seal, nodes }: ClusterObservation): string {
  if (nodes.some(({ healthStatus }) => healthStatus === REMOVED))
    return `A removed node of ${cluster} cannot be unsealed: empty its storage and let it join again (retry_join), or take it out of the inventory.`;
  if (seal?.recovery !== true)
    return `Unseal the nodes of ${cluster}; a secondary accepts the primary's key shares (recovery key shares if the primary unseals itself).`;
  return `${cluster} unseals itself (${seal.type ?? 'auto-unseal'}), and recovery key shares do not unseal a node: make sure that its sealed nodes reach their key service, and restart the service on those that stay sealed.`;
}

/**
 * An active node that the nodes agree on proves a quorum, whatever the seals say: raft goes on running on standbys that
 * sealed themselves after a join.
 */
export function quorum({ cluster, nodes, reachable, activeNode }: ClusterObservation): Check {
  const majority = Math.floor(nodes.length / 2) + 1;
  const serving = nodes.filter((node) => node.reachable && node.sealed === false).length;
  const agreed = reachable && activeNode !== undefined;
  const count = `${serving} of ${nodes.length}`;
  return check('quorum', cluster, agreed || serving >= majority, {
    observed: agreed && serving < majority ? `${count}, and ${activeNode} is active` : count,
    needed: `an active node, or at least ${majority} of ${nodes.length} nodes that answer and are unsealed`,
    next: `Start or unseal nodes of ${cluster}.`,
  });
}

/** What to do about nodes whose certificates were not accepted; undefined if there is none. */
function certificatesOf(nodes: readonly Pick<NodeObservation, 'error'>[]): string | undefined {
  if (!nodes.some(({ error }) => error?.startsWith('TLS_FAILED'))) return undefined;
  return 'Correct the cause that the text names: the certificate of the node or its chain, its address in the inventory, or the CA file (caFile).';
}

export function oneActiveNode({ cluster, reachable, activeNode, error }: ClusterObservation): Check {
  return check('one active node', cluster, reachable, {
    observed: activeNode ?? error ?? 'none',
    needed: 'the nodes agree on one active node',
    next: certificatesOf([{ error }]) ?? `Check the nodes of ${cluster}.`,
  });
}

/**
 * A cluster that takes part in a change. A node that is down or sealed is only a warning as long as the others form a
 * quorum; in an unplanned change, so is an old version.
 */
export function takesPart(observation: ClusterObservation, { planned = true } = {}): Check[] {
  const enough = quorum(observation);
  const nodes = [everyNodeAnswers(observation), everyNodeUnsealed(observation)];
  const judged = enough.verdict === 'ok' ? nodes.map((each) => asWarning(each)) : nodes;
  const version = supportedVersion(observation);
  return [
    ...asPinned(observation),
    ...noSealMigration(observation),
    oneActiveNode(observation),
    enough,
    ...judged,
    planned ? version : asWarning(version),
  ];
}

/** During a seal migration, restarted nodes need the key shares of the old seal. */
function noSealMigration({ cluster, seal }: ClusterObservation): Check[] {
  if (seal?.migration !== true) return [];
  const next = `Finish the seal migration of ${cluster} first: unseal every node with \`vault operator unseal -migrate\`.`;
  return [check('no seal migration', cluster, false, { observed: 'under way', needed: 'none under way', next })];
}

/** The wrong cluster may answer at the right address: no activity changes it, and a plan with it would stop halfway. */
export function asPinned({ cluster, clusterId = 'none', pinnedId }: ClusterObservation): Check[] {
  if (pinnedId === undefined) return [];
  const needed = `cluster ID ${pinnedId}, as pinned in the inventory`;
  return [check('cluster ID', cluster, false, { observed: clusterId, needed, next: correctPin(cluster) })];
}

export function correctPin(cluster: string): string {
  return `Find out which cluster answers at the addresses of ${cluster}. If it was set up again, correct clusterId.`;
}

/** What the approvers must know about a cluster. It leaves out the error, which may differ at the next read. */
export function missingNodes({ cluster, nodes, seal }: ClusterObservation): string[] {
  const missing = nodes.filter(({ reachable, sealed }) => !reachable || sealed !== false);
  if (missing.length === 0) return [];
  const addresses = missing.map(({ address }) => address).join(', ');
  const heals = seal?.recovery === true ? ' They unseal themselves once they run and reach their key service.' : '';
  return [`Nodes of ${cluster} that are down or sealed: ${addresses}. Losing one more may cost its quorum.${heals}`];
}

/** A cluster that is not part of the change and does not answer. */
export function otherReadable({ cluster, error }: ClusterObservation, next: string): Check {
  const observed = error ?? 'not readable';
  return check('other clusters can be read', cluster, false, { observed, needed: 'readable', next, otherwise: 'warn' });
}

function nodesText(nodes: readonly NodeObservation[], text: (node: NodeObservation) => string): string {
  return nodes.map((node) => `${node.address} ${text(node)}`).join('; ');
}

/* What a cluster reports about its replication. */

type Limits = Pick<Deployment['limits'], 'heartbeatAgeMs' | 'lagWalEntries'>;

/** What a cluster reports about its replication: both kinds, or the kind that was just read. */
export type ObservedRoles = Pick<ClusterObservation, 'cluster' | 'dr' | 'performance' | 'error'>;

/** The role of a cluster in a kind of replication, as text; the error if it does not answer. */
export function roleText(observation: ObservedRoles | undefined, kind: ReplicationKind): string {
  const seen = observation?.[kind];
  return seen ? describeReplication(seen) : (observation?.error ?? 'not readable');
}

/** One line for several clusters. */
export function rolesOf(observations: readonly ObservedRoles[], kind: ReplicationKind): string {
  return observations.map((each) => `${each.cluster}: ${roleText(each, kind)}`).join('; ');
}

/** Requires a role. */
export function hasRole(
  observation: ObservedRoles,
  kind: ReplicationKind,
  mode: 'primary' | 'secondary',
  next?: string,
): Check {
  const good = observation[kind]?.mode === mode;
  const name = `${kindName(kind)} ${mode}`;
  return check(name, observation.cluster, good, { observed: roleText(observation, kind), needed: mode, next });
}

/** A DR secondary has the tokens and the performance role of its primary, and none of its own. */
export function noDrSecondary(observation: ObservedRoles, needed: string, next: string): Check {
  const { cluster, dr } = observation;
  const observed = roleText(observation, 'dr');
  return check('no DR secondary', cluster, dr?.mode !== 'secondary', { observed, needed, next });
}

/** Requires a primary that serves: one in state `idle` has no active node. */
export function servesAsPrimary(observation: ObservedRoles, kind: ReplicationKind, next: string): Check {
  const seen = observation[kind];
  const good = seen?.mode === 'primary' && seen.state !== 'idle';
  const observed = roleText(observation, kind);
  return check(`${kindName(kind)} primary`, observation.cluster, good, { observed, needed: 'primary, running', next });
}

/** Exactly one of these clusters is primary. */
export function onePrimary(kind: ReplicationKind, clusters: readonly ObservedRoles[]): Check {
  const primaries = clusters.filter((each) => each[kind]?.mode === 'primary').map(({ cluster }) => cluster);
  return check(`one ${kindName(kind)} primary`, undefined, primaries.length === 1, {
    observed: primaries.join(', ') || 'none',
    needed: 'exactly one',
    next: 'Before anything else, find out which one clients write to, and demote the other.',
  });
}

/** Two clusters of one replication set, by the ID that both report. */
export function sameSet(kind: ReplicationKind, primary: ObservedRoles, secondary: ObservedRoles, next: string): Check {
  const [wanted, has] = [primary[kind]?.setId, secondary[kind]?.setId];
  const [observed, needed] = [has ?? 'none', wanted ?? 'the set of the primary'];
  const good = wanted !== undefined && wanted === has;
  return check(`same ${kindName(kind)} set`, secondary.cluster, good, { observed, needed, next });
}

/** Whether two clusters may belong to one replication set: only two reported IDs that differ rule it out. */
export function mayBeOneSet(a: string | undefined, b: string | undefined): boolean {
  return !a || !b || a === b;
}

/** A DR secondary that reports another set than the rest of its DR set: no run takes it away from its own primary. */
export function ofAnotherSet(member: ObservedRoles, stranger: ObservedRoles): Check {
  const { cluster } = stranger;
  const next = `${cluster} is left unchanged: its set may have another primary. Correct drSets in the inventory.`;
  return asWarning(sameSet('dr', member, stranger, next));
}

export function streams(observation: ObservedRoles, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  const good = seen?.mode === 'secondary' && seen.state === 'stream-wals';
  return check(`${kindName(kind)} secondary, streaming`, cluster, good, {
    observed: `${roleText(observation, kind)}${isDetached(seen) ? ', attached to no primary' : ''}`,
    needed: 'secondary, stream-wals',
    next: isDetached(seen) ? attach(cluster) : `Wait until ${cluster} streams; if it never does, run merkleCheck.`,
  });
}

const BY_TOKEN = 'Start secondaryRepointing with {"form": "token"}.';

/** A demoted cluster is a secondary of nobody until it gets an activation token. */
function isDetached(seen: ReplicationObservation | undefined): boolean {
  return seen?.mode === 'secondary' && (seen.secondaryId ?? '') === '' && seen.peers.length === 0;
}

function attach(cluster: string): string {
  return `${cluster} was demoted and never attached, so it belongs to no primary. ${BY_TOKEN}`;
}

/** `stream-wals` is still reported with a dead primary: only heartbeats prove that it is alive. */
export function aliveByHeartbeat(observation: ObservedRoles, kind: ReplicationKind, limitMs: number): Check {
  const { cluster, [kind]: seen } = observation;
  return check('connection alive by heartbeat', cluster, isAlive(seen, limitMs), {
    observed: heartbeatText(seen),
    needed: `connected, heartbeat at most ${limitMs / 1000} s old`,
    next: isDetached(seen)
      ? attach(cluster)
      : `Find out why ${cluster} receives no heartbeats from its primary (cluster port, certificates, load balancer).`,
  });
}

export function heartbeatText(seen: ReplicationObservation | undefined): string {
  if (seen === undefined) return 'not readable';
  if (seen.peers.length === 0) return 'no peer reported';
  const age = heartbeatAge(seen);
  const unreadable = seen.peers.some((peer) => peer.heartbeatUnreadable);
  const text =
    age === undefined ? (unreadable ? 'time not readable' : 'not reported') : `${(age / 1000).toFixed(1)} s old`;
  return `${isConnected(seen) ? 'connected' : 'disconnected'}, heartbeat ${text}`;
}

export function isConnected(seen: ReplicationObservation | undefined): boolean {
  return seen?.peers.some((peer) => peer.connected) === true;
}

/**
 * How far a secondary is behind. An index of 0 is not a lag: nothing was streamed since the trees were compared, so the
 * trees decide.
 */
export function lag(kind: ReplicationKind, primary: ObservedRoles, secondary: ObservedRoles, limit: number): Check {
  const { cluster } = secondary;
  const root = primary[kind]?.merkleRoot;
  const sameRoot = root !== undefined && root === secondary[kind]?.merkleRoot;
  const [sent, received] = [primary[kind]?.lastWal, secondary[kind]?.lastRemoteWal];
  const needed = `at most ${limit} WAL entries, or equal Merkle roots`;
  if (sent === undefined || received === undefined || received === '0') {
    const indexes = `last WAL ${sent ?? 'not reported'}, last remote WAL ${received ?? 'not reported'}`;
    const roots = sameRoot ? 'equal Merkle roots: nothing is missing' : 'no equal Merkle roots';
    const next = `Write something to ${primary.cluster}, then try again.`;
    return check('replication lag', cluster, sameRoot, { observed: `${indexes}; ${roots}`, needed, next });
  }
  const entries = BigInt(sent) - BigInt(received);
  return check('replication lag', cluster, entries <= BigInt(limit), {
    observed: `${entries < 0n ? 0n : entries} WAL entries`,
    needed,
    next: `Wait until ${cluster} has caught up; if it never does, check the write load and the link.`,
  });
}

/** Whether a secondary has the data of its primary, and hears it. */
export function inStep(
  kind: ReplicationKind,
  { heartbeatAgeMs, lagWalEntries }: Limits,
  primary: ObservedRoles,
  secondary: ObservedRoles,
): Check[] {
  return [
    streams(secondary, kind),
    aliveByHeartbeat(secondary, kind, heartbeatAgeMs),
    lag(kind, primary, secondary, lagWalEntries),
  ];
}

/** What must hold before a primary hands over to a secondary: it alone serves in its set, and the secondary has everything. */
export function mayHandOver(
  kind: ReplicationKind,
  limits: Limits,
  {
    from,
    to,
    inSet,
  }: { readonly from: ClusterObservation; readonly to: ClusterObservation; readonly inSet: readonly ObservedRoles[] },
): Check[] {
  const sides = [from, to].flatMap((each) => takesPart(each));
  if (!bothAnswer(from, to)) return sides;
  return [
    ...sides,
    servesAsPrimary(from, kind, `The ${kindName(kind)} primary is not ${from.cluster}: correct "from".`),
    ...inStep(kind, limits, from, to),
    sameSet(kind, from, to, `${to.cluster} replicates from another primary.`),
    onePrimary(kind, inSet),
  ];
}

/** If a cluster does not answer, nothing more is judged: every other failure would follow from that. */
export function bothAnswer(from: ClusterObservation, to: ClusterObservation): boolean {
  return from.reachable && to.reachable;
}

function noReindex(observation: ObservedRoles, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  return check('no reindex under way', cluster, seen?.reindexInProgress !== true, {
    observed: seen?.reindexInProgress ? 'in progress' : 'none',
    needed: 'none',
    next: `Wait until the reindex of ${cluster} has ended; do not stop a node before then.`,
  });
}

export function soundTree(observation: ObservedRoles, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = observation;
  return check('Merkle tree not corrupted', cluster, seen?.corruptedMerkleTree !== true, {
    observed: seen?.corruptedMerkleTree ? 'corrupted' : 'not reported as corrupted',
    needed: 'not corrupted',
    next: 'Run merkleCheck on a DR secondary, then drReindex, never on the primary first; or choose another secondary.',
  });
}

export function healthyTree(observation: ObservedRoles, kind: ReplicationKind): Check[] {
  return [noReindex(observation, kind), soundTree(observation, kind)];
}

/** A cluster that replicates is never wiped. */
export function noReplication(seen: ObservedRoles): Check {
  const { cluster, dr, performance, error = 'not readable' } = seen;
  const none = dr?.mode === 'disabled' && performance?.mode === 'disabled';
  const replicates = [dr, performance].some((each) => each && each.mode !== 'disabled' && each.mode !== 'unknown');
  return check('no replication of any kind', cluster, none, {
    observed: dr || performance ? rolesText(seen) : error,
    needed: 'DR disabled, performance disabled: a cluster that replicates is never wiped',
    next: replicates
      ? `If ${cluster} may really be wiped, end its replication first (secondaryDecommission, replicationTeardown).`
      : `Make ${cluster} readable again: its role must be known before it is wiped.`,
  });
}

/** While the primary changes or is gone, a secondary may be needed: its tree must not be locked. */
export function primaryStable(others: readonly ObservedRoles[], cluster: string): Check {
  const primaries = others.filter((each) => each.dr?.mode === 'primary').map((each) => each.cluster);
  return check('no change of the primary under way', cluster, primaries.length === 1, {
    observed: rolesOf(others, 'dr') || 'no other cluster in the DR set',
    needed: 'exactly one DR primary answers in the DR set',
    next: `A failover may need ${cluster}: finish the failover, or bring the primary back, before a reindex.`,
  });
}

/** The cluster with this id: its cluster ID, or the id by which its primary knows it. */
export function ownerOf(id: string, kind: ReplicationKind, observations: readonly ClusterObservation[]) {
  return observations.find((each) => each.clusterId === id || each[kind]?.secondaryId === id);
}

/** Secondaries other than `id` that the primary is connected to now. */
export function othersConnected({ peers }: ReplicationObservation, id: string, heartbeatAgeMs: number): string[] {
  return peers.flatMap((peer) =>
    peer.id !== undefined && peer.id !== id && isAlive({ mode: 'primary', peers: [peer] }, heartbeatAgeMs)
      ? [peer.id]
      : [],
  );
}

/** The only connected DR secondary is never revoked, unless the input acknowledges it and the gate approves it (facts 9.12). */
export function anotherSecondaryStays(
  { cluster, dr }: ObservedRoles,
  id: string,
  heartbeatAgeMs: number,
  acknowledged: boolean,
): Check {
  const others = dr ? othersConnected(dr, id, heartbeatAgeMs) : [];
  return check('another DR secondary stays connected', cluster, others.length > 0, {
    observed: others.join(', ') || 'no other one is connected',
    needed: 'another connected DR secondary',
    next: 'Connect another DR secondary first, or start again with {"acknowledgeLastSecondary": true}.',
    otherwise: acknowledged ? 'warn' : 'fail',
  });
}

/** A demoted cluster accepts no addresses, and one without an id never had a certificate. */
export function attachedBefore(secondary: ObservedRoles, kind: ReplicationKind): Check {
  const { cluster, [kind]: seen } = secondary;
  const id = seen?.secondaryId ?? '';
  return check('attached before, and not demoted since', cluster, seen?.mode === 'secondary' && id !== '', {
    observed: id === '' ? `${roleText(secondary, kind)}, no id` : `id ${id}`,
    needed: 'a secondary with the id of its activation token: a demoted cluster accepts no addresses',
    next: BY_TOKEN,
  });
}

/** Addresses carry no certificate: only a primary that knows the secondary accepts it. */
export function knowsSecondary(primary: ObservedRoles, secondary: ObservedRoles, kind: ReplicationKind): Check {
  const id = secondary[kind]?.secondaryId || 'the id of the secondary';
  const known = primary[kind]?.knownSecondaries ?? [];
  return check('the primary lists the secondary', primary.cluster, known.includes(id), {
    observed: `known: ${known.join(', ') || 'none'}`,
    needed: `${id} among its known secondaries: addresses carry no certificate`,
    next: BY_TOKEN,
  });
}

/** IDs of the secondaries that a former primary reports as connected. Its DR secondaries stay if only performance is concerned. */
export function connectedTo(
  kind: ReplicationKind,
  { dr, performance }: Pick<ClusterObservation, 'dr' | 'performance'>,
): string[] {
  return (kind === 'dr' ? [dr, performance] : [performance]).flatMap((each) =>
    each?.mode === 'primary'
      ? each.peers.filter((peer) => peer.connected).map((peer) => peer.id ?? 'without an id')
      : [],
  );
}
