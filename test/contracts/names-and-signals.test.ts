import type { Payload } from '@temporalio/common';
import fc from 'fast-check';
import { payloadConverter } from '../../src/contracts/payload-converter';
import { isUndecodable } from '../../src/contracts/signals';
import { ceremonyWorkflowId, deploymentWorkflowId, keyTaskQueue, lockWorkflowId } from '../../src/contracts/names';
import { clusterName, deploymentName } from '../../src/contracts/runbook-inputs';
import { approvalPayload, controlPayload, decisionPayload } from '../../src/contracts/payloads';

/** Workflow IDs are locks, so nothing may make two of one or one of two; people's documents have exactly their members. */

const name = fc.stringMatching(/^[a-z0-9-]{1,20}$/);

it('the lock of a run is the ID of its deployment, and of a ceremony that of its cluster', () => {
  expect(lockWorkflowId('drSwitchover', { deployment: 'payments' })).toBe('deployment:payments');
  expect(lockWorkflowId('drSwitchover', { deployment: 'payments', cluster: 'west' })).toBe('deployment:payments');
  expect(lockWorkflowId('operationTokenCeremony', { deployment: 'payments', cluster: 'west' })).toBe('ceremony:west');
  expect(keyTaskQueue('0123abcd')).toBe('runbooks.keys.0123abcd');
});

it('two deployments never share a lock, and no deployment shares one with a ceremony', () => {
  fc.assert(
    fc.property(name, name, (a, b) => {
      expect(deploymentWorkflowId(a) === deploymentWorkflowId(b)).toBe(a === b);
      expect(deploymentWorkflowId(a)).not.toBe(ceremonyWorkflowId(b));
    }),
    { seed: 1 },
  );
});

it('a name is lower-case letters, digits and hyphens, with no character that could end an ID or a path', () => {
  for (const good of ['payments', 'eu-1', '7']) expect(deploymentName.safeParse(good).success).toBe(true);
  for (const bad of ['', 'A', 'a b', 'a:b', 'a/b', '..', 'a\n', 'ä', 7, null])
    for (const schema of [deploymentName, clusterName]) expect(schema.safeParse(bad).success).toBe(false);
});

const DOCUMENT = { ns: 'default', wid: 'deployment:payments', rid: 'r', name: 'grace', iat: 1 };
const APPROVAL = { ...DOCUMENT, gate: 'plan', planDigest: 'd', verdict: 'approve' };
const DECISION = { ...DOCUMENT, step: 'Demote east', parkingNo: 1, action: 'retry', reason: 'it is back' };
const ORDER = { ...DOCUMENT, action: 'abort' };

it.each([
  ['an approval', approvalPayload, APPROVAL, { verdict: 'maybe' }],
  ['a decision', decisionPayload, DECISION, { action: 'demote', parkingNo: 1.5, reason: 'no' }],
  ['an order to a run', controlPayload, ORDER, { action: 'terminate' }],
] as const)('%s has exactly its members, with values that mean something', (_name, schema, whole, wrong) => {
  expect(schema.safeParse(whole).success).toBe(true);
  const missing = Object.keys(whole).map((member) => ({ [member]: undefined }));
  const changed = Object.entries<unknown>(wrong).map(([member, value]) => ({ [member]: value }));
  for (const change of [{ extra: 1 }, ...missing, ...changed])
    expect([change, schema.safeParse({ ...whole, ...change }).success]).toEqual([change, false]);
});

/** Whatever people paste into a start form or a signal, decoding it never throws and never repeats it. */

const ENCODINGS = ['json/plain', 'json/protobuf', 'binary/protobuf', 'binary/plain', 'binary/null', 'binary/encrypted'];
const CANARY = 'hvs.canaryInAPayload0123456789';
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

const encoding = fc.oneof(fc.constantFrom(...ENCODINGS).map(bytes), fc.uint8Array({ maxLength: 90 }));
const messageType = fc.uint8Array({ maxLength: 40 });
const metadata = fc.option(fc.record({ encoding, messageType }, { requiredKeys: [] }));
const data = fc.option(fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.string().map(bytes), fc.json().map(bytes)));

it('never throws, for any metadata and any data', () => {
  const read = (payload: Payload) => expect(() => payloadConverter.fromPayload(payload)).not.toThrow();
  fc.assert(
    fc.property(metadata, data, (each, content) => {
      read({ metadata: each, data: content });
    }),
    { numRuns: 1_000, seed: 7 },
  );
});

it('returns every value that it wrote', () => {
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
  ['JSON that is nested without end', 'json/plain', `${'['.repeat(200_000)}"${CANARY}"${']'.repeat(200_000)}`],
  ['an unknown encoding', CANARY, CANARY],
])('%s becomes a marker without content', (_name, named, content) => {
  const value = payloadConverter.fromPayload({ metadata: { encoding: bytes(named) }, data: bytes(content) });
  expect(isUndecodable(value)).toBe(true);
  expect(value).toEqual({ undecodable: true });
});
