/**
 * Standard base64 with padding as the service reads it: line breaks are skipped, anything else that is not canonical
 * in alphabet, length or padding is refused (Node's own decoder would drop it silently).
 */
export function decodeStandardBase64(text: string): Buffer | undefined {
  const compact = text.replace(/[\r\n]/g, '');
  if (compact.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(compact)) return undefined;
  return Buffer.from(compact, 'base64');
}

/** Hexadecimal in either letter case, or undefined. */
export function decodeHex(text: string): Buffer | undefined {
  return text.length % 2 === 0 && /^[0-9a-fA-F]*$/.test(text) ? Buffer.from(text, 'hex') : undefined;
}
