import type { KeptToken } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { TokenSource, TokenSourceChoice } from '../../src/contracts/runbook-inputs';
import { orElse } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import type { GeneratedTokenKind } from '../../src/vault';
import type { CeremonyWay } from './ceremony-access';
import { breakGlassWarnings, ceremonyCallsAllowed, judgeCeremonyWay } from './ceremony-access';
import { judgeRoster, providersNow } from './ceremony';
import { cancelCommand } from './generation-slot';
import type { ClusterAccess } from '../clusters';
import { provenBefore, acceptedBy } from '../tokens/batch-token-proof';
import { keptTokenFor } from '../tokens/kept-tokens';
import { readBatchToken } from '../tokens/operation-token';
import { isBeforeMajor } from '../checks/versions';
import { asWarning, check, notCheckable } from '../checks/check';
import type { CredentialFacts } from '../checks/credentials';
import { CREDENTIAL_LIFE_SECONDS, credentialFacts, missingRights, rightsText } from '../checks/credentials';
import { ATTEMPT } from '../checks/rights';

/** What authorizes the calls of a ceremony, without the token itself. */
type CeremonyEntry = Pick<CeremonyWay, 'access' | 'from'>;

interface TokenQuestion {
  readonly deployment: Deployment;
  /** The DR secondary on which the token is used. */
  readonly secondary: ClusterAccess;
  readonly observation: ClusterObservation;
  /** Where the prepared batch token can be looked up; undefined while no primary answers. */
  readonly primary: ClusterAccess | undefined;
  readonly wanted: TokenSourceChoice | undefined;
  /** Paths on which the token needs `update`, such as `sys/replication/dr/secondary/promote`. */
  readonly paths: readonly string[];
  /** The fingerprint of this run's own ceremony, whose attempt is ours. */
  readonly ownFingerprint: string | undefined;
  readonly signal: AbortSignal;
  /** Whether the run may use a token that the record keeps. */
  readonly takesKept: boolean;
  /** Clusters whose key holders may be asked later in the run. */
  readonly others: readonly ClusterObservation[];
}

/** Where the token for a DR operation comes from, whether that source is ready, and what the plan says about it. */
export interface TokenAssessment {
  readonly source: TokenSource;
  readonly checks: readonly Check[];
  /** The same at each read, as a plan must be. */
  readonly warnings: readonly string[];
  readonly kept?: KeptToken;
}

/** Reads each source that may be chosen, and chooses one: `auto` uses a batch token that is proven, otherwise a ceremony. */
export async function assessTokenSource(question: TokenQuestion): Promise<TokenAssessment> {
  const { deployment, secondary, observation, ownFingerprint, signal, takesKept, others } = question;
  const { cluster, version } = observation;
  const wanted = question.wanted ?? deployment.ceremony.tokenSource;
  const batch = wanted === 'auto' || wanted === 'batch' ? await assessBatchToken(question) : undefined;
  const source = wanted === 'auto' ? (batch?.isReady ? 'batch' : 'ceremony') : wanted;
  if (source === 'batch') return { source, checks: batch?.checks ?? [], warnings: batch?.warnings ?? [] };
  if (source === 'provided') {
    const holders = providersNow(deployment);
    const somebody = check('people who may provide tokens', cluster, holders.length > 0, {
      observed: holders.join(', ') || 'nobody',
      needed: 'at least one',
      next: 'List them in ceremony.tokenProviders of the inventory.',
    });
    const warning = `People generate an operation token of ${cluster} outside this run, and one of ${holders.join(', ')} provides it. The run verifies it with a Merkle check (slow on a large store), uses it and deletes it.`;
    return { source, checks: [somebody], warnings: [warning] };
  }
  const entry = await ceremonyEntryOf(secondary, observation, signal);
  const checks = [
    freeSlot(observation, ownFingerprint),
    enoughHolders(observation, deployment),
    ceremonyCallsAllowed(cluster, 'operation-token', version, entry),
  ];
  const { kept, why } = takesKept
    ? await keptTokenFor(deployment.name, observation, question.paths, deployment.ceremony.batchMarginMs)
    : {};
  const warnings = [
    ...breakGlassWarnings('operation-token', [observation, ...others]),
    ...(batch && secondary.entry.batchToken !== undefined ? [batch.unused] : []),
    ...(why === undefined ? [] : [why]),
    ...(kept ? [kept.text] : []),
  ];
  // If a token is available, none of these checks stops the run.
  return { source, kept, warnings, checks: kept ? checks.map((each) => asWarning(each)) : checks };
}

