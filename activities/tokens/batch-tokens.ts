import type { OnCluster } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import type { ClusterObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { BatchTokenRotationEntry, Deployment } from '../../src/inventory';
import type { Secret } from '../../src/secret';
import { check, demand } from '../checks/check';
import { missingRights, rightsText } from '../checks/credentials';
import { hasRole } from '../checks/replication';
import type { PolicyGrant } from '../checks/rights';
import { isBeforeMajor } from '../checks/versions';
import type { ClusterAccess } from '../clusters';
import { currentExecution, onCluster } from '../execution';
import { observeCluster, readKind } from '../observe';
import { CHANGE_TIMEOUT_MS } from '../timing';
import { neededGrants, policyCommand, rightsIn, roleCommand } from './policies';
import { keptBatchTokens, sealBatchToken } from './kept-batch-token';
import { batchTokenProofs, proofOf, acceptedBy } from './batch-token-proof';
import { readClusterId } from './operation-token';

/* Batch tokens for DR operations, created on the primary and stored in the record (facts 5.7, 11.16). */

/** Creates a token on the primary, proves it, and stores it sealed in the record, all in one activity. */
export async function rotateBatchToken(input: OnCluster & { readonly drSet: string }) {
  const { deployment: name, cluster, drSet } = input;
  const { execution, clusters, signal, access: primary } = onCluster(input);
  const { records, sealKeyring } = execution;
  const deployment = clusters.deployment(name);
  const chosen = chooseSet(deployment, drSet);
  if ('verdict' in chosen) throw new RunbookError('PRECONDITION_FAILED', chosen.name, chosen);
  const { entry } = chosen;
  await mustBePrimary(primary, signal);
  const members = (deployment.drSets.get(drSet) ?? []).map((member) => clusters.of(name, member));
  const seen = await Promise.all(members.map((member) => observeCluster(member, signal)));
  const needed = neededGrants(opensCeremonies(deployment, drSet, seen));
  // Check the record first: a token that cannot be stored would be one that nobody holds.
  await records.read(name);

  const token = await makeToken(primary, entry);
  const proven = await proveToken(primary, token, entry, needed);
  const taken = await Promise.all(
    seen
      .filter(({ dr }) => dr?.mode === 'secondary')
      .map(async (each) => ({
        cluster: each.cluster,
        how: await acceptedBy(clusters.of(name, each.cluster), each, token, signal),
      })),
  );
  const refusing = taken.filter(({ how }) => how === 'refused').map((each) => each.cluster);

  execution.throwIfCancelled();
  const proof = proofOf(token, proven);
  const sealed = await sealBatchToken({ records, sealKeyring }, { deployment: name, drSet }, token, proven.ttlSeconds);
  const kept = keptBatchTokens.changes([[drSet, { sealed, at: proof.at }]]);
  const proofs = batchTokenProofs.changes(members.map((member) => [member.entry.name, proof]));
  await records.change(name, () => ({ put: { ...kept.put, ...proofs.put } }));
  return {
    drSet,
    primary: cluster,
    expiresAt: proven.expiresAt,
    ttlSeconds: proven.ttlSeconds,
    /** By path, as the new token itself reported them. */
    rights: proven.capabilities,
    /** DR secondaries that accepted it for a read, and those on which that cannot be checked before it is used. */
    provenOn: taken.filter(({ how }) => how === 'taken').map((each) => each.cluster),
    notCheckableOn: taken.filter(({ how }) => how === 'not-checkable').map((each) => each.cluster),
    findings: refusing.map(refusedBy),
  };
}

/** A DR secondary or a lost primary must not be asked: its token would not be part of the set's current data. */
async function mustBePrimary(access: ClusterAccess, signal: AbortSignal): Promise<void> {
  await readClusterId(access, signal);
  const { name: cluster } = access.entry;
  const next = 'Start batchTokenRotation again when a cluster of the set is primary.';
  const observed = { cluster, dr: await readKind(access, 'dr', signal) };
  demand([hasRole(observed, 'dr', 'primary', next)], 'No batch token was created');
}

function refusedBy(cluster: string): Finding {
  return {
    severity: 'warning',
    code: 'batch-token-refused',
    text: `${cluster} refuses the new batch token for reading its generation slot.`,
    next: `Verify that ${cluster} streams from the primary and that the policy has reached it. Then rotate again.`,
  };
}

/** Requests for one token. After a lost answer another token is created; the lost one expires with its lifetime. */
const MAX_REQUESTS = 3;
/** How much shorter than requested a token may live, seconds: allows for the calls and for clocks. */
const SHORTER_SECONDS = 60;

/** Creates a token by the role. A refusal is final. After a lost answer, the next request creates another token. */
async function makeToken(primary: ClusterAccess, { role, policy, ttlMs }: BatchTokenRotationEntry) {
  const execution = currentExecution();
  const seconds = Math.ceil(ttlMs / 1000);
  // People create them once.
  const made = `Check that the policy and the role exist: \`${policyCommand(policy)}\`, \`${roleCommand(role, policy)}\`.`;
  for (let tries = 1; ; tries += 1) {
    execution.throwIfCancelled();
    try {
      const asked = { role, policies: [policy], ttl: `${seconds}s` };
      const options = { token: await primary.credential(), timeoutMs: CHANGE_TIMEOUT_MS };
      return (await primary.client.sys.createBatchToken(asked, options)).token;
    } catch (error) {
      if (!isRunbookError(error) || (error.outcomeKnown && !error.retryable) || tries === MAX_REQUESTS)
        throw isRunbookError(error, 'BAD_REQUEST') ? error.with({ next: `${made} ${error.next ?? ''}`.trim() }) : error;
      execution.progress(`${error.code}; requesting another token`);
    }
  }
}

/**
 * Asks the token about itself: it must be an orphan batch token with the requested lifetime and every right that is
 * needed.
 *
 * @throws RunbookError PRECONDITION_FAILED: the token is then not stored, and expires with its lifetime
 */
async function proveToken(
  primary: ClusterAccess,
  token: Secret<'batch-token'>,
  { role, policy, ttlMs }: BatchTokenRotationEntry,
  needed: readonly PolicyGrant[],
) {
  const { signal } = currentExecution();
  const cluster = primary.entry.name;
  const { sys } = primary.client;
  const { type, orphan, policies, expireTime, ttlSeconds = 0 } = await sys.lookupSelf({ token, signal });
  const paths = needed.map(({ path }) => path);
  const capabilities = await sys.capabilitiesSelf(paths, { token, signal });
  // A token of another type can be revoked.
  if (type !== 'batch') await sys.revokeSelf({ token, signal }).catch(orElse(signal, () => undefined));
  const asked = ttlMs / 1000;
  const rights = rightsIn(needed);
  const missing = missingRights({ capabilities }, rights);
  const correctRole = `Correct the role: \`${roleCommand(role, policy)}\`.`;
  const isOrphan = orphan === true;
  demand(
    [
      check('an orphan batch token', cluster, type === 'batch' && isOrphan, {
        observed: `${type ?? 'type not reported'}, ${isOrphan ? 'orphan' : 'not orphan'}`,
        needed: 'an orphan batch token',
        next: correctRole,
      }),
      check(
        'its policy',
        cluster,
        policies.includes(policy) && policies.every((each) => each === policy || each === 'default'),
        {
          observed: policies.join(', ') || 'no policy',
          needed: `policy ${policy} and no other`,
          next: correctRole,
        },
      ),
      check('its TTL', cluster, ttlSeconds >= Math.min(asked - SHORTER_SECONDS, asked * 0.9), {
        observed: `${ttlSeconds} s`,
        needed: `${asked} s`,
        next: `Raise max_lease_ttl of auth/token on ${cluster}, or lower the ttl.`,
      }),
      check('its rights', cluster, missing.length === 0, {
        observed: missing.map((path) => `${path}: ${rightsText({ capabilities }, path)}`).join('; '),
        needed: missing.map((path) => `${rights[path]?.join(', ')} on ${path}`).join('; '),
        next: `If the policy was not emptied on purpose, write it: \`${policyCommand(policy)}\``,
      }),
    ],
    'The new batch token was not stored, and expires at the end of its TTL; the previous one stays in use',
  );
  return {
    expiresAt: expireTime ?? new Date(Date.now() + ttlSeconds * 1000).toISOString(),
    ttlSeconds,
    capabilities,
  };
}

/** The rotation of the named DR set; if none is named, the only one. */
export function chooseSet(deployment: Deployment, named: string | undefined) {
  const sets = Object.entries(deployment.batchTokens);
  const [found] = named === undefined && sets.length === 1 ? sets : sets.filter(([set]) => set === named);
  if (found) return { drSet: found[0], entry: found[1] };
  const names = sets.map(([set]) => set).join(', ');
  return check('a DR set whose batch token is rotated', undefined, false, {
    observed: named ?? 'none named',
    needed: names === '' ? 'batchTokens in the inventory' : `drSet is one of ${names}`,
    next: 'See docs/runbooks/batch-token-rotation.md for the members of the inventory.',
  });
}

/** From version 2.0 the batch token also authorizes ceremony calls, unless every member has a credential for them. */
export function opensCeremonies(
  deployment: Deployment,
  drSet: string,
  observations: readonly Pick<ClusterObservation, 'cluster' | 'version'>[],
): boolean {
  const members = deployment.drSets.get(drSet) ?? [];
  return observations.some(
    ({ cluster, version }) =>
      members.includes(cluster) &&
      !isBeforeMajor(2, version) &&
      deployment.clusters.get(cluster)?.ceremonyCredential === undefined,
  );
}
