import { startStage } from '../../src/cli/demo/stage';
import type { Stage } from '../../src/cli/demo/stage';
import { demonstrate, PLAIN_ACTS } from '../../src/cli/demo/main';
import { PLAIN } from '../../src/cli/demo/payments';
import { temporaryDirectory } from '../support/directory';

jest.setTimeout(300_000);

/** A site before anybody has built anything for runbooks: what the other tests take for granted is not there. */
describe('a site without hooks and static tokens', () => {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(line);
  const directory = temporaryDirectory('plain');
  let stage: Stage;

  beforeAll(async () => {
    stage = await startStage({ reportDirectory: directory, site: PLAIN, say });
  });
  afterAll(() => stage.stop());

  it('switches over without loss while clients write and the primary writes canaries, fails over, and rejoins', async () => {
    const well = await demonstrate(stage, PLAIN_ACTS, { say, verbose: true, stop: AbortSignal.timeout(280_000) });
    const text = lines.join('\n');
    if (!well) throw new Error(text);
    expect(text).toContain('every acknowledged write is there');
    // What only --verbose shows.
    expect(text).toMatch(/== Protection is being restored\n[^]*runbook approve deployment:payments --gate promote\n/);
    expect(text).toMatch(/Completed: drSwitchover of payments \(.*\n(.*\n)*? {2}No data lost: /);
    for (const { rootToken } of stage.payments.service.clusters.values()) expect(text).not.toContain(rootToken);
  });
});
