/** Workflow IDs are locks, so nothing may make two of one or one of two; people's documents have exactly their members. */
import fc from 'fast-check';
import { ceremonyWorkflowId, deploymentWorkflowId, keyTaskQueue, lockWorkflowId } from '../../src/contracts/names';
import { clusterName, deploymentName } from '../../src/contracts/runbook-inputs';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import { approvalPayload, controlPayload, decisionPayload } from '../../src/contracts/payloads';

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

it('a name is lower-case letters, digits and hyphens, and nothing that could end an ID or a path', () => {
  for (const good of ['payments', 'eu-1', '7']) expect(deploymentName.safeParse(good).success).toBe(true);
  for (const bad of ['', 'A', 'a b', 'a:b', 'a/b', '..', 'a\n', 'ä', 7, null])
    for (const schema of [deploymentName, clusterName]) expect(schema.safeParse(bad).success).toBe(false);
});

const APPROVAL = {
  ns: 'default',
  wid: 'deployment:payments',
  rid: 'r',
  gate: 'plan',
  planDigest: 'd',
  verdict: 'approve',
  comment: '',
  name: 'grace',
  iat: 1,
};
const DECISION = {
  ns: 'default',
  wid: 'deployment:payments',
  rid: 'r',
  step: 'Demote east',
  parkingNo: 1,
  action: 'retry',
  reason: 'it is back',
  name: 'grace',
  iat: 1,
};

it.each([
  ['approval', approvalPayload, APPROVAL],
  ['decision', decisionPayload, DECISION],
] as const)('an %s has exactly its members', (_name, schema, whole) => {
  expect(schema.safeParse(whole).success).toBe(true);
  expect(schema.safeParse({ ...whole, extra: 1 }).success).toBe(false);
  for (const member of Object.keys(whole).filter((each) => each !== 'comment')) {
    const rest = Object.fromEntries(Object.entries(whole).filter(([each]) => each !== member));
    expect([member, schema.safeParse(rest).success]).toEqual([member, false]);
  }
});

it.each([
  { ...DECISION, action: 'demote' },
  { ...DECISION, parkingNo: 0 },
  { ...DECISION, parkingNo: 1.5 },
  { ...DECISION, reason: 'no' },
  { ...APPROVAL, verdict: 'maybe' },
])('a document with a value that means nothing is refused: %j', (document) => {
  expect(approvalPayload.safeParse(document).success || decisionPayload.safeParse(document).success).toBe(false);
});

it('an order to a run names the run and who orders', () => {
  const order = { ns: 'default', wid: 'deployment:payments', rid: 'a', action: 'abort', name: 'ada', iat: 1 };
  expect(controlPayload.parse(order)).toEqual({ ...order, reason: '' });
  for (const wrong of [{ name: undefined }, { rid: undefined }, { action: 'terminate' }, { force: true }])
    expect(controlPayload.safeParse({ ...order, ...wrong }).success).toBe(false);
  expect(controlPayload.safeParse({ by: 'olga', reason: 'why' }).success).toBe(false);
});

it('only the marker counts as undecodable, and nothing that people made to look like one', () => {
  expect(isUndecodable({ undecodable: 'json/plain' })).toBe(true);
  for (const other of [undefined, null, 'undecodable', 1, {}, [], { undecodable: 1 }, { undecodable: 'a key share' }])
    expect(isUndecodable(other)).toBe(false);
});

it('every verdict on an envelope says what became of it', () => {
  for (const [code, text] of Object.entries(ENVELOPE_VERDICTS)) {
    expect(code).toMatch(/^[a-z]+(-[a-z]+)*$/);
    expect(text).toMatch(/^(accepted|refused: |already received: |replaced by )/);
  }
});
