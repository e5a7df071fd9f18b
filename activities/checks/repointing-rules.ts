import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { SecondaryRepointingInput } from '../../src/contracts/runbook-inputs';
import type { Deployment } from '../../src/inventory';
import { drSetOf } from '../../src/inventory';
import { hasRole, mayFollow, onlyPrimary, takesPart, versionsOf, withoutKnownBugs } from './follow-rules';
import { follows } from '../joining/following';
import { describeReplication, isAlive } from '../observe';
import { kindName } from '../joining/onboarding-read';
import { check } from './switchover-rule';
import { compareVersions } from './versions';

interface RepointingWorld {
  readonly input: SecondaryRepointingInput;
  readonly deployment: Deployment;
  readonly primary: ClusterObservation;
  readonly secondary: ClusterObservation;
  readonly observations: readonly ClusterObservation[];
  /** Cluster addresses by which a secondary may know the primary. */
  readonly addresses: ReadonlySet<string>;
}

/** `update_primary_addrs` exists from this version on. */
const ADDRESSES_SINCE = '1.13.0';

/** Judges what status says. Every verdict names what was observed and what is needed. Pure. */
export function judgeRepointing(world: RepointingWorld): Precondition[] {
  const { input, primary, secondary, observations } = world;
  const { kind } = input;
  const concern = input.form === 'token' ? 'update-primary by token' : 'update-primary by addresses';
  return [
    ...formRules(world),
    ...[primary, secondary].flatMap(takesPart),
    hasRole(primary, kind, 'primary', `Name the ${kindName(kind)} primary; status says which cluster it is.`),
    hasRole(
      secondary,
      kind,
      'secondary',
      `Only a ${kindName(kind)} secondary can be re-pointed; a cluster without replication is onboarded.`,
    ),
    ...onlyPrimary(kind, primary, observations),
    sameSet(world),
    mayFollow(primary, secondary),
    ...withoutKnownBugs([primary, secondary], kind, concern, input.acknowledgeKnownBugs),
    ...connections(world),
  ];
}

function formRules({ input, deployment, primary, secondary }: RepointingWorld): Precondition[] {
  if (input.kind === 'dr') {
    const { members } = drSetOf(deployment, input.primary);
    return [
      check(
        'form of update-primary',
        input.secondary,
        input.form === 'token',
        input.form,
        'token: addresses are not allowed on a demoted DR cluster, and ended the server in some versions',
        'Start again with {"form": "token"}.',
      ),
      check(
        'members of one DR set',
        input.secondary,
        members.includes(input.secondary) && input.primary !== input.secondary,
        `${input.primary} with ${members.filter((name) => name !== input.primary).join(', ') || 'nobody'}`,
        `${input.secondary} in the DR set of ${input.primary}`,
        'Correct drSets in the inventory, or the names in the input.',
      ),
    ];
  }
  if (input.form === 'token') return [];
  const id = secondary.performance?.secondaryId ?? '';
  const versions = [...versionsOf(primary), ...versionsOf(secondary)];
  return [
    check(
      'addresses can be given',
      input.secondary,
      versions.length > 0 && versions.every((version) => compareVersions(version, ADDRESSES_SINCE) >= 0),
      versions.join(', ') || 'no version told',
      `version ${ADDRESSES_SINCE} or later`,
      'Start again with {"form": "token"}.',
    ),
    check(
      'attached before, and not demoted since',
      input.secondary,
      id !== '',
      id === '' ? `${describeReplication(secondary.performance)}, no id` : `id ${id}`,
      'a secondary with the id of its activation token: a demoted cluster takes a token only',
      'Start again with {"form": "token"}.',
    ),
    check(
      'the primary knows the secondary',
      input.primary,
      id !== '' && primary.performance?.knownSecondaries?.includes(id) === true,
      `known: ${primary.performance?.knownSecondaries?.join(', ') || 'nobody'}`,
      `${id === '' ? 'the id of the secondary' : id} among the known secondaries: addresses bring no certificate`,
      'Start again with {"form": "token"}.',
    ),
  ];
}

function sameSet({ input, primary, secondary }: RepointingWorld): Precondition {
  const { kind } = input;
  const [wanted, has] = [primary[kind]?.setId, secondary[kind]?.setId];
  return check(
    `same ${kindName(kind)} replication set`,
    secondary.cluster,
    wanted !== undefined && wanted === has,
    has ?? 'none told',
    wanted ?? 'the set of the primary',
    `${secondary.cluster} belongs to another set: it is onboarded anew, which wipes it.`,
  );
}

/** Nothing to do where it follows already; whom it leaves where it follows somebody else. */
function connections({ input, deployment, primary, secondary, addresses }: RepointingWorld): Precondition[] {
  const seen = secondary[input.kind];
  if (seen?.mode !== 'secondary') return [];
  const alive = isAlive(seen, deployment.limits.heartbeatAgeMs);
  const here = follows(seen, addresses);
  const to = seen.peers.find((peer) => peer.connected)?.clusterAddress ?? seen.primaryClusterAddress ?? 'nobody';
  if (here && alive && seen.state === 'stream-wals') {
    return [
      check(
        'something to do',
        secondary.cluster,
        false,
        `${describeReplication(seen)}, connected to ${to}`,
        `${secondary.cluster} does not follow ${primary.cluster} yet`,
        `${secondary.cluster} follows ${primary.cluster} already: there is nothing to do.`,
      ),
    ];
  }
  return [
    check(
      'connected to nobody else',
      secondary.cluster,
      here || !alive,
      alive ? `connected to ${to}` : `connected to nobody; last known ${seen.primaryClusterAddress || 'nobody'}`,
      'no live connection to another primary',
      `${secondary.cluster} follows another primary now and leaves it. Make sure that this is meant.`,
      'warn',
    ),
  ];
}
