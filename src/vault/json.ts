import { isInteger, parse } from 'lossless-json';

/** The first JSON document of a body, and what stood behind it. */
interface FirstDocument {
  readonly value: unknown;
  /** Trimmed text behind the first document; empty as a rule. */
  readonly rest: string;
}

/**
 * Reads the first JSON document of `text`. The service can glue a second one to it (an audit sink that dies after the
 * work was done), so what follows is reported and not fatal. Integers beyond 2^53 become bigint without loss.
 *
 * @throws SyntaxError where the text does not begin with a JSON document.
 */
export function parseFirstDocument(text: string): FirstDocument {
  const end = endOfFirstDocument(text);
  return { value: parse(text.slice(0, end), undefined, toNumberOrBigInt), rest: text.slice(end).trim() };
}

function toNumberOrBigInt(digits: string): number | bigint {
  const value = Number(digits);
  return isInteger(digits) && !Number.isSafeInteger(value) ? BigInt(digits) : value;
}

/** Position behind the bracket that closes the first object or array; the whole length for other values. */
function endOfFirstDocument(text: string): number {
  let depth = 0;
  let inString = false;
  for (let position = 0; position < text.length; position++) {
    const character = text[position];
    if (inString) {
      if (character === '\\') position++;
      else if (character === '"') inString = false;
    } else if (character === '"') {
      inString = true;
    } else if (character === '{' || character === '[') {
      depth++;
    } else if (character === '}' || character === ']') {
      depth--;
      if (depth <= 0) return position + 1;
    }
  }
  return text.length;
}
