/** What a run keeps of a step that it was stopped in, or that people skipped. */
import { RunStopped, stepFailure } from '../../../workflows/engine/failures';
import { LeftToDo } from '../../../workflows/engine/left-to-do';
import { Run } from '../../../workflows/engine/run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  CancellationScope: class {
    static current(): object {
      return { cancelRequested: new Promise(() => undefined) };
    }
    readonly run = (body: () => unknown) => body();
    readonly cancel = () => undefined;
  },
}));
jest.mock('../../../workflows/engine/activity-calls', () => ({}));
jest.mock('../../../workflows/engine/parking', () => ({
  ...jest.requireActual<object>('../../../workflows/engine/parking'),
  Parking: class {
    readonly park = () => Promise.resolve({ action: 'skip', by: { name: 'grace' }, reason: 'later' });
  },
}));
jest.mock('../../../workflows/engine/interceptors', () => ({
  inStep: (_state: unknown, _step: unknown, body: () => unknown) => body(),
}));

const nothing = () => undefined;

it('work done before the stop arrived is reported as done, and no further step begins', async () => {
  const facts: { readonly outcome?: string }[] = [];
  const state = {
    ...{ steps: [], activities: { records: [] }, show: nothing, carriedOut: nothing },
    fact: (fact: object) => void facts.push(fact),
  };
  const run = new Run(state as never, { on: nothing } as never);
  const stopped = new RunStopped('grace', 'another day');
  const demoted = run.step('Demote east', () => {
    run.stop(stopped);
    return Promise.resolve({ outcome: 'done' });
  });
  await expect(demoted).rejects.toBe(stopped);
  await expect(run.step('Point east at west', () => Promise.resolve({}))).rejects.toBe(stopped);
  expect(state.steps).toEqual([expect.objectContaining({ name: 'Demote east', state: 'done' })]);
  expect(facts.map(({ outcome }) => outcome)).toEqual(['done']);
});

it('a step that people skipped is left to do under the item that settles it', async () => {
  const left = new LeftToDo();
  const quiet = { steps: [], left, show: nothing, fact: nothing, carriedOut: nothing };
  const run = new Run(quiet as never, { on: nothing } as never);
  const refused = () => Promise.reject(stepFailure('UNREACHABLE', 'west is silent'));
  await run.skippableStep('Release clients', 'they stay held', refused, { leftAs: 'clients' });
  expect(left.texts).toEqual(['"Release clients" was skipped: they stay held.']);
  left.settle('clients');
  expect(left.texts).toEqual([]);
});

it.each([
  ['CONFIRMATION_TIMEOUT', 1],
  ['OUTCOME_UNKNOWN', 1],
  ['ACTIVITY_TIMEOUT', 1],
  ['NOT_CAUGHT_UP', 0],
  ['PRECONDITION_FAILED', 0],
  ['NOT_APPROVED', 0],
  ['RUN_WAS_RESET', 0],
])(
  'a parked step keeps checking only if its time was over or its outcome is unknown: %s, %s times',
  async (code, times) => {
    const besideSteps = (_name: string, body: () => unknown) => body();
    const state = { steps: [], left: new LeftToDo(), show: nothing, fact: nothing, carriedOut: nothing, besideSteps };
    const run = new Run(state as never, { on: nothing } as never);
    const arrives = jest.fn(() => new Promise(() => undefined));
    await run.skippableStep('Promote west', 'none', () => Promise.reject(stepFailure(code, 'no')), { arrives });
    expect(arrives).toHaveBeenCalledTimes(times);
  },
);
