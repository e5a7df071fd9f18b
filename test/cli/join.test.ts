/** What `runbook join` stores on a person's machine, and what the other commands take from it. */
import { mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatPublicKey, newSigningKey } from '../../src/keys';
import { temporaryDirectory } from '../support/directory';
import { cli } from './support';

const folder = temporaryDirectory('join');
const workers = formatPublicKey(newSigningKey().key);
const CERTIFICATES = ['ca.pem', 'ada.pem', 'ada-key.pem'].map((name) => join(folder, name));
const [ca = '', certificate = '', key = ''] = CERTIFICATES;
/** Nothing answers there. */
const [STORED, OTHER] = ['127.0.0.1:1', '127.0.0.1:2'];

/** A person's own machine, without any variable of ours. */
const machine = (name: string) => ({ XDG_CONFIG_HOME: join(folder, name), TEMPORAL_CONFIG_FILE: '' });
const folderOf = (name: string) => join(folder, name, 'replication-runbooks');
const settingsOf = async (name: string): Promise<unknown> =>
  JSON.parse(await readFile(join(folderOf(name), 'settings.json'), 'utf8'));
const joins = (name: string, words: readonly string[] = [], env: object = {}, on = name) =>
  cli(['join', `production/${name}/${workers}`, '--yes', '--passphrase-file', join(folder, 'passphrase'), ...words], {
    env: { ...machine(on), ...env },
  });
/** Who the commands take the person for. */
async function you(env: object): Promise<string | undefined> {
  const { out } = await cli(['doctor', '--json'], { env: { TEMPORAL_ADDRESS: STORED, ...env } });
  const { findings } = JSON.parse(out) as { findings: readonly { id: string; observed: string }[] };
  return findings.find(({ id }) => id === 'you')?.observed;
}

beforeAll(async () => {
  await writeFile(join(folder, 'passphrase'), 'correct horse battery staple', { mode: 0o600 });
  for (const file of CERTIFICATES) await writeFile(file, 'canary-of-a-certificate');
});

describe('join', () => {
  it('stores the person and how they reach Temporal, readable by no other user, and no secret', async () => {
    const tls = ['--tls-ca-path', ca, '--tls-cert-path', certificate, '--tls-key-path', key];
    const joined = await joins('ada', ['--address', STORED, '--namespace', 'runbooks', ...tls], {
      TEMPORAL_API_KEY: 'canary-of-the-api-key',
    });
    expect(joined.code).toBe(0);
    expect(await settingsOf('ada')).toEqual({
      RUNBOOKS_PERSON: 'ada',
      TEMPORAL_ADDRESS: STORED,
      TEMPORAL_NAMESPACE: 'runbooks',
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: ca,
      TEMPORAL_TLS_CLIENT_CERT_PATH: certificate,
      TEMPORAL_TLS_CLIENT_KEY_PATH: key,
    });
    expect(joined.out).toContain(`  TEMPORAL_ADDRESS=${STORED}\n`);
    expect(joined.out).toContain('TEMPORAL_API_KEY is not stored');
    expect(joined.out).not.toMatch(/export /);
    expect(joined.out + joined.err).not.toContain('canary');
    const modes = [folderOf('ada'), join(folderOf('ada'), 'settings.json'), join(folderOf('ada'), 'ada.key')];
    expect(await Promise.all(modes.map(async (each) => (await stat(each)).mode & 0o777))).toEqual([
      0o700, 0o600, 0o600,
    ]);
  });

  it('stores the values of the environment if no option gives them, with whole paths', async () => {
    const env = {
      TEMPORAL_ADDRESS: STORED,
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: 'package.json',
      RUNBOOKS_TASK_QUEUE: 'q',
    };
    expect((await joins('ben', ['--namespace', 'own'], { ...env, TEMPORAL_NAMESPACE: 'other' })).code).toBe(0);
    expect(await settingsOf('ben')).toEqual({
      ...{ RUNBOOKS_PERSON: 'ben', RUNBOOKS_TASK_QUEUE: 'q', TEMPORAL_ADDRESS: STORED, TEMPORAL_NAMESPACE: 'own' },
      TEMPORAL_TLS_SERVER_CA_CERT_PATH: join(process.cwd(), 'package.json'),
    });
  });

  it('again keeps the server if none is named, and reports the person stored before', async () => {
    expect((await joins('cyd', ['--address', STORED, '--namespace', 'runbooks'])).code).toBe(0);
    const other = await joins('dan', [], {}, 'cyd');
    expect(other.out).toContain('  RUNBOOKS_PERSON=dan (until now: cyd)');
    expect(await settingsOf('cyd')).toEqual({
      ...{ RUNBOOKS_PERSON: 'dan', TEMPORAL_ADDRESS: STORED, TEMPORAL_NAMESPACE: 'runbooks' },
    });
    // Another server: nothing of the connection to the first one is kept.
    expect((await joins('dan', ['--address', OTHER], {}, 'cyd')).code).toBe(0);
    expect(await settingsOf('cyd')).toEqual({ RUNBOOKS_PERSON: 'dan', TEMPORAL_ADDRESS: OTHER });
  });

  it('writes no file if a file that it should name is missing', async () => {
    const missing = await joins('eve', ['--tls-ca-path', join(folder, 'none.pem')]);
    expect([missing.code, missing.err]).toEqual([5, expect.stringContaining('none.pem')]);
    await expect(stat(folderOf('eve'))).rejects.toThrow('ENOENT');
  });

  it('finds a key in another place again, only for its owner', async () => {
    const elsewhere = join(folder, 'usb', 'fay.key');
    expect((await joins('fay', ['--key-file', elsewhere])).code).toBe(0);
    expect(await settingsOf('fay')).toMatchObject({ RUNBOOKS_KEY_FILE: elsewhere });
    expect(await you(machine('fay'))).toContain(`fay, key ${elsewhere}`);
    expect(await you({ ...machine('fay'), RUNBOOKS_PERSON: 'gil' })).toContain(`gil has no key at ${folderOf('fay')}`);
    expect((await joins('gil', [], {}, 'fay')).code).toBe(0);
    expect(await settingsOf('fay')).toEqual({ RUNBOOKS_PERSON: 'gil' });
  });
});

