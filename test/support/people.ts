import type { DecisionAction } from '../../src/contracts/signals';
import type { ApprovalPayload, ControlPayload, DecisionPayload } from '../../src/contracts/payloads';
import {
  createEnvelope,
  DOCUMENT_TYPES,
  formatPublicKey,
  newSigningKey,
  parseShare,
  signDocument,
  verifyInvitation,
} from '../../src/keys';
import type { EnvelopePayload, SigningKey } from '../../src/keys';

/** Someone with a signing key and, for a holder, a key share. */
export interface TestPerson {
  readonly name: string;
  readonly groups: readonly string[];
  readonly key: SigningKey;
  readonly publicKey: string;
  /** Hexadecimal. */
  readonly share?: string;
}

export function makePerson(name: string, groups: readonly string[], share?: string): TestPerson {
  const { key } = newSigningKey();
  return { name, groups, key, publicKey: formatPublicKey(key), share };
}

/** The signal input of a holder: his share sealed for the invitation and signed. */
export async function envelopeOf(
  person: TestPerson,
  invitationJws: string,
  workersKey: SigningKey,
  options: {
    readonly share?: string;
    readonly seq?: number;
    readonly signingKey?: SigningKey;
    /** Another round than the invitation's. */
    readonly epoch?: number;
    /** The plain members, as a holder without a signing key sends them. */
    readonly unsigned?: boolean;
  } = {},
): Promise<{ readonly document: string } | EnvelopePayload> {
  const verified = await verifyInvitation(invitationJws, {
    pins: [{ environment: 'test', ...workersKey }],
    now: Date.now(),
    holder: person.name,
  });
  const envelope = await createEnvelope({
    invitation: { ...verified.invitation, epoch: options.epoch ?? verified.invitation.epoch },
    invitationDigest: verified.digest,
    holder: person.name,
    seq: options.seq ?? 1,
    share: parseShare(options.share ?? person.share ?? ''),
    signingKey: options.unsigned ? undefined : (options.signingKey ?? person.key),
  });
  return typeof envelope === 'string' ? { document: envelope } : envelope;
}

export async function approvalOf(
  person: TestPerson,
  payload: Omit<ApprovalPayload, 'name' | 'iat' | 'comment' | 'verdict'> & Partial<Omit<ApprovalPayload, 'name'>>,
): Promise<{ readonly document: string }> {
  return {
    document: await signDocument(
      DOCUMENT_TYPES.approval,
      { verdict: 'approve', comment: '', iat: Math.floor(Date.now() / 1000), ...payload, name: person.name },
      person.key,
    ),
  };
}

export async function decisionOf(
  person: TestPerson,
  payload: Omit<DecisionPayload, 'name' | 'iat' | 'reason' | 'action'> & {
    readonly action: DecisionAction;
    readonly reason?: string;
  },
): Promise<{ readonly document: string }> {
  return {
    document: await signDocument(
      DOCUMENT_TYPES.decision,
      { reason: 'decided in a test', ...payload, name: person.name, iat: Math.floor(Date.now() / 1000) },
      person.key,
    ),
  };
}

/** An order to a whole run. */
export async function controlOf(
  person: TestPerson,
  payload: Omit<ControlPayload, 'name' | 'iat' | 'reason'> & Partial<Pick<ControlPayload, 'reason'>>,
): Promise<{ readonly document: string }> {
  const complete = { reason: 'ordered in a test', ...payload, name: person.name, iat: Math.floor(Date.now() / 1000) };
  return { document: await signDocument(DOCUMENT_TYPES.control, complete, person.key) };
}
