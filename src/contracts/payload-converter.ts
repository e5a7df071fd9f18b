import type { Payload, PayloadConverter } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import { UNDECODABLE } from './signals';

/**
 * The payload converter of the workers. What people paste into a start form or a signal may be in any encoding; a
 * converter that throws would fail every workflow task, keep the lock, and quote the payload into logs and history. So
 * what cannot be read becomes a marker without content, which handlers refuse with a receipt. So does what is nested
 * without end: whatever goes through it level by level would run out of stack, at every try of the task.
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

/** Nothing of ours comes near it. */
const MOST_LEVELS = 100;

const [QUOTE, ESCAPE] = ['"', '\\'].map((each) => each.charCodeAt(0));
const OPENING = 0x5b;
const CLOSING = 0x5d;
/** What a curly bracket is more than a square one. */
const CURLY = 0x20;

/** How deep JSON is nested; told from its bytes, because going through many small values takes long. */
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
