/** What a run looks at of a flood, and when it hears people again. */
import { setHandler } from '@temporalio/workflow';
import { Signals } from '../../../workflows/engine/signals';

jest.mock('@temporalio/workflow', () => ({
  ...jest.requireActual<object>('@temporalio/workflow'),
  defineSignal: (name: string) => `signal ${name}`,
  defineUpdate: (name: string) => `update ${name}`,
  setDefaultSignalHandler: () => undefined,
  patched: () => true,
  setHandler: jest.fn(),
}));

const DAY_MS = 24 * 3_600_000;

afterEach(() => jest.useRealTimers());

it.each([
  ['updates', 'update decide', false],
  ['signals', 'signal decide', false],
  ['signals beyond those whose names are read', 'signal decide', true],
])('a flood of %s silences nobody for good, but where it goes on', (_of, way, goesOn) => {
  jest.useFakeTimers({ now: 0 });
  jest.mocked(setHandler).mockClear();
  const inbox = new Signals();
  inbox.registerHandlers();
  const [, handler, options] =
    jest.mocked(setHandler).mock.calls.find(([name]: readonly unknown[]) => name === way) ?? [];
  const { validator } = (options ?? {}) as { readonly validator?: (input: unknown) => void };
  const give = (name: string): boolean => {
    try {
      validator?.({ name });
    } catch {
      return false;
    }
    (handler as (input: unknown) => unknown)({ name });
    return inbox.take('decide').length > 0;
  };
  const heard = Array.from({ length: goesOn ? 1_000 : 400 }, (_, index) => give(`nobody ${index % 10}`)).filter(
    Boolean,
  );
  expect(heard).toHaveLength(200);
  expect(give('grace')).toBe(false);
  jest.setSystemTime(DAY_MS);
  expect(give('grace')).toBe(!goesOn);
});
