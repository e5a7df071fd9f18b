/** A plain mistake of a person in a path, a port or an ID is never told as a defect of this program. */
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo, Server } from 'node:net';
import { once } from 'node:events';
import { join } from 'node:path';
import { startPayments } from '../../src/cli/demo/payments';
import { temporaryDirectory } from '../support/directory';
import { temporalServer } from '../support/temporal-server';
import { cli } from './support';

const directory = temporaryDirectory('mistakes');
const file = (name: string) => join(directory, name);
const TOPOLOGIES = {
  'cut.yaml': 'clusters: [',
  'number.yaml': 'clusters: 3',
  'unknown.yaml': 'clusters: [{ name: east }]\ndr: [{ primary: east, secondaries: [west] }]',
  'twice.yaml': 'clusters: [{ name: east }, { name: east }]',
  'shares.yaml': 'clusters: [{ name: east, seal: { shares: 2, threshold: 5 } }]',
  'certificate.yaml': 'clusters: [{ name: east }]\ntls: { certificateFile: /nonexistent/a, keyFile: /nonexistent/b }',
  'good.yaml': 'clusters: [{ name: east }]',
};
let taken: Server;

beforeAll(async () => {
  taken = createServer().listen(0, '127.0.0.1');
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  for (const [name, text] of Object.entries(TOPOLOGIES)) await writeFile(file(name), text);
  await writeFile(file('port.yaml'), `clusters: [{ name: east, ports: [${port}] }]`);
  await writeFile(file('a-file'), '');
  await mkdir(file('a-folder'));
});
afterAll(() => taken.close());

const simulator = (topology: string, state = 'state.json') => [
  ...['simulator', file(topology), '--state-file', file(state)],
];
const status = (...words: readonly string[]) => ['status', ...words, '--address', temporalServer().address];

it.each([
  ['no topology file', () => simulator('none.yaml'), 5, /none\.yaml cannot be read \(ENOENT\)/],
  ['a folder as topology file', () => simulator('a-folder'), 5, /a-folder cannot be read \(EISDIR\)/],
  [
    'a topology file with a mistake in YAML',
    () => simulator('cut.yaml'),
    3,
    /cannot be started from .*cut\.yaml[^]*Flow sequence/,
  ],
  ['a topology of another form', () => simulator('number.yaml'), 3, /expected array, received number/],
  ['a topology with an unknown cluster', () => simulator('unknown.yaml'), 3, /unknown cluster west/],
  ['a topology with a cluster twice', () => simulator('twice.yaml'), 3, /cluster east twice/],
  ['a topology with too few shares', () => simulator('shares.yaml'), 3, /threshold 5/],
  ['a certificate that is not there', () => simulator('certificate.yaml'), 5, /\/nonexistent\/a does not exist/],
  [
    'a port that is taken',
    () => simulator('port.yaml'),
    3,
    /127\.0\.0\.1:\d+ is taken by another program \(EADDRINUSE\)/,
  ],
  [
    'a state file without folder',
    () => simulator('good.yaml', 'none/state.json'),
    5,
    /none\/state\.json does not exist \(ENOENT\)/,
  ],
  ['a folder as state file', () => simulator('good.yaml', 'a-folder'), 3, /a-folder is a folder/],
  [
    'a file in the place of a folder',
    () => ['keys', 'seal', '--output', file('a-file/key')],
    3,
    /a-file has a file in the place of a folder/,
  ],
  ['a folder that takes no files', () => ['keys', 'workers', '--output', '/proc/key'], 5, /\/proc\/key does not exist/],
  [
    'a Run ID that is none',
    () => status('nobody', '--run-id', 'no-uuid'),
    3,
    /INVALID_INPUT[^]*observed: Invalid RunId/,
  ],
  [
    'a Run ID that no run has',
    () => status('nobody', '--run-id', '00000000-0000-4000-8000-000000000000'),
    5,
    /no run with the Workflow ID "deployment:nobody" and the Run ID "00000000-0000-4000-8000-000000000000"/,
  ],
])('a mistake of a person is no defect of the program: %s', async (_, words, exit, says) => {
  const { code, err } = await cli(words());
  expect([code, err]).toEqual([exit, expect.stringMatching(says)]);
  expect(err).not.toContain('INTERNAL');
  expect(err).toContain('next: ');
});

it('the script that acts on simulated clusters prints its usage', async () => {
  const payments = await startPayments({ taskQueue: 'nobody', uiAddress: 'http://127.0.0.1:1' });
  const simulated = (...words: string[]) => spawnSync('sh', ['-c', payments.simulated, 'simulated', ...words]);
  for (const words of [[], ['kill'], ['explode', 'east'], ['partition', 'east']]) {
    const { status, stderr } = simulated(...words);
    expect([status, stderr.toString()]).toEqual([2, expect.stringMatching(/^Usage: simulated kill .*east, west/)]);
  }
  await payments.stop();
});
