/** A secret that must not be found, in every form in which it may have been written down. */
export interface Canary {
  /** Names the secret in findings; the secret itself is never shown. */
  readonly label: string;
  readonly forms: readonly CanaryForm[];
}

interface CanaryForm {
  readonly encoding: string;
  /** What to look for, in bytes of latin-1. */
  readonly needle: string;
  /** Whether letters of both cases count; the needle is in lower case then. */
  readonly anyCase: boolean;
}

const SHORTEST_CANARY = 8;
/** Shorter remains of a base64 form would be found by chance. */
const SHORTEST_NEEDLE = 8;

/**
 * A secret in all forms that are searched for: as it is, hexadecimal, URL-encoded, escaped as in JSON, and base64 at all
 * three alignments, of the text and, where the secret is itself hexadecimal or base64, of the bytes that it stands for.
 * Undefined where it is too short to mean anything.
 */
export function canary(label: string, secret: string): Canary | undefined {
  if (secret.length < SHORTEST_CANARY) return undefined;
  const text = Buffer.from(secret, 'utf8');
  const bytes = [text, ...encodedBytes(secret)];
  const forms: CanaryForm[] = bytes.flatMap((form, index) => [
    { encoding: index === 0 ? 'plain text' : 'raw bytes', needle: form.toString('latin1'), anyCase: false },
    { encoding: 'hexadecimal', needle: form.toString('hex'), anyCase: true },
    ...base64Forms(form),
  ]);
  // Letters beyond ASCII are one character in a text and several in bytes.
  if (text.length !== secret.length) forms.push({ encoding: 'plain text', needle: secret, anyCase: false });
  const url = encodeURIComponent(secret);
  if (url !== secret) forms.push({ encoding: 'URL encoding', needle: url, anyCase: true });
  forms.push({ encoding: 'URL encoding', needle: percentEncoded(text), anyCase: true });
  const json = JSON.stringify(secret).slice(1, -1);
  if (json !== secret) forms.push({ encoding: 'JSON', needle: json, anyCase: false });
  const looked = forms.map((form) => (form.anyCase ? { ...form, needle: form.needle.toLowerCase() } : form));
  return { label, forms: looked.filter(({ needle }) => needle.length >= SHORTEST_NEEDLE) };
}

/** The bytes that hexadecimal or base64 text stands for. */
function encodedBytes(secret: string): Buffer[] {
  if (/^([0-9a-f]{2}){8,}$/i.test(secret)) return [Buffer.from(secret, 'hex')];
  const bytes = Buffer.from(secret, 'base64');
  return /^[A-Za-z0-9+/_-]{16,}={0,2}$/.test(secret) && bytes.length >= 12 ? [bytes] : [];
}

/** Base64 of `bytes` as it looks inside of a longer text: where it begins at a byte 0, 1 or 2 of a group of three. */
function base64Forms(bytes: Buffer): CanaryForm[] {
  return [0, 1, 2].flatMap((shift) => {
    const encoded = Buffer.concat([Buffer.alloc(shift), bytes]).toString('base64');
    // The first and the last group also hold bits of the neighbours, which are not known.
    const start = shift === 0 ? 0 : shift + 1;
    const spare = (shift + bytes.length) % 3;
    const end = spare === 0 ? encoded.length : encoded.length - 4 + spare;
    const core = encoded.slice(start, end);
    const url = core.replaceAll('+', '-').replaceAll('/', '_');
    const encoding = `base64, alignment ${shift}`;
    return [core, ...(url === core ? [] : [url])].map((needle) => ({ encoding, needle, anyCase: false }));
  });
}

function percentEncoded(bytes: Buffer): string {
  return [...bytes].map((byte) => `%${byte.toString(16).padStart(2, '0')}`).join('');
}
