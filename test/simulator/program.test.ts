import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseTopology, startSimulatedService, startSimulator, type SimulatorState } from '../../src/simulator';
import { describeSimulator } from '../../src/simulator/program';

const TOPOLOGY = `
seed: 11
clusters:
  - { name: east, nodes: 3 }
  - { name: west, nodes: 1 }
dr:
  - { primary: east, secondaries: [west] }
timing: { electionMs: 5 }
readings: { optionalFieldMissingChance: 0 }
`;

describe('a topology file', () => {
  it('is refused with the names of wrong fields, readings and clusters', async () => {
    expect(() => parseTopology('clusters: [{ name: east, knots: 3 }]')).toThrow(/knots/);
    expect(() => parseTopology('clusters: [{ name: east }]\nreadings: { wishful: true }')).toThrow(/wishful/);
    expect(() => parseTopology('clusters: []')).toThrow(/clusters/);
    await expect(
      startSimulatedService({ clusters: [{ name: 'a' }], dr: [{ primary: 'a', secondaries: ['b'] }] }),
    ).rejects.toThrow('unknown cluster b');
  });
});

describe('the program', () => {
  let folder: string;
  let running: Awaited<ReturnType<typeof startSimulator>>;
  let state: SimulatorState;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'simulator-'));
    const stateFile = join(folder, 'state.json');
    running = await startSimulator(parseTopology(TOPOLOGY), stateFile);
    state = JSON.parse(await readFile(stateFile, 'utf8')) as SimulatorState;
  });
  afterAll(async () => {
    await running.stop();
    await rm(folder, { recursive: true });
  });

  const control = (command: string, body: object, token = state.control.token) =>
    fetch(`${state.control.address}/control/${command}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
    });

  it('writes addresses and credentials to a file for its owner only, and prints no secret', async () => {
    expect((await stat(join(folder, 'state.json'))).mode & 0o777).toBe(0o600);
    const [east, west] = state.clusters;
    expect(east?.addresses).toHaveLength(3);
    expect(west?.keyShares).toEqual(east?.keyShares);
    const printed = describeSimulator(state, 'state.json').join('\n');
    expect(printed).toContain(east?.addresses[0]);
    for (const secret of [east?.rootToken, ...(east?.keyShares ?? []), state.control.token])
      expect(printed).not.toContain(secret);
  });

  it('lets an operator with the token disturb it, and nobody else', async () => {
    expect((await control('kill', { cluster: 'east' }, 'wrong')).status).toBe(403);
    const west = () => running.service.cluster('west').snapshotState();
    expect((await control('partition', { a: 'east', b: 'west' })).status).toBe(200);
    expect(west().dr.connectedTo).toBeUndefined();
    expect((await control('heal', {})).status).toBe(200);
    expect(west().dr.connectedTo).toBe('east');
    expect((await control('kill', { cluster: 'west' })).status).toBe(200);
    expect(west().nodes[0]?.up).toBe(false);
    expect((await control('restart', { cluster: 'west' })).status).toBe(200);
    expect(west().nodes[0]?.up).toBe(true);
  });

  it('refuses unknown commands and wrong bodies by name', async () => {
    const unknown = await control('explode', {});
    expect([unknown.status, await unknown.text()]).toEqual([404, expect.stringContaining('partition')]);
    const wrong = await control('kill', { cluster: 'east', knot: 1 });
    expect([wrong.status, await wrong.text()]).toEqual([400, expect.stringContaining('knot')]);
    expect((await control('kill', { cluster: 'nowhere' })).status).toBe(400);
  });
});
