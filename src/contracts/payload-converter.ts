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
      const value = defaultPayloadConverter.fromPayload<T>(payload);
      return isDeeper(value, MOST_LEVELS) ? (UNDECODABLE as T) : value;
    } catch {
      return UNDECODABLE as T;
    }
  }
}

/** Nothing of ours comes near it. */
const MOST_LEVELS = 100;

function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}

export const payloadConverter = new TolerantPayloadConverter();