/**
 * What is known about the prepared batch token: from the primary that looks it up, or from its last proof in the record.
 *
 * @returns `isReady` if it was looked up and every check holds; `unused` is what the plan says if the holders are asked
 *   instead
 */
async function assessBatchToken(question: TokenQuestion) {
  const { deployment, secondary, observation, primary, paths, signal } = question;
  const { cluster } = observation;
  const notUsed = (why: string, ...checks: readonly Check[]) => {
    const unused = `The batch token of ${cluster} is not used: ${why}.`;
    return { isReady: false, checks, warnings: [] as readonly string[], unused };
  };
  if (secondary.batchTokenIsElsewhere) return notUsed(ELSEWHERE, batchTokenElsewhere(cluster));
  const known = primary
    ? { facts: await credentialFacts(primary, () => readBatchToken(secondary), [...paths, ATTEMPT], signal) }
    : await provenBefore(deployment.name, secondary);
  const facts = 'facts' in known ? known.facts : undefined;
  const taken = await batchTokenTaken(secondary, observation, facts, signal);
  if (!facts) {
    const why = 'why' in known ? known.why : '';
    const observed = `no primary answers to look it up; ${why}`;
    const needed = 'an orphan batch token that the former primary issued';
    return notUsed(why, notCheckable('batch token', cluster, { observed, needed }), taken);
  }
  const checks = [...batchTokenReady(facts, cluster, deployment, paths), taken];
  const bad = checks.filter(({ verdict }) => verdict === 'fail').map(({ name }) => name);
  const unasked = (proven: string) =>
    `No key shares are needed: the batch token of ${cluster} was ${proven}. No primary can look it up now.`;
  const warnings = 'told' in known ? [unasked(known.told)] : [];
  return { ...notUsed(`${bad.join(', ')} does not hold`, ...checks), isReady: bad.length === 0, warnings };
}

const ELSEWHERE = 'it is in the record, which is not read from here';

/** If neither the record nor the seal keys are available here: that is no fault of the token. */
export function batchTokenElsewhere(cluster: string, name = 'batch token'): Check {
  return notCheckable(name, cluster, {
    observed: ELSEWHERE,
    needed: 'a check by a worker: run `runbook readiness DEPLOYMENT`',
  });
}

export const FREE_SLOT = 'generation slot free';

/** The single slot of generation attempts must be free, or hold our own attempt. */
export function freeSlot(
  { cluster, attempt }: ClusterObservation,
  ownFingerprint: string | undefined,
  kind: GeneratedTokenKind = 'operation-token',
): Check {
  if (!attempt) return notCheckable(FREE_SLOT, cluster, { observed: 'not readable', needed: 'free' });
  // An attempt with a one-time password has no fingerprint: it is never ours.
  const own = ownFingerprint !== undefined && attempt.fingerprint === ownFingerprint;
  const whose = own ? "this run's" : "somebody else's";
  const key = attempt.fingerprint ? `key ${attempt.fingerprint}` : 'a one-time password';
  return check(FREE_SLOT, cluster, !attempt.started || own, {
    observed: attempt.started
      ? `${whose} attempt with ${key}, progress ${attempt.progress} of ${attempt.required}`
      : 'free',
    needed: 'free',
    next: `Ask its owner to finish or cancel it. If nobody claims it, run \`${cancelCommand(kind)}\` on ${cluster}, then start again.`,
  });
}

/** At least as many holders as the service requires key shares. */
export function enoughHolders(
  { cluster, attempt }: Pick<ClusterObservation, 'cluster'> & { readonly attempt?: { readonly required: number } },
  deployment: Deployment,
): Check {
  const { good, observed, needed, next } = judgeRoster(deployment, attempt?.required);
  const name = 'enough key holders';
  if (attempt === undefined)
    return notCheckable(name, cluster, { observed: `${observed}, threshold not readable`, needed });
  return check(name, cluster, good, { observed, needed, next });
}

