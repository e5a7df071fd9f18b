/** What becomes of an approval while time passes: windows that end, plans that change, holders who were asked for less. */
import { ApplicationFailure } from '@temporalio/common';
import type { ApprovalNumbers, Assessment } from '../../../src/contracts/activities';
import type { CeremonyTarget } from '../../../src/contracts/ceremony';
import { APPROVALS_TOO_OLD } from '../../../src/contracts/plan';
import { approvePlan } from '../../../workflows/procedures/approved-plan';
import type { PlanRequest, TokenNeed } from '../../../workflows/procedures/approved-plan';
import { RunStopped } from '../../../workflows/engine/failures';
import { passGate } from '../../../workflows/engine/gates';
import { fakeRun } from '../../support/fake-run';

jest.mock('../../../workflows/engine/gates', () => ({ passGate: jest.fn() }));
jest.mock('../../../workflows/procedures/token-ceremony', () => ({
  TokenCeremony: class {
    constructor(
      _run: unknown,
      readonly request: { readonly targets: readonly CeremonyTarget[] },
    ) {}
    readonly source = 'ceremony';
    readonly fingerprint = 'own';
    async ready(): Promise<void> {}
    withdraw(): void {
      collected.push([]);
    }
    // No host of keys answers.
    abandon = () => new Promise<void>(() => undefined);
    async collect(): Promise<void> {
      collected.push(this.request.targets.map(({ cluster }) => cluster));
    }
    covers({ cluster, uses }: CeremonyTarget): boolean {
      const target = this.request.targets.find((each) => each.cluster === cluster);
      return target !== undefined && uses.every((use) => target.uses.includes(use));
    }
  },
}));

/** The route of these tests: which cluster the plan is about. */
interface Route {
  readonly heir: string;
  readonly others?: readonly string[];
}

let collected: string[][] = [];
const START = Date.parse('2026-03-01T12:00:00Z');
const WINDOW = { notAfter: '2026-03-01T13:00:00Z' };
const LATER = 2 * 3_600_000;
const VALID_FOR = 4 * 3_600_000;
const gate = jest.mocked(passGate);

/** A run that reads these routes, one after the other, none of which needs gate unfence; waiting for the clock takes no time. */
function reading(routes: readonly ((step: string) => Route)[]) {
  const readings = [...routes];
  const waitFor = (_until: unknown, milliseconds: number) => {
    jest.advanceTimersByTime(milliseconds);
    return Promise.resolve(false);
  };
  const { run, findings, steps } = fakeRun({ run: { waitFor } });
  const assess = (): Promise<Assessment<Route>> => {
    const route = (readings.length > 1 ? readings.shift() : readings[0])?.(steps.at(-1) ?? '') ?? { heir: 'west' };
    const policy = { approvals: 1, approvers: ['grace'], validForMs: VALID_FOR };
    return Promise.resolve({
      observations: [],
      preconditions: [],
      plan: { text: route.heir, digest: route.heir },
      route,
      site: {},
      gates: { promote: policy, force: policy, wipe: policy },
    } as unknown as Assessment<Route>);
  };
  return { run, assess, steps, codes: () => findings.map(({ code }) => code) };
}

type More = Partial<Omit<PlanRequest<Route>, 'input' | 'assess'>> & Pick<PlanRequest<Route>['input'], 'window'>;

async function approve({ run, assess }: ReturnType<typeof reading>, { window, ...more }: More = {}) {
  const input = { deployment: 'payments', reason: 'a test', dryRun: false, window };
  const approved = await approvePlan<Route>(run, {
    input,
    assess,
    ...(more.gateIfNeeded ? {} : { gate: 'promote' as const }),
    ...more,
  });
  if ('outcome' in approved) throw new Error('not approved');
  return approved;
}

const west = () => ({ heir: 'west' });
const north = () => ({ heir: 'north' });
const opened = () => gate.mock.calls.map(([, request]) => [request.gate, request.planDigest]);

beforeEach(() => {
  jest.useFakeTimers({ now: START });
  collected = [];
  gate.mockReset().mockResolvedValue({});
});
afterEach(() => jest.useRealTimers());

/** Passes a gate so late that the window is over. */
const late = (approvals: ApprovalNumbers = {}) => {
  jest.advanceTimersByTime(LATER);
  return Promise.resolve(approvals);
};

