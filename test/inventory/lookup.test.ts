import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  approversOf,
  decidersOf,
  describeSource,
  drSetOf,
  findCluster,
  findDeployment,
  parseInventory,
  readCredential,
  readSigningKey,
  rosterOf,
} from '../../src/inventory';
import { newSigningKey } from '../../src/keys/holder-keys';
import { failureOf } from '../keys/builders';
import { temporaryDirectory } from '../support/directory';
import { changed, EXAMPLE, mistakes } from './example';

const inventory = parseInventory(EXAMPLE, 'inventory.yaml');
const payments = findDeployment(inventory, 'payments');

describe('looking things up', () => {
  it('finds deployments, clusters and DR sets', () => {
    expect(findCluster(payments, 'west').addresses).toEqual(['https://10.2.0.4:8200']);
    expect(drSetOf(payments, 'west')).toEqual({ name: 'main', members: ['east', 'west'] });
    expect(drSetOf(payments, 'eu')).toEqual({ name: 'europe', members: ['eu'] });
  });

  it.each([
    ['UNKNOWN_DEPLOYMENT', 'one of: payments', () => findDeployment(inventory, 'orders')],
    ['UNKNOWN_CLUSTER', 'one of: east, eu, west', () => findCluster(payments, 'mars')],
    ['UNKNOWN_CLUSTER', 'one of: east, eu, west', () => findCluster(payments, 'constructor')],
  ])('names the existing ones if a name is unknown: %s, %s', (code, needed, find) => {
    expect(find).toThrow(expect.objectContaining({ code, needed }) as Error);
  });
});

describe('credentials', () => {
  const directory = temporaryDirectory('credential');
  const VARIABLE = 'RUNBOOKS_TEST_CREDENTIAL';
  afterEach(() => void delete process.env[VARIABLE]);

  it('come from the environment or from a file that is read again at every use', async () => {
    const file = join(directory, 'token');
    await writeFile(file, 'hvs.first\r\n');
    expect((await readCredential({ file })).reveal()).toBe('hvs.first');
    await writeFile(file, 'hvs.second\n');
    expect((await readCredential({ file })).reveal()).toBe('hvs.second');
    process.env[VARIABLE] = 'hvs.third';
    expect((await readCredential({ env: VARIABLE })).reveal()).toBe('hvs.third');
  });

  it('that are not there are named by their source', async () => {
    const missing = await failureOf(() => readCredential({ file: join(directory, 'none') }));
    expect(missing.code).toBe('CREDENTIAL_UNAVAILABLE');
    expect(missing.text).toContain(join(directory, 'none'));
    expect((await failureOf(() => readCredential({ env: VARIABLE }))).text).toContain(VARIABLE);
    expect(describeSource({ env: VARIABLE })).toBe(`environment variable ${VARIABLE}`);
  });

  it.each([[''], ['\n'], ['hvs.canary\nhvs.canary'], ['hvs.canary canary'], ['hvs.canary\u00e9']])(
    'that are no token are refused without repeating them: %j',
    async (value) => {
      process.env[VARIABLE] = value;
      const failure = await failureOf(() => readCredential({ env: VARIABLE }));
      expect(failure.code).toBe('CREDENTIAL_UNAVAILABLE');
      expect(failure.text).not.toContain('canary');
    },
  );

  it('of the workers may be a signing key', async () => {
    const file = join(directory, 'workers.jwk');
    const { key, jwk } = newSigningKey();
    await writeFile(file, `${jwk.reveal()}\n`);
    expect((await readSigningKey({ file })).kid).toBe(key.kid);
    await writeFile(file, 'canary');
    const failure = await failureOf(() => readSigningKey({ file }));
    expect(failure.code).toBe('DOCUMENT_INVALID');
    expect(failure.text).not.toContain('canary');
  });
});

it('somebody who signs and has not joined gets no invitation, and cannot approve or decide', () => {
  const text = changed(
    'ben: { groups: [holders], attestation: claimed }',
    'ben: { groups: [holders, approvers, operators] }',
  );
  expect(mistakes(text)).toEqual([]);
  const inventory = parseInventory(text, 'i');
  const deployment = findDeployment(inventory, 'payments');
  const names = decidersOf(inventory, deployment).map(({ name }) => name);
  expect([names, approversOf(inventory, deployment, 'plan').map(({ name }) => name)]).toEqual([['ada'], ['ada']]);
  expect([rosterOf(deployment), deployment.notJoined]).toEqual([{ holders: ['cyd', 'dan'], standBy: [] }, ['ben']]);
});
