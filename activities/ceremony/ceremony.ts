import type { CeremonyHandle, CeremonyTarget, EnvelopeVerdict } from '../../src/contracts/ceremony';
import { keepForMs } from '../../src/contracts/ceremony';
import { RunbookError } from '../../src/errors';
import type { InvitationTarget } from '../../src/keys';
import { createInvitation, examineEnvelope, openShares } from '../../src/keys';
import { ArrivedSignals } from '../approvals/arrived-signals';
import { personLookup } from '../approvals/person-lookup';
import { currentExecution } from '../execution';
import { observeSeal } from '../observe';
import { readClusterId } from '../tokens/operation-token';
import { fileDigest, readThreshold, usableRecipient } from './ceremony-facts';
import { invitedNow, providersNow } from './ceremony-roster';
import { undecodable, verdictOf } from './envelope-verdicts';

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
  const [first] = input.targets;
  if (!first) throw new RunbookError('INVALID_INPUT', 'A ceremony needs a target.');
  const targets = await Promise.all(
    input.targets.map(async ({ cluster, uses }): Promise<InvitationTarget> => {
      const access = clusters.of(input.deployment, cluster);
      const seal = await observeSeal(access, signal);
      return {
        cluster,
        clusterId: await readClusterId(access, signal),
        addresses: [...access.entry.addresses],
        caSha256: await fileDigest(access.entry.caFile),
        uses: kind === 'root-token' ? ['root-token.generate'] : [...uses],
        ...(seal?.recovery === true && { recovery: true }),
      };
    }),
  );
  const tokens = collects === 'tokens';
  const required = tokens ? 1 : await readThreshold(clusters.of(input.deployment, first.cluster), kind, signal);
  const invited = tokens ? providersNow(deployment) : invitedNow(deployment, required);
  const { collectForMs, useForMs } = deployment.ceremony;
  const { invitation, jws, keyHome } = await createInvitation(keyRecords, signingKey, run, {
    ...{ kind, targets, reason, runbook, inputDigest, epoch, cid, collects, collectForMs, useForMs },
    requestedBy: { name: input.requestedBy, how: 'claimed' },
    ...invited.facts,
    threshold: required,
    ...(recipient && { pgp: recipient.fingerprint }),
    ...(recipient && kind === 'operation-token' && { forPerson: true }),
    ...(keepMs !== undefined && { keepFor: keepMs / 1000 }),
  });
  const { holders, threshold, exp, useFor, pgp } = invitation;
  return {
    ...{ cid: invitation.cid, epoch: invitation.epoch, keyHome, invitation: jws, holders, threshold },
    collectUntil: exp * 1000,
    useForMs: useFor * 1000,
    fingerprint: pgp,
    ...(targets[0]?.recovery && { recovery: true }),
    ...invited.handle,
  };
}

/** While no ceremony is under way: everything is refused, and a key share in plain text is still noticed. */
export async function checkUnaskedShares(input: {
  readonly deployment: string;
  readonly arrived: readonly number[];
}): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }> {
  const { run, inventory } = currentExecution();
  const person = personLookup(inventory);
  const verdicts: EnvelopeVerdict[] = [];
  for (const signal of await new ArrivedSignals(run).all('share', input.arrived)) {
    const { arrival } = signal;
    const examined = await examineEnvelope(signal, NO_CEREMONY, person);
    const isPlain = 'refused' in examined && examined.refused.verdict === 'plain-text-share';
    const noticed = undecodable(signal) ?? (isPlain ? verdictOf(person, signal, examined.refused) : undefined);
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
  const person = personLookup(inventory);
  const [signals, record] = await Promise.all([
    new ArrivedSignals(run).all('share', [...held, ...arrived]),
    keyRecords.read({ run, cid, epoch }),
  ]);
  const readable = signals.filter((signal) => undecodable(signal) === undefined);
  const { receipts } = await openShares(record, readable, person);
  const verdicts = new Map(
    signals.map((signal) => {
      const receipt = receipts[readable.indexOf(signal)];
      return [signal.arrival, receipt ? verdictOf(person, signal, receipt) : undecodable(signal)];
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
