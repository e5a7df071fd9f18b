import type { ClusterObservation } from '../../src/contracts/observations';
import type { Precondition } from '../../src/contracts/plan';
import type { Deployment } from '../../src/inventory';
import { judgeRoster } from '../ceremony/ceremony-roster';
import type { CredentialFacts } from './switchover-facts';
import { ATTEMPT, DEMOTE, PROMOTE, SECONDARY_TOKEN, UPDATE_PRIMARY } from './switchover-facts';
import { ceremonyCallsAllowed } from '../ceremony/ceremony-access';
import type { Rule } from './switchover-rule';
import { check } from './switchover-rule';
import { providedPreconditions, providedWayBack } from './provided-rules';
import { majorVersion } from './versions';

/** Seconds for which a credential must live on: at least twice what a switchover may take. */
const CREDENTIAL_LIFE_SECONDS = 1_800;

/** The single slot of generation attempts must be free, or hold our own attempt. */
export const freeSlot: Rule = ({ to, tokenSource, ownFingerprint }) =>
  tokenSource !== 'ceremony' ? [] : freeSlotOn(to, ownFingerprint);

export function freeSlotOn({ cluster, attempt }: ClusterObservation, ownFingerprint: string | undefined): Precondition {
  if (!attempt)
    return {
      name: 'generation slot free',
      cluster,
      observed: 'not readable',
      needed: 'free',
      verdict: 'not-checkable',
    };
  // An attempt with a one-time password has no fingerprint: it is nobody's of ours.
  const own = ownFingerprint !== undefined && attempt.fingerprint === ownFingerprint;
  const foreign = attempt.started && !own;
  return check(
    'generation slot free',
    cluster,
    !foreign,
    attempt.started
      ? `an attempt${foreign ? ' of somebody else' : ' of this run'}, progress ${attempt.progress} of ${attempt.required}`
      : 'free',
    'free',
    'Let its owner finish or cancel it.',
  );
}

/** As many holders as the service requires key shares. */
export function holdersSuffice({ cluster, attempt }: ClusterObservation, deployment: Deployment): Precondition {
  const { good, observed, needed, next } = judgeRoster(deployment, attempt?.required);
  if (attempt === undefined) {
    return {
      name: 'enough key holders',
      cluster,
      observed: `${observed}, threshold not readable`,
      needed,
      verdict: 'not-checkable',
    };
  }
  return check('enough key holders', cluster, good, observed, needed, next);
}

/** The primary's credential: alive long enough, and with the rights that the switchover needs. */
export const credential: Rule = ({ from, deployment, facts }) => {
  const { usable, error, ttlSeconds, capabilities } = facts.credential;
  const may = (path: string, ...needed: string[]) =>
    needed.some((right) => capabilities[path]?.includes(right)) || capabilities[path]?.includes('root') === true;
  const life = ttlSeconds === undefined ? 'no end' : `${ttlSeconds} s left`;
  if (!usable)
    return check(
      'credential of the primary',
      from.cluster,
      false,
      error ?? 'not usable',
      'a token that the primary accepts',
      `Renew the credential of ${from.cluster} at its source.`,
    );
  return [
    check(
      'credential lives long enough',
      from.cluster,
      ttlSeconds === undefined || ttlSeconds >= CREDENTIAL_LIFE_SECONDS,
      life,
      `at least ${CREDENTIAL_LIFE_SECONDS} s`,
      `Renew the credential of ${from.cluster} at its source.`,
    ),
    check(
      'credential may demote',
      from.cluster,
      may(DEMOTE, 'update'),
      (capabilities[DEMOTE] ?? []).join(', ') || 'none',
      'update',
      `Give the policy "update" on ${DEMOTE}.`,
    ),
    check(
      'credential may issue activation tokens',
      from.cluster,
      may(SECONDARY_TOKEN, 'sudo'),
      (capabilities[SECONDARY_TOKEN] ?? []).join(', ') || 'none',
      'update and sudo',
      `Give the policy "update" and "sudo" on ${SECONDARY_TOKEN}.`,
    ),
    check(
      'credential may write the marker',
      from.cluster,
      may(deployment.marker.path, 'update', 'create'),
      (capabilities[deployment.marker.path] ?? []).join(', ') || 'none',
      'create or update',
      `Give the policy "create" and "update" on ${deployment.marker.path} and ${deployment.marker.path}-after.`,
    ),
  ];
};

