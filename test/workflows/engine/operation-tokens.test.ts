/** How long a token that was made is used, what becomes of it then, and what is done where the record keeps none any more. */
import type { FailureFacts } from '../../../workflows/engine/failures';
import { OutageDecision } from '../../../workflows/engine/failures';
import type { CeremonyTarget, OperationTokenReference } from '../../../src/contracts/ceremony';
import { OperationTokens } from '../../../workflows/procedures/operation-tokens';
import type { TokenCeremony } from '../../../workflows/procedures/token-ceremony';
import { LEAVE } from '../../../workflows/engine/parking';
import { fakeRun } from '../../support/fake-run';
import { signalled } from '../../support/faults';

const HOUR = 3_600_000;
const TARGETS: readonly CeremonyTarget[] = [{ cluster: 'west', uses: ['dr.promote'] }];

afterEach(() => jest.restoreAllMocks());

/** A run whose ceremony makes tokens with numbers, what is deleted at its end, and what it tells. */
function making(failure?: FailureFacts, held: 'ceremony' | 'batch' | 'kept' = 'ceremony') {
  const deleted: unknown[] = [];
  const deleteOperationTokens = ({ tokens }: { readonly tokens: readonly unknown[] }) => {
    deleted.push(...tokens);
    return Promise.resolve({ disposals: [], findings: [] });
  };
  const failing = failure && { 'Claim the kept operation token of west': [failure] };
  const takeKeptToken = () => Promise.resolve({ token: 'kept token' });
  const { run, findings } = fakeRun({ calls: { deleteOperationTokens, takeKeptToken }, ...(failing && { failing }) });
  let made = 0;
  const ceremony = {
    generate: (cluster: string) => Promise.resolve({ source: 'sealed', cluster, value: `token ${++made}` }),
    ...{ isCurrent: () => true, ready: () => Promise.resolve(), collect: () => Promise.resolve() },
    ...{ close: () => Promise.resolve(), abandon: () => Promise.resolve() },
  } as unknown as TokenCeremony;
  const kept = failure || held === 'kept' ? [{ cluster: 'west', entry: 'an entry', text: 'kept' }] : [];
  const isMade = !failure && held !== 'batch';
  const tokens = new OperationTokens(run, 'payments', TARGETS, isMade ? ceremony : undefined, () => ceremony, kept);
  tokens.authorize({} as never);
  return { tokens, deleted, findings };
}

it('a token that may no longer open is generated again, and the old one, which is still valid, is deleted too', async () => {
  const { tokens, deleted } = making();
  const now = jest.spyOn(Date, 'now').mockReturnValue(0);
  const at = async (hours: number): Promise<OperationTokenReference> => {
    now.mockReturnValue(hours * HOUR);
    return tokens.of('west');
  };
  const [first, second] = ['token 1', 'token 2'].map((value) => ({ source: 'sealed', cluster: 'west', value }));
  expect([await at(0), await at(22)]).toEqual([first, first]);
  expect([await at(23), await at(45)]).toEqual([second, second]);
  await tokens.dispose();
  expect(deleted).toEqual([first, second]);
});

it('a kept token that grew too old: the holders, who were asked for another cluster, are asked for this one', async () => {
  const { tokens, deleted, findings } = making(undefined, 'kept');
  const now = jest.spyOn(Date, 'now').mockReturnValue(0);
  const kept = { source: 'sealed', cluster: 'west', value: 'kept token' };
  expect(await tokens.of('west')).toEqual(kept);
  now.mockReturnValue(24 * HOUR);
  expect(await tokens.of('west')).toMatchObject({ value: 'token 1' });
  expect(findings).toMatchObject([{ code: 'kept-token-refused', text: expect.stringContaining('too old') as string }]);
  await tokens.dispose();
  expect(deleted).toContainEqual(kept);
});

