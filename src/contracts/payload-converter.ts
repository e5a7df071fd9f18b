import type { Payload, PayloadConverter } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import { UNDECODABLE_ENCODINGS } from './signals';
import type { Undecodable } from './signals';

/**
 * The payload converter of the workers. What people paste into a start form or a signal may be in any encoding; a
 * converter that throws would fail every workflow task, keep the lock, and quote the payload into logs and history. So
 * what cannot be read becomes a marker without content, which handlers refuse with a receipt.
 */
class TolerantPayloadConverter implements PayloadConverter {
  toPayload<T>(value: T): Payload {
    return defaultPayloadConverter.toPayload(value);
  }

  fromPayload<T>(payload: Payload): T {
    try {
      return defaultPayloadConverter.fromPayload<T>(payload);
    } catch {
      return { undecodable: encodingOf(payload) } satisfies Undecodable as T;
    }
  }
}

/** The encoding's name where it is one that we know; whatever else stands there is somebody's input and is not repeated. */
function encodingOf(payload: Payload): string {
  const bytes = payload.metadata?.['encoding'];
  if (!bytes || bytes.length > 64) return 'unknown';
  const text = String.fromCharCode(...bytes);
  return UNDECODABLE_ENCODINGS.find((known) => known === text) ?? 'unknown';
}

export const payloadConverter = new TolerantPayloadConverter();
