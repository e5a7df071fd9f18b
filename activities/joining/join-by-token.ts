import { setTimeout as delay } from 'node:timers/promises';
import { createHash } from 'node:crypto';
import type { Authority, ChangeResult, ExpectedFilter, OfKind, OnCluster } from '../../src/contracts/activities';
import type { ReplicationObservation } from '../../src/contracts/observations';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Secret } from '../../src/secret';
import type { ActivationToken, JoinParameters, SecondaryPublicKey } from '../../src/vault';
import type { OutsideSecondary, ReplicationKind } from '../../src/contracts/runbook-inputs';
import type { ClusterAccess } from '../clusters';
import { Deadline, readActConfirm, resultOf, withCredential, awaitState, beforeSending } from '../read-act-confirm';
import { currentExecution, onCluster } from '../execution';
import { writePathsFilter } from './filters';
import { readStatus, kindName, replicationOf } from '../observe';
import { CHANGE_TIMEOUT_MS } from '../timing';
import { openOperationToken, ANSWER_BUDGET_MS, awaitIdentityOf } from '../tokens/operation-token';
import { verifyBeginning } from '../approvals/authority';
import { describeFilter, requireFilter } from '../filters/paths-filters';
import { demandRole } from './following';
import { verifyJoining } from './repoint-authority';
import type { JoinTarget } from './join-target';

/** How long the primary may take until it can issue tokens, ms. */
const ISSUE_BUDGET_MS = 60_000;
/** No new try begins later than this after the activity first began: the rest must fit into its timeout, ms. */
const UNIT_BUDGET_MS = 5 * 60_000;
/** How often public key, activation token and call are tried before the step parks. */
const MAX_TRIES = 3;
/** Errors of a public key call that mean that no key is available this way. */
const NO_KEY: ReadonlySet<string> = new Set([
  'PERMISSION_DENIED',
  'BAD_REQUEST',
  'NOT_FOUND',
  'CREDENTIAL_UNAVAILABLE',
  'SERVICE_ERROR',
]);
/** Errors that mean that an activation token was not accepted. A token serves once, so another one is needed. */
const NOT_ACCEPTED: ReadonlySet<string> = new Set(['OUTCOME_UNKNOWN', 'CONFIRMATION_TIMEOUT', 'BAD_REQUEST']);

/** An activation token, and the node whose key it is encrypted to. */
type Activation = ActivationToken & { readonly keyNode: string | undefined };

export type TokenParameters = JoinParameters & { readonly token: Secret<'activation-token'> };

/** The call that uses an activation token, and how to see its effect. */
interface TokenUse<S> {
  /** `called`: whether this attempt sent a token. */
  readonly read: (called: boolean) => Promise<S>;
  readonly until: (state: S, called: boolean) => boolean;
  readonly describe: (state: S) => string;
  /** What a completed join reports; by default the result of `describe`. */
  readonly observed?: string;
  readonly needed: string;
  readonly budgetMs: number;
  readonly allow?: (state: S) => void;
  /** The last checks, right before the request: if they fail, nothing was sent. Returns the function that sends it. */
  readonly prepare: () => Promise<(parameters: TokenParameters) => Promise<unknown>>;
}

/**
 * Public key, activation token and the call that uses it, as one unit. The token never leaves this process. If an
 * attempt ends before the token was used, nobody has it, and the next attempt revokes its id and starts over. Because
 * the id is revoked here, the caller must have verified that no call of an earlier attempt is in flight.
 *
 * @param again - an earlier call may have dropped the paths filter, which is then written again before another call
 */
export async function joinByToken<S>(joining: JoinTarget, use: TokenUse<S>, again: boolean): Promise<ChangeResult> {
  const execution = currentExecution();
  const sent: { calls: number; calledAt?: number } = { calls: 0 };
  const endsAt = performance.now() + UNIT_BUDGET_MS - execution.spentMs;
  const { activationTokenMs } = execution.clusters.deployment(joining.input.deployment).limits;
  let revoked = '';
  for (let tries = 1; ; tries += 1) {
    await verifyJoining(joining, { begun: false });
    if (again || tries > 1) await writeFilterAgain(joining);
    const key = await generatePublicKey(joining);
    const ttl = `${Math.ceil(activationTokenMs / 1_000)}s`;
    const wanted = { id: joining.clusterId, ttl, secondaryPublicKey: key?.publicKey };
    const activation = await issueActivationToken(joining.source, joining.input.kind, wanted);
    if (activation.revoked) revoked = `; the id ${joining.clusterId} was revoked first`;
    const used = await useActivationToken(joining, use, { ...activation, keyNode: key?.node }, sent);
    if (typeof used !== 'string') return { ...used, observed: used.observed + revoked };
    if (tries === MAX_TRIES || performance.now() > endsAt) throw notAccepted(joining, tries, used);
    execution.progress(`${used}; retrying with a new public key and a new token`);
  }
}

