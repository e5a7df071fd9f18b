export { redact } from './redaction';
export { DOCUMENT_TYPES, documentDigest, MAX_DOCUMENT_LENGTH, signDocument, verifyDocument } from './documents';
export type { DocumentType, VerificationKey, VerifiedDocument } from './documents';
export { attest, isAttested } from './attested';
export type { AttestedFacts } from './attested';
export { DELETION_USES, newSealKey, openValue, SealKeyring, sealValue } from './sealing';
export type { OpenSpec, RunContext, SealSpec } from './sealing';
export {
  formatPublicKey,
  importPublicKey,
  newSigningKey,
  parseFingerprint,
  parsePublicKey,
  parseSigningKey,
  spokenFingerprint,
  thumbprint,
} from './signing-keys';
export type { PublicKeyEntry, SigningKey } from './signing-keys';
export { isEncryptedOnlyTo, readRecipientKey } from './recipient-keys';
export type { RecipientKey } from './recipient-keys';
export { createCeremonyKeys, openToken } from './ceremony-keys';
export type { CeremonyKeys } from './ceremony-keys';
export { KeyRecords } from './key-records';
export type { DestroyedRecord, Erasure, KeyRecord, KeyStorage, NewKeyRecord, RecordName } from './key-records';
export { createInvitation, readOwnInvitation, verifyInvitation } from './invitation';
export type {
  CreatedInvitation,
  Invitation,
  InvitationFacts,
  InvitationTarget,
  InvitationUse,
  PinnedKey,
} from './invitation';
export { holdsPlainShare, parseShare } from './key-shares';
export { createEnvelope, createTokenEnvelope, examineEnvelope, inspectEnvelope, receiptOf } from './envelope';
export type { Arrival, CeremonyFacts, EnvelopePayload, InspectedEnvelope } from './envelope';
export { checkEnvelopes, checkFurtherEnvelopes, OpenedBefore, openShares } from './opening';
export type { OpenedShare } from './opening';
export { openProvidedToken } from './provided-token';
export type { OpenedToken } from './provided-token';
export {
  claimsRehearsal,
  createRehearsal,
  createRehearsalEnvelope,
  openRehearsalAnswer,
  readOwnRehearsal,
  verifyRehearsal,
} from './rehearsal';
export type {
  CreatedRehearsal,
  OpenedAnswer,
  Rehearsal,
  RehearsalAnswer,
  RehearsalFacts,
  VerifiedRehearsal,
} from './rehearsal';
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
export type {
  DocumentContext,
  VerifiedApproval,
  VerifiedControl,
  VerifiedDecision,
  VerifiedDecline,
} from './approvals';
export { evaluateGate } from './gate-policy';
export type { CountedApproval, GateEvaluation, GateRule } from './gate-policy';
export { createHolderKey, generatePassphrase, readHolderKey } from './holder-keys';
export type { CreatedHolderKey } from './holder-keys';
export { addPin, notAKey, readPins, removePin } from './pins';
export { missingSealKeys } from './sealed-values';
export type { PersonFacts, PersonLookup } from './people';
