/** An order to a whole run counts as a document of somebody who may decide here, made for this run and this order. */
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import type { ControlAction } from '../../src/contracts/signals';
import { DEPLOYMENT, openBench } from '../support/activity-environment';
import type { ActivityBench } from '../support/activity-environment';
import { controlOf } from '../support/people';

const RUN_THAT_ASKS = { wid: 'a-failover', rid: 'its-run' };

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  // Grace and henry sign and may decide, cleo signs and may not; ada may and is only claimed.
  person: (name) => (name === 'ada' ? { attestation: 'claimed', groups: ['approvers'] } : undefined),
});
beforeEach(() => {
  bench.history = { events: [] };
});

const order = (name: string, action: ControlAction = 'takeOver', rid = bench.run.rid) =>
  controlOf(bench.person(name), { ...bench.run, rid, action }).then(({ document }) => document);
const asked = (document: unknown) => ({
  ...{ deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'grace', takeOver: true },
  ...(document === undefined ? {} : { takeOverDocument: document }),
});
const check = async (action: ControlAction, content: unknown) => {
  const arrived = bench.signaled(action, [content]);
  const input = { deployment: DEPLOYMENT, action, arrived, before: [], requestedBy: 'olga' };
  const { verdicts } = await bench.call('checkControls', input);
  return verdicts[0];
};

it.each<[string, () => unknown, string]>([
  ['nothing but a name', () => undefined, 'a take-over needs a document'],
  ['a document that orders something else', () => order('grace', 'pause'), 'it orders something else'],
  ['a document about another run', () => order('grace', 'takeOver', 'another'), 'another run'],
  ['a document of somebody who may not decide here', () => order('cleo'), 'is for the approvers'],
  [
    'a name that is only claimed',
    () => ({ ...bench.run, action: 'takeOver', reason: 'a test', name: 'ada', iat: 1_700_000_000 }),
    'ada is only claimed',
  ],
])('a run is not taken over by %s, where it arrives and where it is asked for', async (_what, made, why) => {
  const document = await made();
  expect(await check('takeOver', asked(document))).toMatchObject({
    accepted: false,
    text: expect.stringContaining(why) as string,
  });
  const input = {
    workflowId: bench.run.wid,
    runId: bench.run.rid,
    input: RUNBOOK_INPUTS.drFailover.parse(asked(document)),
  };
  const { code } = await bench.failure('requestTakeOver', input, { run: { ...bench.run, ...RUN_THAT_ASKS } });
  expect(['NOT_APPROVED', 'DOCUMENT_INVALID']).toContain(code);
});

it.each(['abort', 'pause', 'resume', 'takeOver'] as const)('%s counts from a person who may decide', async (action) => {
  const of = async (ordered: ControlAction) => {
    const document = await order('henry', ordered);
    return action === 'takeOver' ? asked(document) : { document };
  };
  expect(await check(action, await of(action))).toMatchObject({ accepted: true, by: { name: 'henry', how: 'signed' } });
  const other = action === 'abort' ? 'pause' : 'abort';
  expect(await check(action, await of(other))).toMatchObject({ accepted: false, code: 'refused' });
});
