/** What a run keeps of a step that it was stopped in. */
import { RunStopped } from '../../../workflows/engine/failures';
import { Run } from '../../../workflows/engine/run';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  CancellationScope: { current: () => ({ cancelRequested: new Promise(() => undefined) }) },
}));
jest.mock('../../../workflows/engine/activity-calls', () => ({}));
jest.mock('../../../workflows/engine/interceptors', () => ({
  inStep: (_state: unknown, _step: unknown, body: () => unknown) => body(),
}));

it('what was done before the stop was heard is told as done, and no further step begins', async () => {
  const facts: { readonly outcome?: string }[] = [];
  const nothing = () => undefined;
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
