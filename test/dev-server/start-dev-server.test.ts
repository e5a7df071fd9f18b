import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { WEB_UI } from '../../workflows/engine/current-details';
import { startDevServer } from '../../src/dev-server/start-dev-server';
import { projectRoot } from '../../src/dev-server/locations';
import * as ports from '../../src/dev-server/ports';
import { temporalClient, temporalServer } from '../support/temporal-server';

jest.mock('../../src/dev-server/ports', () => ({
  __esModule: true,
  ...jest.requireActual<typeof ports>('../../src/dev-server/ports'),
}));

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function untilGone(pid: number): Promise<void> {
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, 20));
}

describe('the server of the test run', () => {
  it('serves its namespace', async () => {
    const client = await temporalClient();
    const { namespace } = temporalServer();
    const { namespaceInfo } = await client.workflowService.describeNamespace({ namespace });
    expect(namespaceInfo?.name).toBe(namespace);
  });

  it('serves the HTTP API', async () => {
    const { httpAddress, namespace } = temporalServer();
    const answer = await fetch(`${httpAddress}/api/v1/namespaces/${namespace}`);
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ namespaceInfo: { name: namespace } });
  });

  it('serves the Web UI', async () => {
    const answer = await fetch(temporalServer().uiAddress);
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('<html');
  });

  it("has a Web UI that calls its things as people are told, in the details, on the holder's page and in its guide", async () => {
    const shown = await textsOfTheWebUi(temporalServer().uiAddress);
    for (const [name, word] of Object.entries(WEB_UI)) if (name !== 'encoding') expect(shown).toContain(`"${word}"`);
    const told = (path: string, words: readonly (keyof typeof WEB_UI)[]) => {
      const text = readFileSync(join(projectRoot(), path), 'utf8').replace(/<[^>]+>/g, '');
      for (const word of words) expect(text).toContain(WEB_UI[word]);
    };
    told('src/holder-page/page.html', ['actions', 'sendSignal', 'signalName', 'data', 'encoding', 'submit', 'details']);
    told('docs/web-ui.md', ['actions', 'sendSignal', 'data', 'encoding', 'submit', 'details', 'queries', 'start']);
    told('docs/holders.md', ['actions', 'sendSignal', 'data', 'encoding', 'submit', 'queries']);
  });
});

/** The script that holds its words in English. */
async function textsOfTheWebUi(address: string): Promise<string> {
  const get = async (path: string) => (await fetch(new URL(path, `${address}/`))).text();
  const entry = /[^"' ]*_app\/immutable\/entry\/app\.[^"' ]+\.js/.exec(await get('/'))?.[0] ?? '';
  const base = entry.slice(0, entry.indexOf('/entry/'));
  const scripts = new Set((await get(entry)).match(/nodes\/[\w.-]+\.js/g));
  for (const script of scripts) {
    const text = await get(`${base}/${script}`);
    if (text.includes('"signal-modal-title":')) return text;
  }
  return '';
}

describe('startDevServer', () => {
  it('stops exactly its own process, and may be told so twice', async () => {
    const server = await startDevServer();
    expect(isAlive(server.pid)).toBe(true);
    await server.stop();
    await server.stop();
    expect(isAlive(server.pid)).toBe(false);
    await expect((await temporalClient()).workflowService.getSystemInfo({})).resolves.toBeDefined();
  });

  it('chooses other ports when another process takes one meanwhile', async () => {
    const squatter = createServer().listen(0, '127.0.0.1');
    await once(squatter, 'listening');
    const taken = (squatter.address() as AddressInfo).port;
    const others = await ports.freePorts(3);
    const spy = jest.spyOn(ports, 'freePorts').mockResolvedValueOnce([taken, ...others]);
    try {
      const server = await startDevServer();
      await server.stop();
      expect(spy).toHaveBeenCalledTimes(2);
      expect(server.address).not.toContain(String(taken));
    } finally {
      spy.mockRestore();
      squatter.close();
    }
  });

  it('says what the server said where it never finds a free port', async () => {
    const taken = Number(temporalServer().address.split(':')[1]);
    const spy = jest.spyOn(ports, 'freePorts').mockResolvedValue([taken, ...(await ports.freePorts(3))]);
    try {
      await expect(startDevServer()).rejects.toMatchObject({
        code: 'TEMPORAL_UNAVAILABLE',
        message: expect.stringContaining('address already in use') as unknown,
      });
    } finally {
      spy.mockRestore();
    }
  });

  it('ends with the process that started it, even when that one is killed', async () => {
    const program = `
      require('./src/dev-server/start-dev-server').startDevServer()
        .then(({ pid }) => { console.log(pid); setInterval(() => undefined, 1000); });`;
    const owner = spawn(process.execPath, ['-r', './scripts/register-typescript.cjs', '-e', program], {
      cwd: projectRoot(),
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = (await once(createInterface({ input: owner.stdout }), 'line')) as [string];
    const pid = Number(line);
    expect(isAlive(pid)).toBe(true);
    owner.kill('SIGKILL');
    await untilGone(pid);
    expect(isAlive(pid)).toBe(false);
  });
});
