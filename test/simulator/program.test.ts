import { readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { parseTopology, startSimulatedService, startSimulator, type SimulatorState } from '../../src/simulator';
import { describeSimulator } from '../../src/simulator/program';
import { temporaryDirectory } from '../support/directory';

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
  const folder = temporaryDirectory('simulator');
  let running: Awaited<ReturnType<typeof startSimulator>>;
  let state: SimulatorState;

  beforeAll(async () => {
    const stateFile = join(folder, 'state.json');
    running = await startSimulator(parseTopology(TOPOLOGY), stateFile);
    state = JSON.parse(await readFile(stateFile, 'utf8')) as SimulatorState;
  });
  afterAll(() => running.stop());

  const control = (command: string, token = state.control.token) =>
    fetch(`${state.control.address}/control/${command}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}` },
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

  it('lets an operator with the token disturb it, and no other client', async () => {
    expect((await control('kill/west', 'wrong')).status).toBe(403);
    const west = () => running.service.cluster('west').snapshotState();
    for (const [command, seen] of [
      ['partition/east/west', { dr: { connectedTo: undefined } }],
      ['heal', { dr: { connectedTo: 'east' } }],
      ['kill/west', { nodes: [{ up: false }] }],
      ['restart/west', { nodes: [{ up: true }] }],
    ] as const) {
      expect([command, (await control(command)).status]).toEqual([command, 200]);
      expect(west()).toMatchObject(seen);
    }
  });

  it('refuses unknown commands and clusters by name', async () => {
    for (const [command, status, named] of [
      ['explode', 404, 'partition'],
      ['kill/nowhere', 400, 'nowhere'],
      ['partition/east', 400, 'unknown cluster'],
    ] as const) {
      const answer = await control(command);
      expect([answer.status, await answer.text()]).toEqual([status, expect.stringContaining(named)]);
    }
  });
});
