import type { Payload, PayloadConverter } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import { UNDECODABLE } from './signals';

/**
 * The payload converter of the workers. What people paste into a start form or a signal may be in any encoding. A converter that
 * throws would fail every workflow task, keep the lock, and quote the payload into logs and history. So an unreadable payload
 * becomes a marker without content, which handlers refuse with a receipt. So does one that is nested too deeply: code that
 * descends level by level would run out of stack at every try of the task.
 */
class TolerantPayloadConverter implements PayloadConverter {
  toPayload<T>(value: T): Payload {
    return defaultPayloadConverter.toPayload(value);
  }

  fromPayload<T>(payload: Payload): T {
    try {
      if (payload.data && levelsOf(payload.data) > MOST_LEVELS) return UNDECODABLE as T;
      return defaultPayloadConverter.fromPayload<T>(payload);
    } catch {
      return UNDECODABLE as T;
    }
  }
}

/** Deeper than any document of this project. */
const MOST_LEVELS = 100;

const [QUOTE, ESCAPE] = ['"', '\\'].map((each) => each.charCodeAt(0));
const OPENING = 0x5b;
const CLOSING = 0x5d;
/** The difference between a curly bracket and a square one. */
const CURLY = 0x20;

/** How deep JSON is nested. Read from its bytes, because descending through many small values takes long. */
function levelsOf(json: Uint8Array): number {
  let [level, deepest] = [0, 0];
  let [inText, escaped] = [false, false];
  for (let index = 0; index < json.length; index += 1) {
    const byte = json[index];
    if (escaped) escaped = false;
    else if (byte === QUOTE) inText = !inText;
    else if (inText) escaped = byte === ESCAPE;
    else if (byte === OPENING || byte === OPENING + CURLY) deepest = Math.max(deepest, (level += 1));
    else if (byte === CLOSING || byte === CLOSING + CURLY) level -= 1;
  }
  return deepest;
}

export const payloadConverter = new TolerantPayloadConverter();