const KEY_GONE = 'the private key of the activation is gone';

/** Only the node that made the key can read a token encrypted to it: it must still be the active node. */
async function demandPrivateKey({ target: { client, entry } }: JoinTarget, { form, keyNode }: Activation) {
  if (form === 'wrapped' || (await client.activeNode({ signal: currentExecution().signal })) === keyNode) return;
  throw new RunbookError('PRECONDITION_FAILED', `The active node of ${entry.name} changed.`, { observed: KEY_GONE });
}

/** Update-primary by token may drop the filter: it is restored before the secondary is let in again. */
async function writeFilterAgain({ input, clusterId: id }: JoinTarget): Promise<void> {
  const { deployment, kind, primary: cluster, secondary, authority } = input;
  const { filter = 'none' } = input.expected ?? {};
  if (kind === 'dr' || filter === 'none') return;
  await writePathsFilter({ deployment, cluster, secondary, id, filter, authority });
}

/** @returns `undefined` if the secondary makes no key and none is required: the token is then wrapped */
async function generatePublicKey(joining: JoinTarget): Promise<SecondaryPublicKey | undefined> {
  const { input, use, target, clusterId } = joining;
  const { form = 'auto', kind } = input;
  if (form === 'wrapped') return undefined;
  const execution = currentExecution();
  const generate = async (token?: Secret) => {
    const options = token ? { token, signal: execution.signal } : await withCredential(target, execution);
    return target.client[kind].secondary.generatePublicKey({ ...options, timeoutMs: CHANGE_TIMEOUT_MS });
  };
  // Which token the call takes on a demoted DR cluster differs by version (facts, points that only a real service
  // settles).
  const demoted = kind === 'dr' && use === 'update-primary';
  const tokens = [
    ...(demoted ? [await openOperationToken(target, clusterId, input.token, 'dr.update-primary')] : []),
    undefined,
  ];
  for (const token of tokens) {
    try {
      return await generate(token);
    } catch (error) {
      if (!isRunbookError(error) || !NO_KEY.has(error.code)) throw error;
      if (token === undefined && form === 'public-key') throw error;
    }
  }
  return undefined;
}

/**
 * Issues a token under an id: the cluster ID, if this program knows the cluster. An id that the primary already knows
 * belongs to a token that nobody has: it is revoked first, so that no usable token is left behind. The id of a
 * connected cluster is never revoked.
 *
 * @returns the token, and whether its id was revoked first
 * @throws RunbookError PRECONDITION_FAILED if a connected cluster has the id
 */
async function issueActivationToken(
  source: ClusterAccess,
  kind: ReplicationKind,
  parameters: { readonly id: string; readonly ttl: string; readonly secondaryPublicKey?: string | undefined },
) {
  const { id } = parameters;
  const execution = currentExecution();
  const { primary } = source.client[kind];
  let revoked = false;
  const deadline = new Deadline(ISSUE_BUDGET_MS, undefined, execution.spentMs);
  for (;;) {
    try {
      return await deadline.poll(async () => {
        const state = await readPrimary(source, kind);
        refuseConnected(id, source.entry.name, state);
        const options = await withCredential(source, execution);
        // An abandoned attempt must not revoke the id that its replacement has used.
        await execution.assertCurrentAttempt();
        if (state.knownSecondaries?.includes(id)) {
          revoked = true;
          await primary.revokeSecondary({ id }, options);
        }
        await execution.assertCurrentAttempt();
        return { ...(await primary.secondaryToken(parameters, options)), revoked };
      });
    } catch (error) {
      // 412 and 500 are normal for some seconds after a promotion; the next turn reads the effect of a lost answer.
      if (!isRunbookError(error) || (!error.retryable && error.outcomeKnown)) throw error;
      if (deadline.isOver) throw notIssued(source.entry.name, deadline, error);
      execution.progress(`${error.code}; retrying until the budget ends`);
      await delay(Math.min(error.retryAfterMs ?? 500, 5_000), undefined, { signal: execution.signal });
    }
  }
}

