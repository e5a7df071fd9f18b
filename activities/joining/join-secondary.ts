import type { ActivationToken, SecondaryPublicKey, UpdatePrimaryParameters } from '../../src/vault';
import type { ActivationTokenResult, ChangeResult } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import { openValue, sealValue } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { issueActivationToken } from './activation-tokens';
import type { ClusterAccess } from '../clusters';
import type { Execution } from '../execution';
import { describeReplication, isAlive } from '../observe';
import { CHANGE_TIMEOUT_MS, awaitSettled, readActConfirm, withCredential } from '../read-act-confirm';

/** Life of an activation token: it is used at once. */
const ACTIVATION_TOKEN_SECONDS = 600;
/** How long the primary is given to become able to issue tokens, ms. */
const ISSUE_BUDGET_MS = 60_000;
const POINTED_BUDGET_MS = 30_000;

/** What of an update-primary says that the token was not taken; it serves once, so that another one is needed. */
const NOT_TAKEN: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST']);

/** A secondary that is to follow a primary, for one kind of replication. */
export interface Joining {
  readonly kind: 'dr' | 'performance';
  /** What the activation token is for; `update-primary` where nothing is given. */
  readonly use?: 'update-primary' | 'enable';
  readonly source: ClusterAccess;
  readonly target: ClusterAccess;
  /** `sys/health` cluster_id of the secondary: the id of its token and of its filter. */
  readonly clusterId: string;
  readonly heartbeatAgeMs: number;
  /** Status of this kind of replication, of the active node. */
  readonly read: (access: ClusterAccess) => Promise<ReplicationObservation>;
}

/**
 * Issues an activation token on the primary, sealed for the update-primary of this kind; none where the secondary is
 * attached already.
 *
 * @param publicKey - makes a key pair on the secondary; `undefined` where it refuses: the token is wrapped then
 */
export async function issueFor(
  dependencies: ActivityDependencies,
  execution: Execution,
  joining: Joining,
  publicKey: () => Promise<SecondaryPublicKey | undefined>,
): Promise<ActivationTokenResult> {
  const { kind, source, target, clusterId: id } = joining;
  const { run, signal } = execution;
  if (isAttached(await joining.read(target), await clusterAddressesOf(source, signal), joining.heartbeatAgeMs))
    return { id, form: 'none', revokedBefore: false };
  const key = await publicKey();
  const issued = await issueActivationToken(execution, {
    id,
    cluster: source.entry.name,
    budgetMs: ISSUE_BUDGET_MS,
    readPrimary: () => readPrimary(joining),
    issue: async () =>
      source.client[kind].primary.secondaryToken(
        { id, ttl: `${ACTIVATION_TOKEN_SECONDS}s`, secondaryPublicKey: key?.publicKey },
        await withCredential(source, execution),
      ),
    revoke: async () => source.client[kind].primary.revokeSecondary({ id }, await withCredential(source, execution)),
  });
  return {
    id,
    form: issued.token.form,
    keyNode: issued.token.form === 'encrypted' ? key?.node : undefined,
    revokedBefore: issued.revokedBefore,
    token: await sealActivationToken(dependencies, run, joining, issued.token),
  };
}

/**
 * Uses an activation token once and sees that the primary is known. Addresses are given with a wrapped token only.
 *
 * @param update - sends update-primary
 * @returns outcome `not-done` where the token is of no use any more: public key, token and call are done again together
 */
