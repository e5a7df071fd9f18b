import { createHash } from 'node:crypto';
import type { Authority, ChangeResult, ExpectedFilter, OfKind, OnCluster } from '../../src/contracts/activities';
import type { OutsideSecondary } from '../../src/contracts/runbook-inputs';
import { RunbookError } from '../../src/errors';
import { verifyBeginning } from '../approvals/authority';
import { onCluster } from '../execution';
import { describeFilter, requireFilter } from '../filters/paths-filters';
import { awaitState, beforeSending, resultOf, withCredential } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitNamed } from '../tokens/operation-token';
import { issueActivationToken } from './join-by-token';
import { kindName, replicationOf } from '../observe';

/* A secondary of another team: this program reaches its primary alone, and hands over what only that team can use. */

/** What people compare with the other team: SHA-256 of the public key as it is written, hexadecimal, in groups. */
export function publicKeyPrint({ publicKey }: OutsideSecondary): string {
  const digest = createHash('sha256').update(publicKey).digest('hex');
  return (digest.match(/.{8}/g) ?? []).join(' ');
}

/** What a plan allows that issues the token: for this id and key alone, for so long, with this filter. */
export function outsideDetail(outside: OutsideSecondary, expected: ExpectedFilter | undefined): string {
  const filter = expected === undefined ? '' : `; ${describeFilter(expected.filter)}`;
  return `${outside.id} for ${outside.ttl}; public key SHA-256 ${publicKeyPrint(outside)}${filter}`;
}

type OutsideInput = OnCluster & OfKind & { readonly outside: OutsideSecondary };

/**
 * Issues an activation token that is encrypted to the public key of the other team: it may be read by everybody. One that is
 * not encrypted never leaves, and its id is revoked.
 */
export async function issueOutsideToken(
  input: OutsideInput & { readonly authority: Authority; readonly expected?: ExpectedFilter | undefined },
): Promise<ChangeResult & { readonly encryptedToken: string }> {
  const { kind, cluster, outside, expected } = input;
  const { execution, signal, access: source } = onCluster(input);
  const on = await awaitNamed(source, ANSWER_BUDGET_MS);
  await beforeSending(async () => {
    const operation = `${kind}.primary.secondary-token` as const;
    const doing = { operation, on, detail: outsideDetail(outside, expected) };
    await verifyBeginning(input, doing);
    if (expected) await requireFilter(source, outside.id, outside.id, expected, signal);
  });
  const { id, ttl, publicKey: secondaryPublicKey } = outside;
  const calledAt = Date.now();
  const issuing = { input: { kind }, source };
  const { token, form } = await issueActivationToken(issuing, { id, ttl, secondaryPublicKey }, () => undefined);
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
      next: `See that ${cluster} does not know ${id}. Ask the other team for another public key, and start again.`,
    });
  }
  const observed = `${kindName(kind)} activation token for ${id}, encrypted to its public key; void after ${ttl}`;
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
      `connected: ${peers.flatMap((each) => (each.connected ? [each.id] : [])).join(', ') || 'nobody'}`,
    needed: `${id} is connected to ${cluster}`,
    pollMs: 1_000,
  });
  return { at: Date.now(), observed: `${cluster} is connected to ${id} (${seen.peers.length} secondaries in all)` };
}