/**
 * Uses an activation token once. Addresses are sent with a wrapped token only.
 *
 * @returns why the token was not accepted, if that is proven
 */
async function useActivationToken<S>(
  joining: JoinTarget,
  { read, until, prepare, observed, ...use }: TokenUse<S>,
  activation: Activation,
  sent: { calls: number; calledAt?: number },
): Promise<ChangeResult | string> {
  const { source, target } = joining;
  const { token, form } = activation;
  const execution = currentExecution();
  const { apiAddressForPeers: primaryApiAddr, caFileOnPeers: caFile, caPathOnPeers: caPath } = source.entry;
  const cluster = target.entry.name;
  try {
    const changed = await readActConfirm(execution, {
      ...use,
      cluster,
      servesOnce: true,
      read: () => read(sent.calls > 0),
      until: (state) => until(state, sent.calls > 0),
      prepare: async () => {
        const send = await prepare();
        await demandPrivateKey(joining, activation);
        return () => {
          sent.calls += 1;
          sent.calledAt ??= Date.now();
          return send(form === 'wrapped' ? { token, primaryApiAddr, caFile, caPath } : { token });
        };
      },
    });
    return resultOf({ outcome: changed.outcome, ...sent }, observed ?? use.describe(changed.state));
  } catch (error) {
    if (isRunbookError(error) && error.observed === KEY_GONE)
      return `the active node of ${cluster} changed: ${KEY_GONE}`;
    // While the call may be in flight, another token would revoke its id, and the secondary would follow no primary.
    if (isRunbookError(error) && NOT_ACCEPTED.has(error.code) && sent.calls > 0 && !execution.doubt.mayHaveSent)
      return `${cluster} did not accept the activation token (${error.code})`;
    throw isRunbookError(error) ? error.with({ findings: [...error.findings, notSeenUsed(joining)] }) : error;
  }
}

/** Status of the primary, which must be one. */
export async function readPrimary(source: ClusterAccess, kind: ReplicationKind): Promise<ReplicationObservation> {
  const state = await readStatus(source, kind, currentExecution().signal);
  demandRole(source.entry.name, kind, 'primary', state);
  return state;
}

function refuseConnected(id: string, cluster: string, { peers }: ReplicationObservation): void {
  if (!peers.some((peer) => peer.id === id && peer.connected)) return;
  throw new RunbookError('PRECONDITION_FAILED', `A secondary with the id ${id} is connected to ${cluster} now.`, {
    cluster,
    observed: `${id} connected`,
    needed: 'an id that no connected secondary has: revoking it would cut that secondary off',
    next: `Compare the status of ${cluster} with that of the secondary. If the secondary follows, retry. If another cluster has this id, revoke it manually first.`,
  });
}

function notIssued(cluster: string, deadline: Deadline, error: RunbookError): RunbookError {
  const message = `${cluster} issued no activation token within ${deadline.durationText}: ${error.message}`;
  return new RunbookError(error.code, message, {
    retryable: false,
    cluster,
    httpStatus: error.httpStatus,
    observed: error.code,
    needed: 'an activation token',
    next: `Check ${cluster}, then retry: an id whose token is lost is revoked first.`,
  });
}

function notAccepted(joining: JoinTarget, tries: number, why: string): RunbookError {
  const { name } = joining.target.entry;
  return new RunbookError('STATE_DIVERGED', `${tries} activation tokens in a row could not be used: ${why}.`, {
    cluster: name,
    observed: why,
    needed: 'an active node that stays active and accepts the token',
    next: `Find out why ${name} does not accept it, then retry: the id of an unused token is revoked first.`,
    findings: [notSeenUsed(joining)],
  });
}

