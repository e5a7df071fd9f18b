import { base64urlnopad } from '@scure/base';

/** Unpadded base64url of `bytes`. */
export function encodeBase64url(bytes: Uint8Array): string {
  return base64urlnopad.encode(bytes);
}

/** The bytes of strict unpadded base64url. Undefined if re-encoding does not give the same string. */
export function decodeBase64url(text: string): Uint8Array | undefined {
  try {
    const bytes = base64urlnopad.decode(text);
    return base64urlnopad.encode(bytes) === text ? bytes : undefined;
  } catch {
    return undefined;
  }
}
