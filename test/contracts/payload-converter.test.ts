/** Whatever people paste into a start form or a signal, decoding it never throws and never repeats it. */
import type { Payload } from '@temporalio/common';
import { defaultPayloadConverter } from '@temporalio/common';
import fc from 'fast-check';
import { payloadConverter } from '../../src/contracts/payload-converter';
import { isUndecodable } from '../../src/contracts/signals';

const ENCODINGS = ['json/plain', 'json/protobuf', 'binary/protobuf', 'binary/plain', 'binary/null', 'binary/encrypted'];
const CANARY = 'hvs.canaryInAPayload0123456789';
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const metadata = fc.oneof(
  fc.constant(undefined),
  fc.constant({}),
  fc.record({ encoding: fc.oneof(fc.constantFrom(...ENCODINGS).map(bytes), fc.uint8Array({ maxLength: 90 })) }),
  fc.record({
    encoding: fc.constantFrom(...ENCODINGS).map(bytes),
    messageType: fc.uint8Array({ maxLength: 40 }),
  }),
);
const data = fc.oneof(
  fc.constant(undefined),
  fc.constant(null),
  fc.uint8Array({ maxLength: 200 }),
  fc.string().map(bytes),
  fc.json().map(bytes),
);

it('never throws, for any metadata and any data', () => {
  fc.assert(
    fc.property(metadata, data, (each, content) => {
      const payload: Payload = { metadata: each ?? null, data: content ?? null };
      const value: unknown = payloadConverter.fromPayload(payload);
      if (isUndecodable(value) && !decodes(payload)) expect(['unknown', ...ENCODINGS]).toContain(value.undecodable);
    }),
    { numRuns: 1_000, seed: 7 },
  );
});

function decodes(payload: Payload): boolean {
  try {
    defaultPayloadConverter.fromPayload(payload);
    return true;
  } catch {
    return false;
  }
}

it('gives back every value that it wrote', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(payloadConverter.fromPayload(payloadConverter.toPayload(value))).toEqual(
        JSON.parse(JSON.stringify(value)) as unknown,
      );
    }),
    { numRuns: 200, seed: 7 },
  );
});

it.each([
  ['JSON that is not JSON', 'json/plain', `{"share": "${CANARY}"`],
  ['a protocol buffer message without its type', 'json/protobuf', `{"share": "${CANARY}"}`],
  ['an encrypted payload', 'binary/encrypted', CANARY],
  ['an encoding that nobody knows', CANARY, CANARY],
])('%s becomes a marker without content', (_name, encoding, content) => {
  const value: unknown = payloadConverter.fromPayload({
    metadata: { encoding: bytes(encoding) },
    data: bytes(content),
  });
  expect(isUndecodable(value)).toBe(true);
  expect(value).toEqual({ undecodable: ENCODINGS.includes(encoding) ? encoding : 'unknown' });
  expect(JSON.stringify(value)).not.toContain('canary');
});
