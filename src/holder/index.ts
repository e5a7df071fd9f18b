export {
  answerAsked,
  askedFacts,
  askedInShort,
  askedMembers,
  confirmationOf,
  entersDirectly,
  verifyAsked,
} from './asked';
export type { Asked } from './asked';
export { claimedHeader } from './documents';
export { enteredDirectly, envelopeInput, readEnvelopeText } from './envelope';
export type { EnvelopePayload } from './envelope';
export { followStatements } from './key-statements';
export type { KeyStatement } from './key-statements';
export { parseShare, SHARE_BYTES } from './key-shares';
export { findInvitation } from './pasted';
export type { PastedInvitation } from './pasted';
export type { PlainFact } from './plain-words';
export { formatPublicKey, parseFingerprint, parsePublicKey, spokenFingerprint } from './public-keys';
export type { PinnedKey, PublicKeyEntry } from './public-keys';
export { namedSigner } from './signed-invitation';
export { mayBeMistyped, readHolderKey } from './signing-keys';
export type { SigningKey } from './signing-keys';
export { attestedName, clock, inWords, oneLine } from './words';