/** Where the operation tokens come from must be ready before the outage, for the way there and the way back. */
export const tokenSource: Rule = ({ to, from, deployment, facts, tokenSource: source }) => {
  if (source === 'batch')
    return [
      ...batchTokenReady(facts.batchToken, to.cluster, deployment, [PROMOTE, UPDATE_PRIMARY]),
      batchTokenTaken(facts.batchToken, to, facts.batchOnSecondary ?? 'not-checkable'),
    ];
  if (source === 'provided') {
    const proven = providedPreconditions(deployment, to);
    // Inside the outage it would be too late to find out.
    return [
      ...proven.map((each) => (each.verdict === 'warn' ? { ...each, verdict: 'fail' as const } : each)),
      providedWayBack(from),
    ];
  }
  const others = facts.otherCeremonies ?? [];
  return [
    holdersSuffice(to, deployment),
    ceremonyCallsAllowed(to.cluster, 'operation-token', to.version, {
      access: facts.ceremonyAccess,
      ...(facts.ceremonyFrom === undefined ? {} : { from: facts.ceremonyFrom }),
    }),
    ...others.map(({ cluster, version, ...way }) => ceremonyCallsAllowed(cluster, 'operation-token', version, way)),
    wayBack(from),
  ];
};

function wayBack(from: ClusterObservation): Precondition {
  return {
    name: 'exit: a token for the way back',
    cluster: from.cluster,
    observed:
      majorVersion(from.version) < 2
        ? 'the same key shares serve it after its demotion'
        : `the same key shares serve it after its demotion; its ceremony calls then need a credential that a DR secondary accepts (version ${from.version ?? 'not told'}), or a break-glass`,
    needed: 'an operation token on the old primary',
    verdict: 'not-checkable',
  };
}

/** A batch token must be an orphan of the primary, outlive the run by the margin, and have the rights that are needed. */
export function batchTokenReady(
  batch: CredentialFacts,
  cluster: string,
  deployment: Deployment,
  paths: readonly string[],
): Precondition[] {
  const margin = Math.max(deployment.ceremony.batchMarginMs / 1000, CREDENTIAL_LIFE_SECONDS);
  const may = (path: string) =>
    batch.capabilities[path]?.some((right) => right === 'update' || right === 'root') === true;
  const last = (path: string) => path.split('/').at(-1) ?? path;
  return [
    check(
      'batch token',
      cluster,
      batch.usable && batch.type === 'batch' && batch.orphan === true,
      batch.usable
        ? `${batch.type ?? 'type not told'}, ${batch.orphan ? 'orphan' : 'not orphan'}`
        : (batch.error ?? 'not usable'),
      'an orphan batch token that the primary knows',
      'Make one on the primary, or start with {"tokenSource": "ceremony"}.',
    ),
    check(
      'batch token lives long enough',
      cluster,
      batch.usable && (batch.ttlSeconds ?? Infinity) >= margin,
      batch.ttlSeconds === undefined ? 'no end' : `${batch.ttlSeconds} s left`,
      `at least ${margin} s`,
      'Make a new one on the primary.',
    ),
    check(
      `batch token may ${paths.map(last).join(' and ')}`,
      cluster,
      paths.every(may),
      paths.map((path) => `${path}: ${(batch.capabilities[path] ?? []).join(', ') || 'none'}`).join('; '),
      `update on ${paths.length === 1 ? 'it' : 'each'}`,
      'Correct its policy; deleting or emptying the policy takes every right away.',
    ),
  ];
}

/**
 * Whether the DR secondary itself takes the token, which the primary cannot tell. A refusal counts only where the token
 * has the right to read the generation slot.
 */
export function batchTokenTaken(
  { usable, capabilities }: CredentialFacts,
  { cluster, version }: Pick<ClusterObservation, 'cluster' | 'version'>,
  taken: 'taken' | 'refused' | 'not-checkable',
): Precondition {
  const mayRead = capabilities[ATTEMPT]?.some((right) => right === 'read' || right === 'root') === true;
  const name = 'batch token taken by the secondary';
  const needed = 'the secondary takes it before anything is changed';
  if (taken === 'taken') return check(name, cluster, true, 'it reads the generation slot with it', needed);
  if (taken === 'refused' && usable && mayRead)
    return check(
      name,
      cluster,
      false,
      'refused, although the primary says that it may read the generation slot',
      needed,
      `See that ${cluster} streams from the primary that made the token; then start batchTokenRotation.`,
    );
  const why =
    majorVersion(version) < 2
      ? `before version 2.0 a DR secondary serves nothing that a batch token opens without doing something`
      : 'its policy does not let it read the generation slot';
  return { name, cluster, observed: `not checkable: ${why}`, needed, verdict: 'not-checkable' };
}
