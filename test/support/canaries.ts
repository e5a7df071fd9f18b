import type { temporal } from '@temporalio/proto';

/**
 * Looks for secrets in anything that can be turned into text: as they are, and inside base64 at each of its three
 * alignments, as payloads and sealed documents carry them.
 *
 * @returns the names of the canaries that were found
 */
export function findCanaries(text: string, canaries: ReadonlyMap<string, string>): string[] {
  return [...canaries]
    .filter(([, secret]) => spellings(secret).some((spelling) => text.includes(spelling)))
    .map(([name]) => name);
}

/** A history as text: every payload decoded beside the raw bytes' base64. */
export function historyText(history: temporal.api.history.v1.IHistory): string {
  const parts: string[] = [];
  const visit = (value: unknown): void => {
    if (value instanceof Uint8Array) {
      const bytes = Buffer.from(value.buffer, value.byteOffset, value.byteLength);
      parts.push(bytes.toString('utf8'), bytes.toString('base64'));
    } else if (typeof value === 'string') parts.push(value);
    else if (Array.isArray(value)) value.forEach(visit);
    else if (typeof value === 'object' && value !== null) Object.values(value).forEach(visit);
  };
  visit(history.events);
  return parts.join('\n');
}

function spellings(secret: string): string[] {
  const bytes = Buffer.from(secret, 'utf8');
  const aligned = [0, 1, 2].map((offset) => {
    const encoded = Buffer.concat([Buffer.alloc(offset), bytes])
      .toString('base64')
      .replace(/=+$/, '');
    // The first characters mix in what stands before, the last ones what stands after.
    return encoded.slice(offset === 0 ? 0 : offset + 1, -2);
  });
  const raw =
    /^[0-9a-f]+$/.test(secret) && secret.length % 2 === 0
      ? [Buffer.from(secret, 'hex').toString('base64').replace(/=+$/, '')]
      : [];
  return [
    secret,
    bytes.toString('hex'),
    ...aligned,
    ...aligned.map((text) => text.replaceAll('+', '-').replaceAll('/', '_')),
    ...raw,
  ];
}