function notSeenUsed({ source, target, clusterId }: JoinTarget): Finding {
  const [primary, { name }] = [source.entry.name, target.entry];
  return {
    severity: 'warning',
    code: 'activation-token-unused',
    text: `An attempt to join ${name} failed after ${primary} issued an activation token (id ${clusterId}). The token has not been confirmed as used, and nobody has it.`,
    next: `If a later attempt succeeded, nothing is left to do: it revoked that token first. If none did, revoke the id on ${primary} with revoke-secondary, unless ${name} follows ${primary}.`,
  };
}

/* A secondary of another team: this program reaches only the primary, and hands over what only that team can use. */

/** The fingerprint that people compare with the other team: SHA-256 of the public key as written, hex, in groups. */
export function publicKeyPrint({ publicKey }: OutsideSecondary): string {
  const digest = createHash('sha256').update(publicKey).digest('hex');
  return (digest.match(/.{8}/g) ?? []).join(' ');
}

/** What a plan that issues the token allows: only this id and key, this lifetime, and this filter. */
export function outsideDetail(outside: OutsideSecondary, expected: ExpectedFilter | undefined): string {
  const filter = expected === undefined ? '' : `; ${describeFilter(expected.filter)}`;
  return `${outside.id} for ${outside.ttl}; public key SHA-256 ${publicKeyPrint(outside)}${filter}`;
}

type OutsideInput = OnCluster & OfKind & { readonly outside: OutsideSecondary };

/**
 * Issues an activation token that is encrypted to the public key of the other team, so anybody may see it. A token that
 * is not encrypted never leaves this process, and its id is revoked.
 */
export async function issueOutsideToken(
  input: OutsideInput & { readonly authority: Authority; readonly expected?: ExpectedFilter | undefined },
): Promise<ChangeResult & { readonly encryptedToken: string }> {
  const { kind, cluster, outside, expected } = input;
  const { execution, signal, access: source } = onCluster(input);
  const on = await awaitIdentityOf(source, ANSWER_BUDGET_MS);
  await beforeSending(async () => {
    const operation = { kind, endpoint: 'primary/secondary-token', gate: 'wipe' } as const;
    await verifyBeginning(input, { ...operation, on, detail: outsideDetail(outside, expected) });
    if (expected) await requireFilter(source, outside.id, outside.id, expected, signal);
  });
  const { id, ttl, publicKey: secondaryPublicKey } = outside;
  const calledAt = Date.now();
  const { token, form } = await issueActivationToken(source, kind, { id, ttl, secondaryPublicKey });
  if (form !== 'encrypted') {
    const options = await withCredential(source, execution);
    const revoked = await source.client[kind].primary.revokeSecondary({ id }, options).then(
      () => 'its id was revoked',
      () => 'its id could not be revoked',
    );
    throw new RunbookError('RESPONSE_INVALID', `${cluster} did not encrypt the activation token for ${id}.`, {
      cluster,
      retryable: false,
      observed: `a wrapped token, which anybody could use; ${revoked}`,
      needed: 'a token that is encrypted to the public key of the other team',
      next: `Verify that ${cluster} does not list ${id}. Ask the other team for another public key, and start again.`,
    });
  }
  const observed = `${kindName(kind)} activation token for ${id}, encrypted to its public key; it expires after ${ttl}`;
  return { ...resultOf({ outcome: 'done', calls: 1, calledAt }, observed), encryptedToken: token.reveal() };
}

/** Waits until the primary is connected to the secondary of the other team. */
export async function awaitOutsideSecondary(input: OutsideInput) {
  const { kind, cluster, outside } = input;
  const { execution, signal, limits, access } = onCluster(input);
  const { id, ttl } = outside;
  const lifeMs = Number.parseInt(ttl, 10) * (ttl.endsWith('h') ? 3_600_000 : 60_000);
  const seen = await awaitState(execution, {
    ...replicationOf(access, kind, signal),
    until: ({ peers }) => peers.some((peer) => peer.id === id && peer.connected),
    budgetMs: lifeMs + limits.streamingMs,
    describe: ({ peers }) =>
      `connected: ${peers.flatMap((each) => (each.connected ? [each.id] : [])).join(', ') || 'none'}`,
    needed: `${id} is connected to ${cluster}`,
    pollMs: execution.timing.pollMs * 3,
  });
  return { observed: `${cluster} is connected to ${id} (${seen.peers.length} secondaries in total)` };
}
