/** The inventory that counts while its file is changed, replaced, broken and mended. */
import { mkdtemp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { InventoryInForce, inventoryDigest, parseInventory } from '../../src/inventory';
import { EXAMPLE } from './example';

const TWO = EXAMPLE.replace('collectFor: 20m', 'collectFor: 21m');
let directory: string;
let file: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'inventory-'));
  file = join(directory, 'inventory.yaml');
  await writeFile(file, EXAMPLE);
});
afterEach(() => rm(directory, { recursive: true }));

const open = () => InventoryInForce.open(file);
const twice = async (inForce: InventoryInForce) => [await inForce.look(), await inForce.look()];
const minutes = ({ current }: InventoryInForce) =>
  (current.deployments.get('payments')?.ceremony.collectForMs ?? 0) / 60_000;

it('is the new one once the file was found the same twice, and does not change while it stays', async () => {
  const inForce = await open();
  expect(await twice(inForce)).toEqual([undefined, undefined]);
  await writeFile(file, TWO);
  expect([await inForce.look(), minutes(inForce)]).toEqual([undefined, 20]);
  expect([await inForce.look(), minutes(inForce)]).toEqual(['taken', 21]);
  expect(await twice(inForce)).toEqual([undefined, undefined]);
});

it('stays the old one while the file is broken or gone, which is reported once; put back, the problem is over', async () => {
  const inForce = await open();
  for (const spoil of [() => writeFile(file, `${TWO}\nnonsense: 1`), () => rm(file)]) {
    await spoil();
    expect(await twice(inForce)).toEqual([undefined, 'refused']);
    expect(await twice(inForce)).toEqual([undefined, undefined]);
    expect([minutes(inForce), inForce.refusal?.code]).toEqual([20, 'INVENTORY_INVALID']);
  }
  await writeFile(file, EXAMPLE);
  expect(await twice(inForce)).toEqual([undefined, 'taken']);
  expect([minutes(inForce), inForce.refusal]).toEqual([20, undefined]);
});

it('notices a link behind the file that leads elsewhere, as Kubernetes changes a ConfigMap', async () => {
  for (const [name, text] of Object.entries({ first: EXAMPLE, second: TWO })) {
    await mkdir(join(directory, name));
    await writeFile(join(directory, name, 'inventory.yaml'), text);
  }
  await rm(file);
  await symlink('first', join(directory, '..data'));
  await symlink(join('..data', 'inventory.yaml'), file);
  const inForce = await open();
  await symlink('second', join(directory, '..data_tmp'));
  await rename(join(directory, '..data_tmp'), join(directory, '..data'));
  expect(await twice(inForce)).toEqual([undefined, 'taken']);
  expect(minutes(inForce)).toBe(21);
});

it('has one digest whatever the order of its members, and another if a person, a gate or a cluster changes', () => {
  const digest = (text: string) => inventoryDigest(parseInventory(text, 'inventory'), 'payments');
  const lines = EXAMPLE.split('\n');
  const ben = lines.findIndex((line) => line.startsWith('  ben:'));
  const moved = [...lines.slice(0, ben), lines[ben + 1], lines[ben], ...lines.slice(ben + 2)].join('\n');
  expect([moved === EXAMPLE, digest(moved)]).toEqual([false, digest(EXAMPLE)]);
  for (const [was, is] of [
    ['groups: [approvers, operators]', 'groups: [approvers]'],
    ['https://10.2.0.4:8200', 'https://10.2.0.9:8200'],
    ['collectFor: 20m', 'collectFor: 21m'],
    ['    marker:', '    snapshot: { to: /var/lib/snapshots }\n    marker:'],
    ['    marker:', '    quiesce: quota\n    marker:'],
    ['    limits: { ', '    limits: { walStill: 3s, '],
    ['    limits: { ', '    limits: { walStillEntries: 3, '],
    ["'user:dan'", "'user:dana'"],
  ] as const) {
    expect(EXAMPLE).toContain(was);
    expect(digest(EXAMPLE.replace(was, is))).not.toBe(digest(EXAMPLE));
  }
  // Who has nothing to do here stops no run: somebody of another deployment.
  const stranger = EXAMPLE.replace(
    'deployments:',
    '  zoe: { groups: [elsewhere], attestation: claimed }\ndeployments:',
  );
  expect([stranger === EXAMPLE, digest(stranger)]).toEqual([false, digest(EXAMPLE)]);
});
