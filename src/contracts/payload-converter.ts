import type { Payload, PayloadConverter } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import { UNDECODABLE } from './signals';

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
      return UNDECODABLE as T;
    }
  }
}

export const payloadConverter = new TolerantPayloadConverter();
