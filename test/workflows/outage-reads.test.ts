/** Inside an outage a step that only reads never waits for a person: what it could not read is not proven. */
import { StepFailed } from '../../workflows/engine/failures';
import type { Run } from '../../workflows/engine/run';
import { changePrimary } from '../../workflows/procedures/change-primary';
import type { PrimaryChange } from '../../workflows/procedures/change-primary';

jest.mock('../../workflows/procedures/service-back', () => ({ serviceBack: jest.fn() }));

const COMPARE = 'Compare the data of both clusters';
const READ = 'Read the roles';

/** A change whose steps of these names fail for good; the steps in their order, and what was told. */
async function change(failing: readonly string[], acceptLoss: 'none' | 'bounded', compared: object = {}) {
  const steps: string[] = [];
  const findings: { readonly code: string; readonly text: string }[] = [];
  const calls = {
    demotePrimary: () => Promise.resolve({}),
    compareAfterDemotion: () => Promise.resolve(compared),
    readDeployment: () => Promise.resolve({ observations: [] }),
    promoteSecondary: () => Promise.resolve({}),
  };
  const step = async (
    name: string,
    body: (call: typeof calls) => Promise<unknown>,
    options: { onFailure?: unknown },
  ) => {
    steps.push(name);
    if (!failing.includes(name)) return body(calls);
    // Anything else would park it.
    expect([name, options.onFailure]).toEqual([name, 'throw']);
    throw new StepFailed(name, { code: 'UNREACHABLE', message: 'nobody answers', outcomeKnown: true });
  };
  const run = {
    state: { enterPhase: () => undefined, finding: (finding: (typeof findings)[0]) => void findings.push(finding) },
    step,
    skippableStep: (name: string, _effect: string, body: never, options: never) => step(name, body, options),
  } as unknown as Run;
  const asked = {
    ...{ kind: 'performance', deployment: 'payments', gate: 'promote', onStuck: 'promote-back', acceptLoss },
    route: { from: 'east', to: 'west', hooks: {} },
    approvals: { begin: (_gate: string, body: (authority: object) => unknown) => body({}), authority: {} },
    marker: { wal: '7' },
  } as unknown as PrimaryChange;
  return { side: await changePrimary(run, asked), steps, findings };
}

it('a comparison that fails is no proof: the plan decides which cluster serves, at once', async () => {
  const back = await change([COMPARE], 'none');
  expect(back).toMatchObject({ side: 'old', steps: ['Demote east', COMPARE, READ, 'Promote east back'] });
  expect(back.findings).toEqual([expect.objectContaining({ code: 'loss-not-excluded' })]);
  expect(back.findings[0]?.text).toContain('accepts no loss, and none could not be proven');
  const on = await change([COMPARE], 'bounded');
  expect(on).toMatchObject({ side: 'new', steps: ['Demote east', COMPARE, 'Promote west'] });
  expect(on.findings).toEqual([expect.objectContaining({ code: 'loss-not-excluded' })]);
});

it('nor do roles that could not be read hold the way back: the promotion proves for itself what it needs', async () => {
  const { side, steps } = await change([READ], 'none', { loss: 'bounded', why: 'the roots differ' });
  expect([side, steps.at(-1)]).toEqual(['old', 'Promote east back']);
});
