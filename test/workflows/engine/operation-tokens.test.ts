/** How long a token that was made is used, and what becomes of it then. */
import type { CeremonyTarget, OperationTokenReference } from '../../../src/contracts/ceremony';
import { OperationTokens } from '../../../workflows/procedures/operation-tokens';
import type { Run } from '../../../workflows/engine/run';
import type { TokenCeremony } from '../../../workflows/procedures/token-ceremony';

const HOUR = 3_600_000;
const TARGETS: readonly CeremonyTarget[] = [{ cluster: 'west', uses: ['dr.promote'] }];

afterEach(() => jest.restoreAllMocks());

/** A run whose ceremony makes tokens with numbers, and what is deleted at its end. */
function making() {
  const deleted: unknown[] = [];
  const deleteOperationTokens = ({ tokens }: { readonly tokens: readonly unknown[] }) => {
    deleted.push(...tokens);
    return Promise.resolve({ disposals: [], findings: [] });
  };
  const run = {
    onEnd: () => undefined,
    state: { noteFindings: () => undefined },
    skippableStep: (_name: string, _effect: string, body: (call: unknown) => unknown) =>
      body({ deleteOperationTokens }),
  } as unknown as Run;
  let made = 0;
  const ceremony = {
    generate: (cluster: string) => Promise.resolve({ source: 'sealed', cluster, value: `token ${++made}` }),
    isCurrent: () => true,
    close: () => Promise.resolve(),
  } as unknown as TokenCeremony;
  return { tokens: new OperationTokens(run, 'payments', TARGETS, ceremony), deleted };
}

it('a token that may not open any more is made anew, and the old one, which is alive, is deleted too', async () => {
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
