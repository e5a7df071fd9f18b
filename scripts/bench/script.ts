import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';
import type { ServedCall } from './runs';

/*
 * The other side of the comparison: the calls of a recorded run, in the order in which they reached the service, one
 * after the other, without any logic between them. They go to a server that holds each answer for as long as the service
 * held it in the run, so both sides get exactly the same service. What they send is what was recorded, in which secrets are
 * digests: the service itself would refuse it, and would then work less than it did for the run.
 */

/** As large as a usual status answer. */
const ANSWER = JSON.stringify({ data: 'x'.repeat(1_000) });

/** The service takes its LIST as a GET too, and Node's HTTP server knows no LIST. */
function asSent(call: ServedCall): ServedCall {
  return call.method === 'LIST' ? { ...call, method: 'GET', path: `${call.path}?list=true` } : call;
}

/** How long a plain `curl` script, one process per call, takes for these calls, milliseconds. */
export async function curlScriptMs(recorded: readonly ServedCall[]): Promise<number> {
  const calls = recorded.map(asSent);
  const directory = await mkdtemp(join(tmpdir(), 'replication-runbooks-curl-'));
  const stage = await startStage(calls);
  try {
    const lines = await Promise.all(
      calls.map(async (call, index) => {
        const words = ['curl', '--silent', '--max-time', '60', '--output', '/dev/null', '--request', call.method];
        words.push('--header', "'X-Vault-Token: benchmark'");
        if (call.method !== 'GET') {
          const file = join(directory, `body-${index}.json`);
          await writeFile(file, JSON.stringify(call.body));
          words.push('--data-binary', `@${file}`);
        }
        // Where the service broke the connection in the run, curl fails here too.
        return [...words, `'${stage.address}${call.path}'`, call.status === 0 ? '|| true' : ''].join(' ');
      }),
    );
    const script = join(directory, 'switchover.sh');
    await writeFile(script, ['set -eu', ...lines, ''].join('\n'));
    const begin = performance.now();
    const bash = spawn('bash', [script], { stdio: 'inherit' });
    const [code] = (await once(bash, 'exit')) as [number | null];
    const taken = performance.now() - begin;
    if (code !== 0) throw new Error(`the curl script ended with ${code ?? 'a signal'}`);
    stage.assertAllServed();
    return taken;
  } finally {
    await stage.stop();
    await rm(directory, { recursive: true, force: true });
  }
}

/** How long the plain HTTP client of this project's own client (undici, connections kept) takes, milliseconds. */
export async function httpClientMs(recorded: readonly ServedCall[]): Promise<number> {
  const calls = recorded.map(asSent);
  const stage = await startStage(calls);
  const dispatcher = new Agent();
  try {
    const begin = performance.now();
    for (const { method, path, body, status } of calls) {
      try {
        const answer = await request(`${stage.address}${path}`, {
          dispatcher,
          method: method === 'GET' ? 'GET' : method === 'DELETE' ? 'DELETE' : 'POST',
          headers: { 'x-vault-token': 'benchmark' },
          ...(method === 'GET' ? {} : { body: JSON.stringify(body) }),
        });
        await answer.body.dump();
      } catch (error) {
        if (status !== 0) throw error;
      }
    }
    const taken = performance.now() - begin;
    stage.assertAllServed();
    return taken;
  } finally {
    await dispatcher.close();
    await stage.stop();
  }
}

/** A server that gives the n-th request the n-th recorded answer's status, after the time that the service took. */
async function startStage(calls: readonly ServedCall[]) {
  let served = 0;
  const server = createServer((incoming, response) => {
    const call = calls[served++];
    incoming.resume();
    incoming.once('end', () => {
      setTimeout(
        () => {
          if (call === undefined || call.status === 0) incoming.socket.destroy();
          else response.writeHead(call.status).end(call.status === 204 ? undefined : ANSWER);
        },
        call === undefined ? 0 : call.answeredAt - call.at,
      );
    });
  });
  return {
    address: `http://127.0.0.1:${await listenOnLoopback(server)}`,
    assertAllServed: (): void => {
      if (served !== calls.length) throw new Error(`${served} calls were made, ${calls.length} recorded`);
    },
    stop: () => closeAtOnce(server),
  };
}
