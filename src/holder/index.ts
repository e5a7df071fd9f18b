export {
  answerAsked,
  answerWithToken,
  askedFacts,
  askedInShort,
  askedMembers,
  asksForToken,
  confirmationOf,
  verifyAsked,
} from './asked';
export type { Asked } from './asked';
export { claimedHeader } from './documents';
export { envelopeInput, noShareWanted, readEnvelopeText } from './envelope';
export type { EnvelopePayload } from './envelope';
export { parseShare, SHARE_BYTES } from './key-shares';
export { findInvitation } from './pasted';
export type { PastedInvitation } from './pasted';
export { parseOperationToken } from './operation-tokens';
export type { PlainFact } from './plain-words';
export { formatPublicKey, parseFingerprint, parsePublicKey, spokenFingerprint } from './public-keys';
export type { PinnedKey, PublicKeyEntry } from './public-keys';
export { namedSigner } from './signed-invitation';
export { mayBeMistyped, readHolderKey } from './signing-keys';
export type { SigningKey } from './signing-keys';
export { attestedName, clock, inWords, oneLine } from './words';
