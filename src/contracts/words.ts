/** Text of anybody as one line of its own: it ends no line, moves no cursor and turns no reading direction. */
export function oneLine(text: string): string {
  return text.replace(/\s+/g, ' ').replace(/[\p{Cc}\p{Bidi_Control}]/gu, '');
}

/** How it is known who said something; a claim is marked everywhere. */
export function attestedName({ name, how }: { readonly name: string; readonly how: string }): string {
  return how === 'claimed' ? `${oneLine(name)} (UNVERIFIED)` : `${oneLine(name)} (${how})`;
}

/** A fingerprint in groups of four, to be read aloud. */
export function spelled(fingerprint: string): string {
  return (fingerprint.match(/.{1,4}/g) ?? []).join(' ');
}