describe('the commands after it', () => {
  beforeAll(async () => {
    await joins('hal', ['--address', STORED, '--namespace', 'runbooks']);
  });
  const observed = async (env: NodeJS.ProcessEnv, ...words: string[]) => (await cli(['list', ...words], { env })).err;

  it('have the person and the server with no variable set', async () => {
    expect(await you(machine('hal'))).toContain('hal, key ');
    expect(await observed(machine('hal'))).toContain(`No Temporal server answers at ${STORED}`);
  });

  it('prefer the environment; a server that it names does not get the credentials of the stored one', async () => {
    expect(await you({ ...machine('hal'), RUNBOOKS_PERSON: 'ida' })).toContain('ida has no key');
    const certificate = join(folder, 'lost.pem');
    await writeFile(certificate, 'lost later');
    await joins('ned', ['--address', STORED, '--tls-ca-path', certificate]);
    // From now on, whatever uses it fails by it.
    await rm(certificate);
    expect(await observed(machine('ned'))).toContain('lost.pem');
    const other = await observed({ ...machine('ned'), TEMPORAL_ADDRESS: OTHER });
    expect(other).toContain(`No Temporal server answers at ${OTHER}`);
  });

  it('use nothing else of the file, and name it if it is damaged', async () => {
    const file = join(folderOf('ivy'), 'settings.json');
    await mkdir(folderOf('ivy'), { recursive: true });
    await writeFile(file, '{"RUNBOOKS_PERSON":"ivy","RUNBOOKS_INVENTORY":"/elsewhere.yaml"}');
    expect(await you(machine('ivy'))).toContain('ivy has no key');
    expect((await cli(['doctor'], { env: machine('ivy') })).out).not.toContain('/elsewhere.yaml');
    await writeFile(file, '{"RUNBOOKS_PERSON":');
    const damaged = await cli(['list'], { env: machine('ivy') });
    expect([damaged.code, damaged.err]).toEqual([3, expect.stringMatching(/settings\.json[^]*runbook join/)]);
    expect((await cli(['list', '--help'], { env: machine('ivy') })).code).toBe(0);
  });
});
