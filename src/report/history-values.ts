import type { temporal } from '@temporalio/proto';
import { payloadConverter } from '../contracts/payload-converter';

/*
 * Readers for what a history holds. Whoever may write to the namespace may have written it, and releases differ, so
 * nothing is assumed of its shape and nothing here throws.
 */

/** The members of an object; none where the value is no object. */
export type Fields = Readonly<Record<string, unknown>>;

/** The members of a value that may be anything. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {};
}

/** A text that is not empty. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A finite number. */
export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}

/** The items of a list; none where the value is no list. */
export function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as readonly unknown[]) : [];
}

/** The texts of a list; what is no text is left out. */
export function textsOf(value: unknown): readonly string[] {
  return listOf(value).flatMap((item) => textOf(item) ?? []);
}

/** Epoch milliseconds that a date can hold. */
export function timeOf(value: unknown): number | undefined {
  const at = numberOf(value);
  return at !== undefined && Math.abs(at) <= 8.64e15 ? at : undefined;
}

/** ISO text with milliseconds. */
export function isoTime(at: number): string {
  return new Date(at).toISOString();
}

type Timestamp = temporal.api.history.v1.IHistoryEvent['eventTime'];

/** Epoch milliseconds of a protobuf timestamp. */
export function timestampMs(timestamp: Timestamp): number | undefined {
  if (timestamp === null || timestamp === undefined) return undefined;
  return Number(timestamp.seconds ?? 0) * 1000 + Math.floor((timestamp.nanos ?? 0) / 1e6);
}

type Payloads = temporal.api.common.v1.IPayloads | null | undefined;
type Payload = temporal.api.common.v1.IPayload;

/** A payload's value; a marker without content where it cannot be read. */
export function payloadValue(payload: Payload): unknown {
  return payloadConverter.fromPayload<unknown>(payload);
}

/** The first of several payloads: every activity and run takes one value and gives one. */
export function firstValue(payloads: Payloads): unknown {
  const first = payloads?.payloads?.[0];
  return first ? payloadValue(first) : undefined;
}
