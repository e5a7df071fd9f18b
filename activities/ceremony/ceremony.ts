import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { CeremonyHandle, CeremonyTarget } from '../../src/contracts/ceremony';
import { keepForMs } from '../../src/contracts/ceremony';
import type { ClusterObservation } from '../../src/contracts/observations';
import { RunbookError, errnoOf, isRunbookError } from '../../src/errors';
import type { Deployment, Inventory } from '../../src/inventory';
import { rosterOf } from '../../src/inventory';
import type { CreatedInvitation, InvitationTarget, RecipientKey } from '../../src/keys';
import { createInvitation, readRecipientKey } from '../../src/keys';
import type { GeneratedTokenKind } from '../../src/vault';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { observeSeal } from '../observe';
import { readIdentity } from '../tokens/operation-token';
import { ceremonyToken, endpointsOf } from './ceremony-access';

/** Creates the keys and the signed invitation of one epoch: for operation tokens, or for a root token. */
export async function createCeremony(input: {
  readonly deployment: string;
  /** Defaults to `operation-token`. */
  readonly kind?: 'operation-token' | 'root-token';
  readonly runbook: string;
  readonly reason: string;
  readonly requestedBy: string;
  readonly targets: readonly CeremonyTarget[];
  readonly epoch: number;
  readonly cid: string;
  readonly inputDigest: string;
  /** `tokens`: operation tokens that people generated themselves. Defaults to key shares. */
  readonly collects?: 'tokens';
  /** The key to which the token is encrypted, if it is for a person. A root token always is. */
  readonly recipientPgpKey?: string | undefined;
  /** How long the record keeps the token for a later run. */
  readonly keepFor?: string | undefined;
}): Promise<CeremonyHandle> {
  const { run, signal, clusters, inventory, keyRecords, signingKey } = currentExecution();
  const { kind = 'operation-token', reason, runbook, inputDigest, epoch, cid, collects, recipientPgpKey } = input;
  const deployment = clusters.deployment(input.deployment);
  const forPerson = kind === 'root-token' || recipientPgpKey !== undefined;
  const recipient = forPerson ? await usableRecipient(recipientPgpKey ?? '') : undefined;
  const keepMs = input.keepFor === undefined ? undefined : keepForMs(input.keepFor);
  if (input.keepFor !== undefined && keepMs === undefined)
    throw new RunbookError('INVALID_INPUT', 'A token can be kept for at most 7 days.');
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
  const invited = tokens ? { holders: providersNow(deployment) } : invitedNow(deployment);
  const created = await createInvitation(keyRecords, signingKey, run, 'ceremony', {
    ...{ kind, targets, reason, runbook, inputDigest, epoch, cid, collects, collectForMs, useForMs },
    requestedBy: { name: input.requestedBy, how: 'claimed' },
    ...invited,
    ...signersAmong(inventory, invited.holders),
    threshold: required,
    ...(recipient && { pgp: recipient.fingerprint }),
    ...(recipient && kind === 'operation-token' && { forPerson: true }),
    ...(keepMs !== undefined && { keepFor: keepMs / 1000 }),
  });
  // At a retry the inventory may have changed, but the first invitation stays in force: it shows who was invited.
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

/** What the workflow keeps of each invitation. */
export function handleOf(
  { invitation: { cid, epoch, holders, exp }, jws, keyHome }: CreatedInvitation<'ceremony' | 'rehearsal'>,
  threshold: number,
): CeremonyHandle {
  return { cid, epoch, keyHome, invitation: jws, holders, threshold, collectUntil: exp * 1000 };
}

/** SHA-256 of the CA file, base64url, as the invitation shows it; empty if the system's root certificates are used. */
async function fileDigest(file: string | undefined): Promise<string> {
  if (file === undefined) return '';
  try {
    return createHash('sha256')
      .update(await readFile(file))
      .digest('base64url');
  } catch (cause) {
    throw new RunbookError('TLS_FAILED', `The CA file ${file} cannot be read.`, {
      observed: errnoOf(cause) ?? 'not readable',
      needed: 'a PEM file, readable by the worker',
      next: 'Correct caFile in the inventory, or the permissions of the file.',
    });
  }
}

/**
 * How many key shares the service requires: read from the generation attempt if possible, otherwise from the seal, for
 * which a standby may report the value from before a rekey.
 */
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
    // If no credential can read the attempt of a root token, people open access to it before the shares are given.
    const passes = kind === 'operation-token' || isRunbookError(error, 'CEREMONY_CLOSED');
    if (!isRunbookError(error) || signal.aborted || !passes) throw error;
  }
  // The observation had little time; here the value is decisive, so read it again.
  const { threshold } = seal ?? (await access.client.sys.sealStatus({ signal }));
  if (threshold !== undefined && threshold > 0) return threshold;
  throw new RunbookError('RESPONSE_INVALID', `${access.entry.name} does not report how many key shares it requires.`, {
    cluster: access.entry.name,
    observed: `${threshold ?? 'none'}, from its generation attempt and its seal`,
    needed: 'the threshold of its key',
    next: `Find out whether ${access.entry.name} is initialized, then decide retry.`,
  });
}