describe('a change window', () => {
  const tooLate = ['reason', expect.stringContaining('the change window ended')] as const;

  it('has ended if reading again took until after it', async () => {
    const slowly = () => {
      void late();
      return west();
    };
    await expect(approve(reading([west, slowly]), { window: WINDOW })).rejects.toHaveProperty(...tooLate);
  });

  it('has ended for the operations of a further gate after it; not inside an outage', async () => {
    const world = reading([west]);
    const { approvals } = await approve(world, { window: WINDOW });
    gate.mockImplementationOnce(() => late()).mockImplementationOnce(() => late({ force: [7] }));
    await expect(approvals.further('force')).rejects.toBeInstanceOf(RunStopped);
    Object.assign(world.run.state, { serviceIsOut: true });
    await approvals.further('force');
    expect(approvals.authority.approvals).toEqual({ force: [7] });
  });

  it('that was waited for makes readings old, also if no one was asked', async () => {
    const world = reading([west]);
    await approve(world, { window: { notBefore: '2026-03-01T12:30:00Z', ...WINDOW }, gateIfNeeded: 'unfence' });
    expect(world.steps).toEqual(['Read and check the deployment', 'Read and check again']);
    const open = reading([west]);
    await approve(open, { window: WINDOW, gateIfNeeded: 'unfence' });
    expect(open.steps).toEqual(['Read and check the deployment']);
  });
});

describe('approvals that an activity judges too old right before a change', () => {
  const tooOld = (about?: string, outcomeKnown = true) =>
    ApplicationFailure.create({ type: 'NOT_APPROVED', message: 'too old', details: [{ about, outcomeKnown }] });

  it('the run does not wait for people while the effect of an earlier try is unknown: the next one reads first', async () => {
    const { approvals } = await approve(reading([west]), { gate: 'wipe' });
    const begin = jest.fn<Promise<string>, []>().mockRejectedValueOnce(tooOld(APPROVALS_TOO_OLD, false));
    begin.mockResolvedValueOnce('was done');
    await expect(approvals.begin('wipe', begin)).rejects.toThrow('too old');
    expect(await approvals.begin('wipe', begin)).toBe('was done');
    expect(opened()).toHaveLength(1);
  });

  it('no one is asked again if new ones would not help', async () => {
    const { approvals } = await approve(reading([west]), { gate: 'wipe' });
    const begin = () => approvals.begin('wipe', () => Promise.reject(tooOld()));
    await expect(begin()).rejects.toThrow('too old');
    await expect(begin()).rejects.toThrow('too old');
    expect(opened()).toHaveLength(1);
  });
});

describe('a plan that changed while people were waited for', () => {
  it('is approved again, and not by approvals of the plan before', async () => {
    gate.mockResolvedValueOnce({ promote: [1] }).mockResolvedValueOnce({ promote: [2] });
    const { approvals } = await approve(reading([west, north]));
    expect(opened()).toEqual([
      ['promote', 'west'],
      ['promote', 'north'],
    ]);
    expect(approvals.authority).toMatchObject({ plan: { digest: 'north' }, approvals: { promote: [2] } });
  });

  const need =
    (all: boolean) =>
    ({ heir, others = [] }: Route): TokenNeed => ({
      source: 'ceremony',
      targets: [heir, ...others].map((cluster) => ({
        cluster,
        uses: all || cluster === heir ? (['dr.promote'] as const) : (['dr.update-primary'] as const),
      })),
      essential: { cluster: heir, uses: ['dr.promote'] },
    });
  const changing = () => reading([() => ({ heir: 'west', others: ['north'] }), north]);

  it('asks the holders again if they were asked for other operations on its targets', async () => {
    const world = changing();
    const { tokens } = await approve(world, { tokens: need(false) });
    expect(collected).toEqual([['west', 'north'], ['north']]);
    expect(world.codes()).toEqual(['plan-changed', 'shares-asked-again']);
    expect(tokens?.covers({ cluster: 'north', uses: ['dr.promote'] })).toBe(true);
  });

  it.each([
    [['batch', 'ceremony'], 'the holders are asked', [['west']]],
    [['ceremony', 'batch'], 'their invitation has expired, and no run waits for their keys', [['west'], []]],
  ] as const)('is approved again if its tokens now come from elsewhere: %j, %s', async ([before, now], _, then) => {
    const world = reading([west, north]);
    const source = ({ heir }: Route) => (heir === 'west' ? before : now);
    const { tokens } = await approve(world, { tokens: (route) => ({ ...need(true)(west()), source: source(route) }) });
    expect(world.codes()).toEqual(['plan-changed']);
    expect(opened()).toEqual([
      ['promote', 'west'],
      ['promote', 'north'],
    ]);
    expect(collected).toEqual(then);
    expect(tokens?.ceremony?.source ?? 'batch').toBe(now);
  });

  it('asks no holder again if they were asked for every cluster that may become the target', async () => {
    const world = changing();
    const { tokens } = await approve(world, { tokens: need(true) });
    expect(world.codes()).toEqual(['plan-changed']);
    expect(tokens?.covers({ cluster: 'north', uses: ['dr.promote'] })).toBe(true);
  });
});
