export { holdsPlainShare, looksLikeShare, parseShare, SHARE_BYTES } from '../holder/key-shares';