export async function updatePrimaryWith(
  dependencies: ActivityDependencies,
  execution: Execution,
  joining: Joining,
  activation: ActivationTokenResult,
  update: () => Promise<(parameters: UpdatePrimaryParameters) => Promise<unknown>>,
): Promise<ChangeResult> {
  const { kind, source, target, clusterId, heartbeatAgeMs } = joining;
  const { signal, run } = execution;
  const [primary, secondary] = [source.entry.name, target.entry.name];
  const addresses = await clusterAddressesOf(source, signal);
  const observed = `${secondary} knows ${primary} as its ${kind === 'dr' ? 'DR' : kind} primary`;
  let calls = 0;
  let calledAt: number | undefined;
  const result = (outcome: ChangeResult['outcome'], text = observed): ChangeResult => ({
    outcome,
    observed: text,
    calledAt,
    confirmedAt: Date.now(),
    calls,
  });

  const underWayMs = dependencies.changeUnderWayMs ?? CHANGE_TIMEOUT_MS;
  const reading = {
    read: () => joining.read(target),
    budgetMs: POINTED_BUDGET_MS,
    describe: describeReplication,
    needed: observed,
    cluster: secondary,
  };
  const before = await awaitSettled(
    execution,
    { ...reading, until: (state) => isAttached(state, addresses, heartbeatAgeMs) },
    underWayMs,
  );
  if (isAttached(before, addresses, heartbeatAgeMs)) return result('already');
  if (before.mode !== 'secondary') throw isNo(target, kind, 'secondary', before);
  if (activation.token === undefined) return result('not-done', 'there is no activation token yet');
  const token = await openValue(dependencies.sealKeyring, run, activation.token, {
    kind: 'activation-token',
    cluster: secondary,
    clusterId,
    use: useOf(joining),
    expectedSource: primary,
  });
  if (activation.keyNode !== undefined && (await target.client.activeNode({ signal })) !== activation.keyNode)
    return result('not-done', `the active node of ${secondary} changed: the private key of the activation is gone`);
  const send = await update();
  const wrapped = activation.form === 'wrapped';
  try {
    const changed = await readActConfirm(execution, {
      ...reading,
      underWayMs,
      // A cluster that was promoted back is known to its secondary already, which it does not accept any more: only a
      // live connection proves anything then.
      until: (state) =>
        follows(before, addresses) ? isAttached(state, addresses, heartbeatAgeMs) : follows(state, addresses),
      act: () => {
        calls += 1;
        calledAt ??= Date.now();
        return send({
          token,
          primaryApiAddr: wrapped ? source.entry.apiAddressForPeers : undefined,
          caFile: wrapped ? source.entry.caFileOnPeers : undefined,
        });
      },
    });
    return result(changed.outcome);
  } catch (error) {
    // While it may be under way, another token would revoke the id that it uses.
    if (isRunbookError(error) && NOT_TAKEN.has(error.code) && !execution.doubt.mayHaveSent)
      return result('not-done', `${secondary} did not take the activation token (${error.code})`);
    throw error;
  }
}

/** Status of the primary, which must be one. */
export async function readPrimary({ kind, source, read }: Joining): Promise<ReplicationObservation> {
  const state = await read(source);
  if (state.mode === 'primary') return state;
  throw isNo(source, kind, 'primary', state);
}

/** Addresses by which a secondary may know this primary: what the inventory advertises, and the active node's own. */
export async function clusterAddressesOf(source: ClusterAccess, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const { leaderClusterAddress } = await source.client.sys.leader({
    signal,
    node: await source.client.activeNode({ signal }),
  });
  const { advertisedClusterAddress } = source.entry;
  return new Set(
    [leaderClusterAddress, advertisedClusterAddress === 'node-address' ? undefined : advertisedClusterAddress].filter(
      (address) => address !== undefined,
    ),
  );
}

/** Done-criterion of update-primary (facts 2.11): the new primary is among the known ones. */
export function follows(replication: ReplicationObservation, clusterAddresses: ReadonlySet<string>): boolean {
  const known = [
    ...(replication.knownPrimaryClusterAddresses ?? []),
    ...(replication.primaryClusterAddress ? [replication.primaryClusterAddress] : []),
  ];
  return replication.mode === 'secondary' && known.some((address) => clusterAddresses.has(address));
}

/** Knows the primary and is connected to it: a primary that was demoted in between has forgotten its secondaries. */
function isAttached(
  replication: ReplicationObservation,
  clusterAddresses: ReadonlySet<string>,
  heartbeatAgeMs: number,
): boolean {
  return follows(replication, clusterAddresses) && isAlive(replication, heartbeatAgeMs);
}

/** What a sealed activation token may be opened for. */
export function useOf({ kind, use = 'update-primary' }: Joining): string {
  return `${kind}.${use}`;
}

/** Seals an activation token for the one activity that uses it. */
function sealActivationToken(
  dependencies: ActivityDependencies,
  run: Execution['run'],
  joining: Joining,
  token: ActivationToken,
) {
  const { source, target, clusterId } = joining;
  return sealValue(
    dependencies.sealKeyring,
    run,
    {
      kind: 'activation-token',
      cluster: target.entry.name,
      clusterId,
      uses: [useOf(joining)],
      src: source.entry.name,
      expSeconds: ACTIVATION_TOKEN_SECONDS,
    },
    token.token,
  );
}

function isNo(
  { entry }: ClusterAccess,
  kind: Joining['kind'],
  needed: 'primary' | 'secondary',
  observed: ReplicationObservation,
): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `${entry.name} is no ${kind === 'dr' ? 'DR' : kind} ${needed}.`, {
    cluster: entry.name,
    observed: describeReplication(observed),
    needed,
    retryable: observed.mode === 'unknown',
  });
}
