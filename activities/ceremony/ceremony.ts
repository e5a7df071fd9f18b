import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { CeremonyHandle, CeremonyTarget, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { keepForMs } from '../../src/contracts/ceremony';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { CreatedInvitation, InvitationTarget, People, RecipientKey } from '../../src/keys';
import { createInvitation, examineEnvelope, openShares, readRecipientKey } from '../../src/keys';
import type { GeneratedTokenKind } from '../../src/vault';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import type { ClusterAccess } from '../clusters';
import { currentExecution } from '../execution';
import { observeSeal } from '../observe';
import { readIdentity } from '../tokens/operation-token';
import { ceremonyToken, endpointsOf } from './ceremony-access';
import { invitedNow, providersNow } from './ceremony-roster';

/** Nothing that arrives is meant for it: only plain text is told apart. */
const NO_CEREMONY = { cid: '', epoch: 0, invitationDigest: '', holders: [], exp: 0 };
const NO_CEREMONY_TEXT = 'refused: this run collects no key shares now';

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
  readonly cid?: string;
  readonly inputDigest: string;
  /** Operation tokens that people generated themselves; key shares where it is not given. */
  readonly collects?: 'tokens';
  /** To whom the token is encrypted, where it is for a person: a root token always is. */
  readonly recipientPgpKey?: string | undefined;
  /** How long the record keeps the token for a later run. */
  readonly keepFor?: string | undefined;
}): Promise<CeremonyHandle & { readonly fingerprint: string }> {
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
  const invited = tokens ? providersNow(deployment) : invitedNow(deployment);
  const { collectForMs, useForMs } = deployment.ceremony;
  const created = await createInvitation(keyRecords, signingKey, run, {
    ...{ kind, targets, reason, runbook, inputDigest, epoch, cid, collects, collectForMs, useForMs },
    requestedBy: { name: input.requestedBy, how: 'claimed' },
    ...invited.facts,
    threshold: required,
    ...(recipient && { pgp: recipient.fingerprint }),
    ...(recipient && kind === 'operation-token' && { forPerson: true }),
    ...(keepMs !== undefined && { keepFor: keepMs / 1000 }),
  });
  const { threshold, useFor, pgp } = created.invitation;
  return {
    ...handleOf(created, threshold),
    useForMs: useFor * 1000,
    fingerprint: pgp,
    ...(first.target.recovery && { recovery: true }),
    ...invited.handle,
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

/** The key shares that the service requires: of the generation attempt where it can be read, else of the seal. */
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

/** While no ceremony is under way: everything is refused, and a key share in plain text is still noticed. */
export async function checkUnaskedShares(input: {
  readonly deployment: string;
  readonly arrived: readonly number[];
}): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }> {
  const { run, inventory } = currentExecution();
  const { people } = inventory;
  const verdicts: EnvelopeVerdict[] = [];
  for (const signal of await new ArrivedSignals(run).of('share', input.arrived)) {
    const { arrival } = signal;
    const examined = await examineEnvelope(signal, NO_CEREMONY, people);
    const isPlain = 'refused' in examined && examined.refused.verdict === 'plain-text-share';
    const noticed = undecodable(signal) ?? (isPlain ? verdictOf(people, signal, examined.refused) : undefined);
    verdicts.push(noticed ?? { arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT });
  }
  return { verdicts };
}

/** Both stages of the check: those in hand are looked at again beside what arrived. */
export async function openEnvelopes(input: {
  readonly deployment: string;
  readonly ceremony: CeremonyHandle;
  /** Numbers of the signals that brought the shares in hand, and of those that arrived. */
  readonly held: readonly number[];
  readonly arrived: readonly number[];
}): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }> {
  const { run, inventory, keyRecords } = currentExecution();
  const { held, arrived } = input;
  const { cid, epoch } = input.ceremony;
  const { people } = inventory;
  const [signals, record] = await Promise.all([
    new ArrivedSignals(run).of('share', [...held, ...arrived]),
    keyRecords.read({ run, cid, epoch }),
  ]);
  const readable = signals.filter((signal) => undecodable(signal) === undefined);
  const { receipts } = await openShares(record, readable, people);
  const verdicts = new Map(
    signals.map((signal) => {
      const receipt = receipts[readable.indexOf(signal)];
      return [signal.arrival, receipt ? verdictOf(people, signal, receipt) : undecodable(signal)];
    }),
  );
  return { verdicts: arrived.flatMap((arrival) => verdicts.get(arrival) ?? []) };
}

/** Recorded envelopes cannot be opened any more afterwards. */
export async function destroyCeremonyKeys(input: {
  readonly ceremony: CeremonyHandle;
}): Promise<{ readonly destroyed: boolean; readonly text: string }> {
  const { run, keyRecords } = currentExecution();
  const mine = (await keyRecords.ofRun(run)).filter((record) => record.cid === input.ceremony.cid);
  for (const record of mine) await keyRecords.destroy(record);
  const destroyed = mine.length > 0;
  return { destroyed, text: destroyed ? `keys of ${mine.length} epoch(s) destroyed` : 'the keys were gone already' };
}

const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

/** What people are told of an envelope. The event is named where what stands in it is to be purged. */
export function verdictOf(
  people: People,
  { arrival, eventId, principal }: ArrivedSignal,
  { verdict: code, holder, seq, envelopeDigest }: EnvelopeReceipt,
): EnvelopeVerdict {
  const how = people.get(holder ?? '')?.attestation ?? 'claimed';
  const isUnattested = code === 'wrong-signer' && principal === undefined && how === 'principal';
  return {
    ...{ arrival, code, seq, text: isUnattested ? NO_SENDER_TEXT : ENVELOPE_VERDICTS[code] },
    holder: holder === undefined ? undefined : { name: holder, how },
    digest: envelopeDigest === '' ? undefined : envelopeDigest,
    ...(code === 'plain-text-share' ? { eventId } : {}),
  };
}

/** The verdict on a signal whose payload could not be read; undefined where it could. */
export function undecodable({ arrival, content }: ArrivedSignal): EnvelopeVerdict | undefined {
  if (!isUndecodable(content)) return undefined;
  const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
  return { arrival, code: 'undecodable', text };
}
