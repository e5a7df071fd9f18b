export {
  answerRequest,
  answerWithToken,
  asksForRecoveryShare,
  asksForToken,
  confirmationOf,
  requestFacts,
  requestInShort,
  verifyRequest,
} from './ceremony-request';
export type { CeremonyRequest } from './ceremony-request';
export { claimedPayload } from './documents';
export { envelopeInput, noShareWanted, readEnvelopeText } from './envelope';
export { namedSigner } from './invitation';
export { parseShare } from './key-shares';
export { findInvitation } from './pasted';
export { parseOperationToken } from './key-shares';
export { formatPublicKey, parseFingerprint, parsePublicKey, spokenFingerprint } from './public-keys';
export type { PinnedKey, PublicKeyEntry } from './public-keys';
export { mayBeMistyped, readHolderKey } from './signing-keys';
export type { SigningKey } from './signing-keys';
export { inWords } from '../contracts/words';