/** A batch token must be an orphan of the primary, outlive the run by the margin, and have the needed rights. */
export function batchTokenReady(
  batch: CredentialFacts,
  cluster: string,
  deployment: Deployment,
  paths: readonly string[],
): Check[] {
  const margin = Math.max(deployment.ceremony.batchMarginMs / 1000, CREDENTIAL_LIFE_SECONDS);
  const { usable, type, orphan, ttlSeconds, error } = batch;
  const last = (path: string) => path.split('/').at(-1) ?? path;
  return [
    check('batch token', cluster, usable && type === 'batch' && orphan === true, {
      observed: usable
        ? `${type ?? 'type not reported'}, ${orphan ? 'orphan' : 'not orphan'}`
        : (error ?? 'not usable'),
      needed: 'an orphan batch token that the primary accepts',
      next: 'Create one on the primary, or start with {"tokenSource": "ceremony"}.',
    }),
    check('batch token lives long enough', cluster, usable && (ttlSeconds ?? Infinity) >= margin, {
      observed: ttlSeconds === undefined ? 'no expiry' : `${ttlSeconds} s left`,
      needed: `at least ${margin} s`,
      next: 'Create a new one on the primary.',
    }),
    check(
      `batch token may ${paths.map(last).join(' and ')}`,
      cluster,
      missingRights(batch, Object.fromEntries(paths.map((path) => [path, ['update']]))).length === 0,
      {
        observed: paths.map((path) => `${path}: ${rightsText(batch, path)}`).join('; '),
        needed: `update on ${paths.length === 1 ? 'it' : 'each'}`,
        next: 'Correct its policy; deleting or emptying the policy removes every right.',
      },
    ),
  ];
}

/** Whether the DR secondary itself accepts the token. A refusal counts only if the token may read the generation slot. */
async function batchTokenTaken(
  secondary: ClusterAccess,
  observation: ClusterObservation,
  batch: CredentialFacts | undefined,
  signal: AbortSignal,
): Promise<Check> {
  const { cluster, version } = observation;
  const name = 'batch token accepted by the secondary';
  const needed = 'the secondary accepts it before anything is changed';
  const taken =
    secondary.entry.batchToken === undefined
      ? 'not-checkable'
      : await readBatchToken(secondary).then(
          (token) => acceptedBy(secondary, observation, token, signal),
          orElse(signal, () => 'not-checkable'),
        );
  if (taken === 'taken')
    return check(name, cluster, true, { observed: 'the generation slot was read with it', needed });
  const mayRead = batch?.usable === true && missingRights(batch, { [ATTEMPT]: ['read'] }).length === 0;
  if (taken === 'refused' && mayRead) {
    const observed = 'refused, although the primary reports that it may read the generation slot';
    const next = `Make sure that ${cluster} streams from the primary that issued the token, then start batchTokenRotation.`;
    return check(name, cluster, false, { observed, needed, next });
  }
  const why = isBeforeMajor(2, version)
    ? `before version 2.0 a DR secondary has no read-only call that a batch token authorizes`
    : taken === 'refused'
      ? 'its policy does not let it read the generation slot'
      : version === undefined
        ? `${cluster} does not report its version, and before 2.0 everybody may read the generation slot`
        : `${cluster} could not be asked`;
  return notCheckable(name, cluster, { observed: `not checkable: ${why}`, needed });
}

/** What authorizes the ceremony calls of a cluster. If that cannot be determined, they count as refused. */
export async function ceremonyEntryOf(
  secondary: ClusterAccess,
  { version }: Pick<ClusterObservation, 'version'>,
  signal: AbortSignal,
  kind: 'operation-token' | 'root-token' = 'operation-token',
): Promise<CeremonyEntry> {
  return judgeCeremonyWay(secondary, { kind, version, signal }).then(
    ({ access, from }) => ({ access, from }),
    orElse(signal, () => ({ access: 'refused' })),
  );
}
