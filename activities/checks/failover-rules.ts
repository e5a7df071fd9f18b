import type { FailoverLoss } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { DrFailoverInput } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import type { FailoverSides } from './failover-sides';
import { behindBy } from './failover-sides';
import { describeReplication } from '../observe';
import { check } from './switchover-rule';
import { compareVersions } from './versions';

/** What is looked at beside the signs that the primary is gone. */
interface FailoverWorld extends FailoverSides {
  readonly input: DrFailoverInput;
  readonly deployment: Deployment;
  readonly loss: FailoverLoss;
  /** Whether the credential from before, which B must accept after its promotion, can be read. */
  readonly credentialReadable: boolean;
}

type Rule = (world: FailoverWorld) => readonly Precondition[];

/** Whether the successor can become primary, and what people must know of it. Pure. */
export function judgeSuccessor(world: FailoverWorld): Precondition[] {
  return RULES.flatMap((rule) => rule(world));
}

/** States in which a secondary is not in step with its primary, and never will be once that is gone. */
const NOT_IN_STEP: readonly string[] = ['merkle-diff', 'merkle-sync'];

const role: Rule = ({ to }) => [
  check(
    'DR secondary',
    to.cluster,
    to.dr?.mode === 'secondary',
    to.dr ? describeReplication(to.dr) : (to.error ?? 'not readable'),
    'secondary, with one active node',
    `${to.cluster} cannot be promoted as it is: look at its nodes, or name another one with {"to": ...}.`,
  ),
  check(
    'was in step with the primary',
    to.cluster,
    !NOT_IN_STEP.includes(to.dr?.state ?? ''),
    to.dr?.state ?? 'not told',
    'stream-wals or idle',
    `${to.cluster} was still comparing or copying data when its primary went: its promotion may be refused, and hold only a part.`,
    'warn',
  ),
];

const nodes: Rule = ({ to }) => [
  check(
    'every node is unsealed',
    to.cluster,
    to.nodes.every(({ sealed, initialized }) => sealed !== true && initialized !== false),
    to.nodes
      .map(({ address, sealed }) => `${address} ${sealed === undefined ? 'not read' : sealed ? 'sealed' : 'unsealed'}`)
      .join('; '),
    'every node that answers is initialised and unsealed',
    `Unseal the nodes of ${to.cluster} with the primary's key shares.`,
  ),
  check(
    'every node answers',
    to.cluster,
    to.nodes.every(({ reachable }) => reachable),
    to.nodes.map(({ address, reachable }) => `${address} ${reachable ? 'answers' : 'does not answer'}`).join('; '),
    'every node of the inventory answers',
    `Bring the missing nodes of ${to.cluster} back: it has to carry everything alone.`,
    'warn',
  ),
];

const trees: Rule = ({ to }) => [
  check(
    'no reindex under way',
    to.cluster,
    to.dr?.reindexInProgress !== true,
    to.dr?.reindexInProgress ? 'reindex in progress' : 'none',
    'none',
    'Wait until the reindex has ended, or name another DR secondary.',
  ),
  check(
    'Merkle tree not corrupted',
    to.cluster,
    to.dr?.corruptedMerkleTree !== true,
    to.dr?.corruptedMerkleTree ? 'corrupted' : 'not told to be corrupted',
    'not corrupted',
    'Name another DR secondary, or reindex this one first.',
  ),
];

const versions: Rule = ({ from, to, others }) => {
  const of = (observation: ClusterObservation) => [...new Set(observation.nodes.flatMap((node) => node.version ?? []))];
  const [mine, more] = of(to);
  const before = of(from)[0];
  const told = `${to.cluster} ${of(to).join(', ') || 'not told'}; ${from.cluster} ${of(from).join(', ') || 'not told'}`;
  const older = mine !== undefined && before !== undefined && compareVersions(mine, before) < 0;
  return [
    check(
      'versions in order',
      to.cluster,
      mine !== undefined && more === undefined && !older,
      told,
      `one version on all nodes of ${to.cluster}, not older than that of ${from.cluster}`,
      `Data of a newer version is not safe on an older one: name another DR secondary, or finish the upgrade.`,
      older ? 'fail' : 'warn',
    ),
    ...others
      .filter((each) => mine !== undefined && compareVersions(each.version ?? mine, mine) < 0)
      .map((each) =>
        check(
          'other secondaries can follow',
          each.cluster,
          false,
          `${each.cluster} ${each.version ?? 'not told'}, ${to.cluster} ${mine ?? 'not told'}`,
          `not older than ${to.cluster}`,
          `Upgrade ${each.cluster}: replicating from newer to older is not safe.`,
          'warn',
        ),
      ),
  ];
};

/** Of several secondaries the one that has most of the primary's log is proposed; another one may be named. */
const furthestAhead: Rule = ({ to, ranking }) => {
  if (ranking.length < 2) return [];
  const ahead = ranking.filter((each) => behindBy(to, each) > 0n);
  const untold = (to.dr?.lastRemoteWal ?? '0') === '0' && ranking[0] !== to;
  return [
    check(
      'furthest ahead',
      to.cluster,
      ahead.length === 0 && !untold,
      ranking.map((each) => `${each.cluster} last remote WAL ${each.dr?.lastRemoteWal ?? 'not told'}`).join('; '),
      'no other DR secondary of the set has more of the log',
      `What ${(ahead[0] ?? ranking[0])?.cluster ?? 'another one'} has and ${to.cluster} has not is lost when it follows ${to.cluster}.`,
      'warn',
    ),
  ];
};

const fencing: Rule = ({ input, deployment }) =>
  input.fencing === 'hook'
    ? [
        check(
          'fence hook',
          undefined,
          deployment.hooks.fence !== undefined,
          deployment.hooks.fence ? 'there is one' : 'none',
          'hooks.fence in the inventory',
          'Add the hook, or start with {"fencing": "attested"}.',
        ),
      ]
    : [];

const lossBound: Rule = ({ to, loss }) => [
  {
    name: 'loss bound',
    cluster: to.cluster,
    observed: loss.why,
    needed: 'samples of the WAL from before the failure',
    verdict: loss.loss === 'unknown' ? 'not-checkable' : 'ok',
  },
];

const credential: Rule = ({ from, credentialReadable }) => [
  check(
    'credential from before',
    from.cluster,
    credentialReadable,
    credentialReadable ? 'can be read; whether it still counts is seen after the promotion' : 'cannot be read',
    'a token that the old primary gave out',
    `Put a token that ${from.cluster} gave out at its source: without one no write after the promotion proves that service is back.`,
    'warn',
  ),
];

const unread: Rule = ({ silent }) =>
  silent.map((each) =>
    check(
      'other members of the set can be read',
      each.cluster,
      false,
      each.error ?? 'not readable',
      'readable',
      `${each.cluster} is not re-pointed by this run; make sure that it is not a primary.`,
      'warn',
    ),
  );

const RULES: readonly Rule[] = [role, nodes, trees, versions, furthestAhead, fencing, credential, lossBound, unread];
