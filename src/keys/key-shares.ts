export { holdsPlainShare, looksLikeShare, parseShare, SHARE_BYTES } from '../documents/key-shares';
