/**
 * With NODE_TLS_REJECT_UNAUTHORIZED=0 in its environment Node believes any certificate, also beside a CA file. Nothing of
 * ours sends to whoever shows one that is not known: with a real TLS server, from a process that has the variable.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import type { Server, TLSSocket } from 'node:tls';
import { listenOnLoopback } from '../src/simulator';
import { temporaryDirectory } from './support/directory';
import { FOREIGN_CERTIFICATE, LOOPBACK_CERTIFICATE, LOOPBACK_KEY } from './vault/support/loopback-certificate';

const ROOT = join(__dirname, '..');
const CANARY = 'hvs.canaryThatAStrangerMustNotGet';

const directory = temporaryDirectory('tls-verification');
let stranger: Server;
let port: number;
/** What arrived at the stranger, decrypted. */
let heard = '';

beforeAll(async () => {
  await writeFile(join(directory, 'ca.pem'), FOREIGN_CERTIFICATE);
  await writeFile(join(directory, 'token'), CANARY);
  stranger = createServer({ cert: LOOPBACK_CERTIFICATE, key: LOOPBACK_KEY }, (socket: TLSSocket) => {
    socket.on('error', () => undefined);
    socket.on('data', (chunk: Buffer) => {
      heard += chunk.toString();
      socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}');
    });
  });
  stranger.on('tlsClientError', () => undefined);
  port = await listenOnLoopback(stranger);
});
afterAll(() => new Promise((resolve) => stranger.close(resolve)));

/** How each of our senders ends that is given the address of a stranger, and a CA file that does not vouch for it. */
const SENDERS: Readonly<Record<string, string>> = {
  'the client of the service': `
    const { ServiceClient } = require('./src/vault');
    const { Secret } = require('./src/secret');
    const client = new ServiceClient({ name: 'east', addresses: [origin], caFile });
    await client.sys.lookupSelf({ node: origin, token: new Secret('service-token', token) });`,
  'a hook': `
    const { makeCall } = require('./activities/hooks/hook-call');
    const headers = { authorization: { file: tokenFile } };
    const entry = { kind: 'call', url: origin + '/', method: 'POST', headers, expectStatus: [200], caFile, timeoutMs: 5000 };
    const { ok, how } = await makeCall(entry, { hook: 'fence', key: 'k' }, new AbortController().signal);
    if (!ok) throw new Error(how);`,
  'the probe, without a CA file': `
    const { requestOnce } = require('./activities/hooks/hook-call');
    const end = await requestOnce('probe', { url: origin, timeoutMs: 5000 }, never, { method: 'GET', headers: { probe: token } });
    if ('code' in end) throw new Error(end.code);`,
  'a notification': `
    const target = { kind: 'webhook', url: { env: 'ORIGIN' }, token: { file: tokenFile }, caFile, timeoutMs: 5000 };
    await require('./activities/notifications/notifications').send(target, message, never);`,
  'a notification through a proxy': `
    const proxy = require('node:http').createServer();
    proxy.on('connect', ({ url }, socket) => {
      const [host, port] = url.split(':');
      const through = require('node:net').connect(Number(port), host, () => {
        socket.write('HTTP/1.1 200 OK\\r\\n\\r\\n');
        through.pipe(socket).pipe(through);
      });
      for (const each of [through, socket]) each.on('error', () => undefined);
    });
    await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const through = { proxy: 'http://127.0.0.1:' + proxy.address().port };
    const target = { kind: 'slack', url: { env: 'ORIGIN' }, caFile, timeoutMs: 5000, ...through };
    await require('./activities/notifications/notifications').send(target, message, never).finally(() => proxy.close());`,
  'a notification to a proxy that is a stranger': `
    const target = { kind: 'slack', url: { env: 'ORIGIN' }, proxy: origin, caFile, timeoutMs: 5000 };
    await require('./activities/notifications/notifications').send(target, message, never);`,
};

/** What each sender said at its end; all of them in one process that has the variable. */
const ends = new Map<string, string>();
beforeAll(async () => {
  const files = ['ca.pem', 'token'].map((name) => join(directory, name));
  const senders = Object.entries(SENDERS).map(([name, body]) => `${JSON.stringify(name)}: async () => { ${body} },`);
  const script = `
    const [origin, caFile, tokenFile, token] = ${JSON.stringify([`https://127.0.0.1:${port}`, ...files, CANARY])};
    process.env.ORIGIN = origin;
    const never = new AbortController().signal;
    const message = { id: 'i', title: token, text: token, details: [], commands: [], closes: [], runbook: '', workflowId: 'w', at: '' };
    (async () => {
      for (const [name, send] of Object.entries({ ${senders.join('\n')} }))
        await send().then(() => console.log(name + '|SENT'), (error) => console.log(name + '|refused:', error.code ?? '', error.message));
    })();`;
  const child = spawn(process.execPath, ['-r', './scripts/register-typescript.cjs', '-e', script], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'] ?? '', NODE_TLS_REJECT_UNAUTHORIZED: '0', NODE_NO_WARNINGS: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let out = '';
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()));
  await once(child, 'close');
  for (const line of out.split('\n')) ends.set(...(line.split('|') as [string, string]));
});

it.each(Object.keys(SENDERS))('%s sends no data to a stranger', (name) => {
  expect(ends.get(name)).toMatch(/^refused: .*(CERT|SIGNATURE|SELF_SIGNED|TLS_FAILED|ESOCKET|ETLS)/);
  expect(heard).toBe('');
});
