import { decodeBase64url } from '../documents/base64url';

export {
  DOCUMENT_TYPES,
  documentDigest,
  MAX_DOCUMENT_LENGTH,
  signDocument,
  verifyDocument,
} from '../documents/documents';
export type { DocumentType, VerificationKey } from '../documents/documents';

/** The bytes of strict unpadded base64url, or undefined: re-encoding must give the same string. */
export function strictBase64url(text: string): Buffer | undefined {
  const bytes = decodeBase64url(text);
  return bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
