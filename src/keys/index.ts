export { redact } from './redaction';
export { DOCUMENT_TYPES, signDocument } from './documents';
export { attest, isAttested } from './attested';
export type { AttestedFacts } from './attested';
export { newSealKey, openValue, SealKeyring, sealValue } from './sealing';
export type { RunContext } from './sealing';
export {
  formatPublicKey,
  newSigningKey,
  parseFingerprint,
  parsePublicKey,
  parseSigningKey,
  spokenFingerprint,
} from './signing-keys';
export type { SigningKey } from './signing-keys';
export { isEncryptedOnlyTo, readRecipientKey } from './recipient-keys';
export type { RecipientKey } from './recipient-keys';
export { createCeremonyKeys, openToken } from './ceremony-keys';
export { KeyRecords } from './key-records';
export type { KeyRecord, RecordName } from './key-records';
export { createInvitation, readOwnInvitation, verifyInvitation } from './invitation';
export type { CreatedInvitation, InvitationFacts, InvitationTarget } from './invitation';
export { holdsPlainShare, parseShare } from './key-shares';
export { createEnvelope, examineEnvelope, inspectEnvelope, receiptOf } from './envelope';
export type { CeremonyFacts, EnvelopePayload, InspectedEnvelope } from './envelope';
export { checkFurtherEnvelopes, OpenedBefore, openShares } from './opening';
export type { OpenedShare } from './opening';
export { openProvidedToken } from './provided-token';
export { createRehearsal, createRehearsalEnvelope, openRehearsalAnswer, verifyRehearsal } from './rehearsal';
export type { CreatedRehearsal, Rehearsal, RehearsalAnswer } from './rehearsal';
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
export { createHolderKey, generatePassphrase, readHolderKey } from './holder-keys';
export { addPin, notAKey, readPins, removePin } from './pins';
export { missingSealKeys } from './sealed-values';
export type { PersonFacts, PersonLookup } from './people';
