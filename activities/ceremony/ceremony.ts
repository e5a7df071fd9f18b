import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { CeremonyHandle, CeremonyTarget } from '../../src/contracts/ceremony';
import { keepForMs } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { rosterOf } from '../../src/inventory';
import type { CreatedInvitation, InvitationTarget, RecipientKey } from '../../src/keys';
import { createInvitation, readRecipientKey } from '../../src/keys';
import type { GeneratedTokenKind } from '../../src/vault';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { observeSeal } from '../observe';
import { readIdentity } from '../tokens/operation-token';
import { ceremonyToken, endpointsOf } from './ceremony-access';

/** Makes keys and the signed invitation of one epoch: of operation tokens, or of a root token for its recipient. */
export async function createCeremony(input: {
  readonly deployment: string;
  /** An operation token where it is not said. */
  readonly kind?: 'operation-token' | 'root-token';
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  readonly targets: readonly CeremonyTarget[];
  readonly epoch: number;
  readonly cid: string;
  readonly inputDigest: string;
  /** Operation tokens that people generated themselves; key shares where it is not given. */
  readonly collects?: 'tokens';
  /** To whom the token is encrypted, where it is for a person: a root token always is. */
  readonly recipientPgpKey?: string | undefined;
  /** How long the record keeps the token for a later run. */
  readonly keepFor?: string | undefined;
}): Promise<CeremonyHandle> {
  const { run, signal, clusters, keyRecords, signingKey } = currentExecution();
  const { kind = 'operation-token', reason, runbook, inputDigest, epoch, cid, collects, recipientPgpKey } = input;
  const deployment = clusters.deployment(input.deployment);
  const forPerson = kind === 'root-token' || recipientPgpKey !== undefined;
  const recipient = forPerson ? await usableRecipient(recipientPgpKey ?? '') : undefined;
  const keepMs = input.keepFor === undefined ? undefined : keepForMs(input.keepFor);
  if (input.keepFor !== undefined && keepMs === undefined)
    throw new RunbookError('INVALID_INPUT', 'A token is kept for 7 days at most.');
  const seen = await Promise.all(
    input.targets.map(async ({ cluster, uses }) => {
      const access = clusters.of(input.deployment, cluster);
      const [{ clusterId, version }, seal, caSha256] = await Promise.all([
        readIdentity(access, signal),
        observeSeal(access, signal),
        fileDigest(access.entry.caFile),
      ]);
      const target: InvitationTarget = {
        ...{ cluster, clusterId, addresses: [...access.entry.addresses], caSha256 },
        uses: kind === 'root-token' ? ['root-token.generate'] : [...uses],
        ...(seal?.recovery === true && { recovery: true }),
      };
      return { target, access, version, seal };
    }),
  );
  const [first] = seen;
  if (!first) throw new RunbookError('INVALID_INPUT', 'A ceremony needs a target.');
  const targets = seen.map(({ target }) => target);
  const tokens = collects === 'tokens';
  const required = tokens ? 1 : await readThreshold(first, kind, signal);
  const { collectForMs, useForMs } = deployment.ceremony;
  const created = await createInvitation(keyRecords, signingKey, run, 'ceremony', {
    ...{ kind, targets, reason, runbook, inputDigest, epoch, cid, collects, collectForMs, useForMs },
    requestedBy: { name: input.requestedBy, how: 'claimed' },
    ...(tokens ? { holders: providersNow(deployment) } : invitedNow(deployment)),
    threshold: required,
    ...(recipient && { pgp: recipient.fingerprint }),
    ...(recipient && kind === 'operation-token' && { forPerson: true }),
    ...(keepMs !== undefined && { keepFor: keepMs / 1000 }),
  });
  // At a retry, when the inventory may be another, the first invitation stands: it says who was invited.
  const { threshold, useFor, pgp, holders, standBy } = created.invitation;
  const notJoined = tokens ? [] : deployment.notJoined.filter((name) => !holders.includes(name));
  return {
    ...handleOf(created, threshold),
    useForMs: useFor * 1000,
    fingerprint: pgp,
    ...(first.target.recovery && { recovery: true }),
    ...(standBy && { standBy, inviteStandByAfterMs: deployment.ceremony.inviteStandByAfterMs }),
    ...(notJoined.length > 0 && { notJoined }),
  };
}

/** What the workflow keeps of every invitation. */
export function handleOf(
  { invitation: { cid, epoch, holders, exp }, jws, keyHome }: CreatedInvitation<'ceremony' | 'rehearsal'>,
  threshold: number,
): CeremonyHandle {
  return { cid, epoch, keyHome, invitation: jws, holders, threshold, collectUntil: exp * 1000 };
}

/** SHA-256 of the CA file, base64url, as the invitation shows it; empty where the system's roots are used. */
async function fileDigest(file: string | undefined): Promise<string> {
  if (file === undefined) return '';
  try {
    return createHash('sha256')
      .update(await readFile(file))
      .digest('base64url');
  } catch {
    throw new RunbookError('TLS_FAILED', `The CA file ${file} cannot be read.`, {
      observed: 'not readable',
      needed: 'a PEM file',
    });
  }
}