describe('a kept token that cannot be taken', () => {
  const gone: FailureFacts = {
    ...{ code: 'PRECONDITION_FAILED', message: 'The record keeps none.', observed: 'another run took it' },
    outcomeKnown: true,
  };

  it('for certain: the holders are asked instead', async () => {
    const { tokens, findings } = making(gone);
    expect(await tokens.of('west')).toEqual({ source: 'sealed', cluster: 'west', value: 'token 1' });
    expect(findings.map((each) => each.code)).toEqual(['kept-token-refused']);
    expect(findings[0]?.text).toContain(
      'cannot be used: The record keeps none. Observed: another run took it. The key',
    );
  });

  it('keys with which others were asked are destroyed, and no run waits for their host; if the run is stopped meanwhile, at its end', async () => {
    const called: string[] = [];
    const calling = (name: string) => () => {
      called.push(name);
      return Promise.resolve();
    };
    const host = signalled();
    const abandon = () => calling('abandon')().then(() => host.promise);
    const before = { abandon } as unknown as TokenCeremony;
    const ready = () => calling('ready')().then(() => Promise.reject(new OutageDecision('leave')));
    const people = { ready } as unknown as TokenCeremony;
    const failing = { 'Claim the kept operation token of west': [gone] };
    const deleteOperationTokens = () => Promise.resolve({ disposals: [], findings: [] });
    const { run, end } = fakeRun({ failing, calls: { deleteOperationTokens } });
    const kept = [{ cluster: 'west', entry: 'an entry', text: 'kept' }];
    const tokens = new OperationTokens(run, 'payments', TARGETS, before, () => people, kept);
    tokens.authorize({} as never);
    await expect(tokens.of('west')).rejects.toBeInstanceOf(OutageDecision);
    expect(called).toEqual(['abandon', 'ready']);
    host.resolve();
    await end();
    expect(called).toEqual(['abandon', 'ready', 'abandon']);
  });

  it.each([
    ['its outcome is unknown', { ...gone, outcomeKnown: false }],
    ['it is not approved, as nothing of this run is by another inventory', { ...gone, code: 'NOT_APPROVED' }],
    ['the record cannot be read', { ...gone, code: 'RECORD_UNAVAILABLE' }],
  ])('parks if %s', async (_, failure) => {
    await expect(making(failure).tokens.of('west')).rejects.toBeInstanceOf(OutageDecision);
  });
});

describe('the holders are asked instead of a batch token', () => {
  const failed = (code: string): FailureFacts => ({
    code,
    message: 'The sealed value is refused.',
    outcomeKnown: true,
  });
  it.each(['PERMISSION_DENIED', 'SEALED_VALUE_INVALID', 'CREDENTIAL_UNAVAILABLE', 'TOKEN_SOURCE_UNAVAILABLE'])(
    'that a promotion refuses with %s, and once',
    async (code) => {
      const { tokens, findings } = making(undefined, 'batch');
      expect(await tokens.of('west')).toEqual({ source: 'batch', cluster: 'west' });
      expect(await tokens.replaceRefused('west', failed(code))).toBe(true);
      expect(await tokens.of('west')).toEqual({ source: 'sealed', cluster: 'west', value: 'token 1' });
      expect(findings).toMatchObject([{ code: 'batch-token-refused' }]);
      expect(findings[0]?.text).toContain('batch token of west cannot be used: The sealed value is refused. The key');
      expect(await tokens.replaceRefused('west', failed(code))).toBe(false);
    },
  );

  it('with the choices of the outage from the invitation on; if people go another way, without them', async () => {
    const ready = jest.fn(() => Promise.reject(new OutageDecision('promote-back')));
    const people = { ready } as unknown as TokenCeremony;
    const tokens = new OperationTokens(fakeRun().run, 'payments', TARGETS, undefined, () => people, []);
    const replaced = tokens.replaceRefused('west', failed('PERMISSION_DENIED'), [LEAVE]);
    await expect(replaced).rejects.toBeInstanceOf(OutageDecision);
    expect(ready.mock.calls).toEqual([[[LEAVE]]]);
    expect(await tokens.of('east')).toEqual({ source: 'batch', cluster: 'east' });
  });

  it('and of no other refusal; nor of a kept one that does not open, which may be valid', async () => {
    expect(await making(undefined, 'batch').tokens.replaceRefused('west', failed('NOT_CAUGHT_UP'))).toBe(false);
    expect(await making(failed('any')).tokens.replaceRefused('west', failed('SEALED_VALUE_INVALID'))).toBe(false);
    expect(await making(failed('any')).tokens.replaceRefused('west', failed('PERMISSION_DENIED'))).toBe(true);
  });
});
