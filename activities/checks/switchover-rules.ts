import type { ClusterObservation, ReplicationObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import { describeReplication, heartbeatAge, isAlive } from '../observe';
import { pace } from './switchover-pace-rules';
import type { Rule, SwitchoverWorld } from './switchover-rule';
import { check } from './switchover-rule';
import { credential, freeSlot, tokenSource } from './switchover-token-rules';
import { compareVersions } from './versions';

/** Judges what was read. Every verdict names what was observed and what is needed. Pure. */
export function judgeSwitchover(world: SwitchoverWorld): Precondition[] {
  return RULES.flatMap((rule) => rule(world));
}

const everyNode: Rule = ({ from, to }) =>
  [from, to].flatMap((observation) => [
    check(
      'every node answers',
      observation.cluster,
      observation.nodes.every((node) => node.reachable),
      observation.nodes
        .map((node) => `${node.address} ${node.reachable ? 'answers' : (node.error ?? 'does not answer')}`)
        .join('; '),
      'every node of the inventory answers',
      `Bring the missing nodes of ${observation.cluster} back, or take them out of the inventory.`,
    ),
    check(
      'every node is unsealed',
      observation.cluster,
      observation.nodes.every((node) => node.sealed !== true && node.initialized !== false),
      observation.nodes
        .map(
          (node) => `${node.address} ${node.sealed === undefined ? 'not read' : node.sealed ? 'sealed' : 'unsealed'}`,
        )
        .join('; '),
      'every node is initialised and unsealed',
      `Unseal the nodes of ${observation.cluster} with the primary's key shares.`,
    ),
  ]);

const activeNodes: Rule = ({ from, to }) =>
  [from, to].map((observation) =>
    check(
      'one active node',
      observation.cluster,
      observation.reachable,
      observation.activeNode ?? observation.error ?? 'none',
      'the nodes agree on one active node',
      `Look at the nodes of ${observation.cluster}.`,
    ),
  );

const roles: Rule = ({ from, to, input }) => [
  check(
    'DR primary',
    from.cluster,
    from.dr?.mode === 'primary' && from.dr.state !== 'idle',
    describeReplication(from.dr),
    'primary, running',
    `The DR primary is not ${from.cluster}: correct "from".`,
  ),
  check(
    'DR secondary, streaming',
    to.cluster,
    to.dr?.mode === 'secondary' && to.dr.state === 'stream-wals',
    describeReplication(to.dr),
    'secondary, stream-wals',
    input.to === from.cluster
      ? `${to.cluster} is the primary already.`
      : `Wait until ${to.cluster} streams, or re-attach it.`,
  ),
  check(
    'same DR set',
    to.cluster,
    from.dr?.setId !== undefined && from.dr.setId === to.dr?.setId,
    `${to.dr?.setId ?? 'none'}`,
    `${from.dr?.setId ?? 'the set of the primary'}`,
    `${to.cluster} replicates from another primary.`,
  ),
];

/** `stream-wals` is still told with a dead primary: only heartbeats prove life. */
const alive: Rule = ({ to, deployment }) =>
  check(
    'connection alive by heartbeat',
    to.cluster,
    (to.dr?.peers.length ?? 0) > 0 && isAlive(to.dr, deployment.limits.heartbeatAgeMs),
    to.dr?.peers.length
      ? `${to.dr.peers.some((peer) => peer.connected) ? 'connected' : 'disconnected'}, heartbeat ${heartbeatText(to.dr)}`
      : 'no peer told',
    `connected, heartbeat at most ${deployment.limits.heartbeatAgeMs / 1000} s old`,
    `Find out why ${to.cluster} hears nothing from its primary (cluster port, certificates, load balancer).`,
  );

function heartbeatText(replication: ReplicationObservation | undefined): string {
  const age = heartbeatAge(replication);
  if (age !== undefined) return `${(age / 1000).toFixed(1)} s old`;
  return replication?.peers.some((peer) => peer.heartbeatUnreadable) ? 'of no readable time' : 'not told';
}

const lag: Rule = ({ from, to, deployment }) => {
  const limit = deployment.limits.lagWalEntries;
  const sent = from.dr?.lastWal;
  const received = to.dr?.lastRemoteWal;
  const sameRoot = from.dr?.merkleRoot !== undefined && from.dr.merkleRoot === to.dr?.merkleRoot;
  if (sent === undefined || received === undefined || received === '0') {
    return check(
      'replication lag',
      to.cluster,
      sameRoot,
      sameRoot
        ? 'nothing streamed yet, equal Merkle roots'
        : `last WAL ${sent ?? 'not told'}, last remote WAL ${received ?? 'not told'}`,
      'WAL indexes on both sides, or equal Merkle roots',
      `Write something on ${from.cluster}, then try again.`,
    );
  }
  const entries = BigInt(sent) - BigInt(received);
  return check(
    'replication lag',
    to.cluster,
    entries <= BigInt(limit),
    `${entries < 0n ? 0n : entries} WAL entries`,
    `at most ${limit} WAL entries`,
    `Wait until ${to.cluster} has caught up, or raise limits.lagWalEntries.`,
  );
};

const onePrimary: Rule = ({ from, to, others }) => {
  const primaries = [from, to, ...others].filter((each) => each.dr?.mode === 'primary').map((each) => each.cluster);
  return check(
    'one DR primary',
    undefined,
    primaries.length === 1,
    primaries.join(', ') || 'none',
    'exactly one',
    'Find out which one clients write to, and demote the other, before anything else.',
  );
};

const unread: Rule = ({ others, performanceSecondaries }) =>
  [...others, ...performanceSecondaries]
    .filter((each) => !each.reachable)
    .map((each) =>
      check(
        'other clusters can be read',
        each.cluster,
        false,
        each.error ?? 'not readable',
        'readable',
        `${each.cluster} may need attention after the switchover.`,
        'warn',
      ),
    );

const versions: Rule = ({ from, to, input }) => {
  const of = (observation: ClusterObservation) => [...new Set(observation.nodes.flatMap((node) => node.version ?? []))];
  const told = `${from.cluster} ${of(from).join(', ') || 'not told'}; ${to.cluster} ${of(to).join(', ') || 'not told'}`;
  const mixed = of(from).length !== 1 || of(to).length !== 1;
  const [old, next] = [of(from)[0], of(to)[0]];
  if (mixed || old === undefined || next === undefined)
    return check(
      'versions in order',
      undefined,
      false,
      told,
      'one version on all nodes of each cluster',
      'Finish the upgrade first.',
    );
  const order = compareVersions(next, old);
  if (order === 0) return check('versions in order', undefined, true, told, 'the same version on both');
  if (order < 0)
    return check(
      'versions in order',
      to.cluster,
      false,
      told,
      `${to.cluster} not older than ${from.cluster}`,
      `Upgrade ${to.cluster} first: replicating from newer to older is not safe.`,
    );
  return check(
    'versions in order',
    to.cluster,
    input.acknowledgeNewerSecondary,
    told,
    'the same version, or acknowledgeNewerSecondary',
    `With {"acknowledgeNewerSecondary": true} ${from.cluster} stays out until it is upgraded.`,
  );
};

const healthyTrees: Rule = ({ from, to }) =>
  [from, to].flatMap((observation) => [
    check(
      'no reindex under way',
      observation.cluster,
      observation.dr?.reindexInProgress !== true,
      observation.dr?.reindexInProgress ? 'reindex in progress' : 'none',
      'none',
      'Wait until the reindex has ended.',
    ),
    check(
      'Merkle tree not corrupted',
      observation.cluster,
      observation.dr?.corruptedMerkleTree !== true,
      observation.dr?.corruptedMerkleTree ? 'corrupted' : 'not told to be corrupted',
      'not corrupted',
      'Run a Merkle check, then reindex the secondary.',
    ),
  ]);

const RULES: readonly Rule[] = [
  everyNode,
  activeNodes,
  roles,
  onePrimary,
  alive,
  lag,
  versions,
  healthyTrees,
  freeSlot,
  credential,
  tokenSource,
  pace,
  unread,
];
