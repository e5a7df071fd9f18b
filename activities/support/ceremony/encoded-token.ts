import { encodedTokenPayload, isUndecodable } from '../../../src/contracts/signals';
import type { EncodedTokenVerdict } from '../../../src/contracts/activities';
import type { ArrivedSignal } from '../approvals/arrived-signals';

/** Tokens as the service writes them: for a token in the clear, wherever it stands in a text. */
const PLAIN_TOKEN = /(?<![A-Za-z0-9+/_-])(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{16,}/;
const UUID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;
/** What a generation attempt ends in: with prefix from version 1.0 on, a UUID before. */
const GENERATED_TOKEN = /^(?:hvs\.[A-Za-z0-9_-]{20,200}|s\.[A-Za-z0-9]{20,64})$/;
/** A token that was combined with a one-time password is as long as the token; a message to a key is far longer. */
const LONGEST_TOKEN_BYTES = 64;

/** What was handed in, in its documented form. */
export interface HandedIn {
  readonly cluster: string;
  /** Base64 of a binary OpenPGP message, as it may be: nobody looked into it. */
  readonly encodedToken: string;
}

export const NO_CEREMONY_TEXT = 'refused: this run waits for no token now';

/** Whether a text is a token as an attempt generates it. */
export function isGeneratedToken(text: string): boolean {
  return GENERATED_TOKEN.test(text) || UUID.test(text);
}

/**
 * Reads what somebody handed in. Only the documented form is taken; of anything else nothing is repeated, and a token in
 * plain text is told with the event that holds it.
 */
export function readHandedIn({ content, arrival, eventId }: ArrivedSignal): HandedIn | EncodedTokenVerdict {
  const refuse = (code: string, text: string): EncodedTokenVerdict => ({ arrival, code, text: `refused: ${text}` });
  if (isUndecodable(content))
    return refuse('undecodable', `the payload could not be read (${content.undecodable}); send JSON`);
  const text = textOf(content);
  if (PLAIN_TOKEN.test(text)) {
    return {
      ...refuse(
        'plain-text-token',
        'this is a token in PLAIN TEXT. It stands in the database of Temporal now: treat it as exposed',
      ),
      eventId,
    };
  }
  const parsed = encodedTokenPayload.safeParse(content);
  if (!parsed.success) {
    return refuse(
      'malformed',
      'send {"cluster": "NAME", "encodedToken": "..."} with the value of encoded_token alone, not the whole answer',
    );
  }
  const { cluster } = parsed.data;
  // A terminal breaks long lines; nothing else is forgiven.
  const encodedToken = parsed.data.encodedToken.replace(/\s+/g, '');
  if (UUID.test(encodedToken))
    return { ...refuse('plain-text-token', 'this may be a token in PLAIN TEXT: treat it as exposed'), eventId };
  const bytes = Buffer.from(encodedToken, 'base64');
  const unpadded = (base64: string) => base64.replace(/=+$/, '');
  if (bytes.length === 0 || unpadded(bytes.toString('base64')) !== unpadded(encodedToken))
    return refuse('malformed', 'encodedToken is not base64: give the value of encoded_token, and nothing around it');
  if (bytes.length <= LONGEST_TOKEN_BYTES)
    return refuse(
      'one-time-password',
      'this is a token for a one-time password, not for the PGP key of this ceremony: it comes from an attempt that somebody else started',
    );
  return { cluster, encodedToken };
}

/** Every text in what arrived, names of members too. */
function textOf(content: unknown): string {
  try {
    return (typeof content === 'string' ? content : JSON.stringify(content)).slice(0, 64 * 1024);
  } catch {
    return '';
  }
}
