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

/** A person with a signing key and, if a holder, a key share. */
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

/** The signal input of a holder: the share, sealed for the invitation and signed. */
export async function envelopeOf(
  person: TestPerson,
  invitationJws: string,
  workersKey: SigningKey,
  options: {
    readonly share?: string;
    readonly seq?: number;
    readonly signingKey?: SigningKey;
    /** Replaces the round of the invitation. */
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

type Statement = 'approval' | 'decision' | 'control';

/** Signs a person's statement to a run. */
async function signed(
  type: Statement,
  { name, key }: TestPerson,
  payload: object,
): Promise<{ readonly document: string }> {
  const complete = { iat: Math.floor(Date.now() / 1000), ...payload, name };
  return { document: await signDocument(DOCUMENT_TYPES[type], complete, key) };
}

export const approvalOf = (
  person: TestPerson,
  payload: Pick<ApprovalPayload, 'ns' | 'wid' | 'rid' | 'gate' | 'planDigest'> & Partial<Omit<ApprovalPayload, 'name'>>,
) => signed('approval', person, { verdict: 'approve', comment: '', ...payload });

export const decisionOf = (
  person: TestPerson,
  payload: Omit<DecisionPayload, 'name' | 'iat' | 'reason'> & { readonly reason?: string },
) => signed('decision', person, { reason: 'decided in a test', ...payload });

/** An order to a whole run. */
export const controlOf = (
  person: TestPerson,
  payload: Omit<ControlPayload, 'name' | 'iat' | 'reason'> & { readonly reason?: string },
) => signed('control', person, { reason: 'ordered in a test', ...payload });
