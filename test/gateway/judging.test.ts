/** What the gateway forwards of a message, and how much of them. */
import protos from '@temporalio/proto/protos/root';
import type { Root } from 'protobufjs';
import { Budget } from '../../src/gateway/budget';
import { judge, KNOWN_METHODS, methodsFor } from '../../src/gateway/judging';

// Untyped there: the root of all definitions.
const definitions = protos as unknown as Root;
const WORKFLOW = '/temporal.api.workflowservice.v1.WorkflowService/';
const SERVED = { namespace: 'n', taskQueue: 'q' };

const encoded = (path: string, message: object): Buffer => {
  const type = definitions.lookupType(KNOWN_METHODS.get(path) ?? '');
  return Buffer.from(type.encode(type.fromObject(message)).finish());
};
/** A field with a number that no message has. */
const UNKNOWN = Buffer.from([0xfa, 0x3f, 3, 0x65, 0x76, 0x69]);
const passes = (path: string, bytes: Buffer) => Buffer.from(judge('operators', path, bytes, SERVED).message);

describe('the gateway', () => {
  it('passes some method of each side, and starts on one side only', () => {
    const people = methodsFor('people');
    expect(people.length).toBeGreaterThan(10);
    expect(methodsFor('operators').filter((path) => !people.includes(path))).toEqual([
      `${WORKFLOW}StartWorkflowExecution`,
    ]);
    for (const path of people) expect(KNOWN_METHODS.has(path)).toBe(true);
  });

  it('passes no method that ends, resets, deletes, polls, completes or changes, but signals, updates and starts of runs', () => {
    const harmful =
      /\/(Terminate|Reset|Delete|Poll|Respond|Record|Start|Stop|Signal|Execute|Update|Create|Register|Deprecate|Pause|Unpause|Shutdown|Set|Patch|Trigger|RequestCancel|Fetch|Add|Remove)/;
    expect([...KNOWN_METHODS.keys()].filter((path) => harmful.test(path)).length).toBeGreaterThan(60);
    expect(methodsFor('operators').filter((path) => harmful.test(path))).toEqual(
      [
        'SignalWorkflowExecution',
        'UpdateWorkflowExecution',
        'PollWorkflowExecutionUpdate',
        'StartWorkflowExecution',
      ].map((name) => `${WORKFLOW}${name}`),
    );
  });

  it.each([
    ['a read', 'DescribeWorkflowExecution', { namespace: 'n', execution: { workflowId: 'w' } }],
    ['a query', 'QueryWorkflow', { namespace: 'n', execution: { workflowId: 'w' }, query: { queryType: 'status' } }],
    [
      'a signal',
      'SignalWorkflowExecution',
      { namespace: 'n', workflowExecution: { workflowId: 'w' }, signalName: 'abort' },
    ],
  ])('drops unknown fields of %s', (_name, method, message) => {
    const path = `${WORKFLOW}${method}`;
    const known = encoded(path, message);
    expect(passes(path, Buffer.concat([known, UNKNOWN]))).toEqual(passes(path, known));
    const inside = Buffer.concat([known, Buffer.from([0x12, UNKNOWN.length]), UNKNOWN]);
    expect(passes(path, inside).includes('evi')).toBe(false);
  });

  it.each([
    [
      'another namespace',
      'GetWorkflowExecutionHistory',
      encoded(`${WORKFLOW}GetWorkflowExecutionHistory`, { namespace: 'm' }),
      7,
    ],
    ['no namespace', 'ListWorkflowExecutions', Buffer.alloc(0), 7],
    [
      'a query that nobody asks',
      'QueryWorkflow',
      encoded(`${WORKFLOW}QueryWorkflow`, { namespace: 'n', query: { queryType: 'x' } }),
      7,
    ],
    ['no message', 'GetSystemInfo', Buffer.from([0x0a, 0xff, 0x65, 0x76, 0x69]), 3],
  ])('refuses %s, and does not repeat it', (_name, method, bytes, code) => {
    const refused = () => judge('people', `${WORKFLOW}${method}`, bytes, SERVED);
    expect(refused).toThrow(expect.objectContaining({ code }) as Error);
    expect(refused).not.toThrow(/evi/);
  });
});

describe('a budget', () => {
  it('lets a sender begin with twenty, and then send one every ten seconds', () => {
    let now = 0;
    const budget = new Budget(() => now);
    const sent = (times: number) => Array.from({ length: times }, () => budget.take('ada')).filter(Boolean).length;
    expect(sent(50)).toBe(20);
    expect(budget.take('bert')).toBe(true);
    now = 9_999;
    expect(sent(5)).toBe(0);
    now = 30_000;
    expect(sent(5)).toBe(3);
    now = 10_000_000;
    expect(sent(50)).toBe(20);
  });

  it('forgets only senders whose budget is whole again, and refuses strangers while it can remember no more', () => {
    let now = 0;
    const budget = new Budget(() => now);
    for (let index = 0; index < 10_000; index += 1) budget.take(`sender ${index}`);
    expect(budget.take('one more')).toBe(false);
    for (let count = 0; count < 19; count += 1) expect(budget.take('sender 7')).toBe(true);
    now = 10_000;
    expect(budget.take('one more')).toBe(true);
    expect([1, 2].map(() => budget.take('sender 7'))).toEqual([true, false]);
  });
});
