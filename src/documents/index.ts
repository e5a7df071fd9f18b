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
export { envelopeInput, noShareWanted, readEnvelopeText } from './envelope';
export { parseShare } from './key-shares';
export { findInvitation } from './pasted';
export { parseOperationToken } from './operation-tokens';
export { formatPublicKey, parseFingerprint, parsePublicKey, spokenFingerprint } from './public-keys';
export type { PinnedKey, PublicKeyEntry } from './public-keys';
export { namedSigner } from './signed-invitation';
export { mayBeMistyped, readHolderKey } from './signing-keys';
export type { SigningKey } from './signing-keys';
export { inWords } from './words';