/** @throws RunbookError PRECONDITION_FAILED if nothing can be encrypted to the key */
export async function usableRecipient(text: string): Promise<RecipientKey> {
  const recipient = await readRecipientKey(text);
  if (!('refused' in recipient)) return recipient;
  throw new RunbookError('PRECONDITION_FAILED', "The recipient's key cannot be used.", {
    observed: recipient.refused,
    needed: 'an OpenPGP public key of version 4 that can encrypt',
    next: `${recipient.next} Then start again: nothing was changed.`,
  });
}

/**
 * After this, recorded envelopes can no longer be opened.
 *
 * @returns `destroyed`: no key of the ceremony is left here, even if the sweeper or an earlier attempt destroyed them
 * first. Keys of another run, such as the run before a reset, stay until the sweeper finds that it has ended
 */
export async function destroyCeremonyKeys(input: { readonly ceremony: CeremonyHandle }) {
  const { run, keyRecords } = currentExecution();
  const { cid } = input.ceremony;
  // Includes expired records that no sweep has reached yet.
  const mine = (await keyRecords.ofRun(run, 0)).filter((record) => record.cid === cid);
  for (const record of mine) await keyRecords.destroy(record);
  if (await keyRecords.has(cid))
    return {
      destroyed: false,
      text: 'keys that another run created, or that cannot be read, are left for the sweeper',
    };
  const rounds = mine.length === 1 ? 'one round' : `${mine.length} rounds`;
  return { destroyed: true, text: mine.length > 0 ? `keys of ${rounds} destroyed` : 'already gone' };
}

/** Everybody who has joined, stand-by holders last. The one invitation of an epoch names them all. */
function invitedNow(deployment: Deployment) {
  const { holders, standBy } = rosterOf(deployment);
  return { holders: [...holders, ...standBy], ...(standBy.length > 0 && { standBy }) };
}

/** Those whose answer counts only with their signature: a tool tells them before they type anything. */
export function signersAmong({ people }: Inventory, names: readonly string[]) {
  const signers = names.filter((name) => people.get(name)?.attestation === 'signed');
  return signers.length > 0 ? { mustSign: signers } : {};
}

/** The people who may give this run a token that they generated themselves, by the inventory of this worker. */
export function providersNow(deployment: Deployment): string[] {
  const { holders, standBy } = rosterOf(deployment);
  const { tokenProviders = [...holders, ...standBy] } = deployment.ceremony;
  return tokenProviders.filter((name) => !deployment.notJoined.includes(name));
}

/**
 * Whether the people who have joined suffice for a token. Pure.
 *
 * @param threshold - key shares that the service requires; undefined if it does not report it
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
    next: 'Holders who have not joined run `runbook join LINE`. Otherwise list more holders in the inventory.',
  };
}

/**
 * The people who are asked to rehearse: those who are named, or everybody on the roster. Pure.
 *
 * @throws RunbookError INVALID_INPUT if somebody is named who is not on the roster
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
      next: 'Name holders or stand-by holders of the inventory, or omit "holders".',
    });
  return named === undefined ? people : people.filter((person) => named.includes(person.name));
}