/** The key shares that the service requires: of the generation attempt where it can be read, else of the seal, of which a standby tells what was before a rekey. */
async function readThreshold(
  { access, version, seal }: Pick<ClusterObservation, 'version' | 'seal'> & { readonly access: ClusterAccess },
  kind: GeneratedTokenKind,
  signal: AbortSignal,
): Promise<number> {
  try {
    const token = await ceremonyToken(access, version, kind, signal);
    const { required } = await endpointsOf(access, kind).readAttempt({ token, signal });
    if (required > 0) return required;
  } catch (error) {
    // Where nothing in hand reads the attempt of a root token, people open it before the shares are given.
    const passes = kind === 'operation-token' || isRunbookError(error, 'CEREMONY_CLOSED');
    if (!isRunbookError(error) || signal.aborted || !passes) throw error;
  }
  // What was observed was given little time: here it decides.
  const { threshold } = seal ?? (await access.client.sys.sealStatus({ signal }));
  if (threshold !== undefined && threshold > 0) return threshold;
  throw new RunbookError('RESPONSE_INVALID', `${access.entry.name} does not tell how many key shares it requires.`, {
    cluster: access.entry.name,
    observed: `${threshold ?? 'none'}, by its generation attempt and by its seal`,
    needed: 'the threshold of its key',
    next: `Find out whether ${access.entry.name} is initialised, then decide retry.`,
  });
}

/** @throws RunbookError PRECONDITION_FAILED where nothing can be encrypted to the key */
export async function usableRecipient(text: string): Promise<RecipientKey> {
  const recipient = await readRecipientKey(text);
  if (!('refused' in recipient)) return recipient;
  throw new RunbookError('PRECONDITION_FAILED', "The recipient's key cannot be used.", {
    observed: recipient.refused,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: 'Start again with such a key; nothing was touched.',
  });
}

/**
 * Recorded envelopes cannot be opened any more afterwards.
 *
 * @returns `destroyed`: no key of the ceremony is here any more, also where the sweeper, or an attempt before this one, came
 * first. Those of another run, such as the one before a reset, stay until the sweeper finds that it has ended
 */
export async function destroyCeremonyKeys(input: {
  readonly ceremony: CeremonyHandle;
}): Promise<{ readonly destroyed: boolean; readonly text: string }> {
  const { run, keyRecords } = currentExecution();
  const { cid } = input.ceremony;
  // Also those past their time, which no sweep came to yet.
  const mine = (await keyRecords.ofRun(run, 0)).filter((record) => record.cid === cid);
  for (const record of mine) await keyRecords.destroy(record);
  if (await keyRecords.has(cid))
    return { destroyed: false, text: 'keys that another run made, or that cannot be read, stay for the sweeper' };
  const rounds = mine.length === 1 ? 'one round' : `${mine.length} rounds`;
  return { destroyed: true, text: mine.length > 0 ? `keys of ${rounds} destroyed` : 'gone already' };
}

/** Everybody who has joined, stand-by holders last: one invitation of the epoch names them all. */
export function invitedNow(deployment: Deployment) {
  const { holders, standBy } = rosterOf(deployment);
  return { holders: [...holders, ...standBy], ...(standBy.length > 0 && { standBy }) };
}

/** Who may give this run a token that people generated themselves, as the inventory of this worker says. */
export function providersNow(deployment: Deployment): string[] {
  const { holders, standBy } = rosterOf(deployment);
  const { tokenProviders = [...holders, ...standBy] } = deployment.ceremony;
  return tokenProviders.filter((name) => !deployment.notJoined.includes(name));
}

/**
 * Whether those who have joined can give a token. Pure.
 *
 * @param threshold - key shares that the service requires; undefined where it does not tell
 */
export function judgeRoster(deployment: Deployment, threshold: number | undefined) {
  const { holders, standBy } = rosterOf(deployment);
  const names = [...holders, ...standBy];
  const aside = standBy.length === 0 ? '' : `, ${standBy.length} of them standing by`;
  const absent = deployment.notJoined.map((name) => `; ${name} has not joined`).join('');
  return {
    names,
    good: threshold === undefined || names.length >= threshold,
    observed: `${names.length} holders${aside}${absent}`,
    needed: `at least ${threshold ?? 'the threshold'}`,
    next: 'Holders who have not joined: `runbook join LINE`. Else list more in the inventory.',
  };
}

/**
 * Who is asked to a rehearsal: those who are named, or everybody on the list. Pure.
 *
 * @throws RunbookError INVALID_INPUT where somebody is named who is not on it
 */
export function rosterOfRehearsal({ name, ceremony }: Deployment, named?: readonly string[]) {
  const people = [
    ...ceremony.holders.map((holder) => ({ name: holder, standBy: false })),
    ...ceremony.standBy.map((holder) => ({ name: holder, standBy: true })),
  ];
  const strangers = [...new Set(named ?? [])].filter((each) => people.every((person) => person.name !== each));
  if (strangers.length > 0)
    throw new RunbookError('INVALID_INPUT', `Not on the roster of ${name}: ${strangers.join(', ')}.`, {
      observed: strangers.join(', '),
      needed: people.map((person) => person.name).join(', '),
      next: 'Name holders or stand-by holders of the inventory; or leave "holders" out.',
    });
  return named === undefined ? people : people.filter((person) => named.includes(person.name));
}
