export { DOCUMENT_TYPES, signDocument } from '../documents/documents';
export { createEnvelope, createRehearsalEnvelope } from '../documents/envelope';
export type { EnvelopePayload } from '../documents/envelope';
export { verifyInvitation } from '../documents/invitation';
export type { InvitationTarget, Rehearsal } from '../documents/invitation';
export { holdsPlainShare, parseShare } from '../documents/key-shares';
export { formatPublicKey, parseFingerprint, parsePublicKey, spokenFingerprint } from '../documents/public-keys';
export { importSigningKey, readHolderKey } from '../documents/signing-keys';
export type { PublicKeyEntry } from '../documents/public-keys';
export type { SigningKey } from '../documents/signing-keys';
export { redact } from './redaction';
export { attest, isAttested } from './attested';
export type { AttestedFacts } from './attested';
export { missingSealKeys, newSealKey, openValue, SealKeyring, sealValue } from './sealing';
export type { RunContext } from './sealing';
export { isEncryptedOnlyTo, readRecipientKey } from './recipient-keys';
export type { RecipientKey } from './recipient-keys';
export { createCeremonyKeys, openToken } from './ceremony-keys';
export { isMemoryBacked, KeyRecords } from './key-records';
export type { KeyRecord, RecordName } from './key-records';
export { createInvitation, createRehearsal, readOwnInvitation } from './invitation';
export type { CreatedInvitation, InvitationFacts } from './invitation';
export { examineEnvelope, receiptOf } from './envelope';
export { openProvidedToken, openRehearsalAnswer, openShares } from './opening';
export type { OpenedShare, RehearsalAnswer } from './opening';
export {
  signApproval,
  signControl,
  signDecision,
  signDecline,
  verifyApproval,
  verifyControl,
  verifyDecision,
  verifyDecline,
} from './approvals';
export type { DocumentContext, VerifiedApproval, VerifiedControl, VerifiedDecision } from './approvals';
export { evaluateGate } from './gate-policy';
export type { CountedApproval } from './gate-policy';
export { createHolderKey, generatePassphrase, newSigningKey } from './holder-keys';
export { addPin, notAKey, readPins, removePin } from './pins';
export type { PersonFacts, PersonLookup } from './people';
