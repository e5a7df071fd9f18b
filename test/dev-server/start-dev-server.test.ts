import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { WEB_UI } from '../../workflows/engine/current-details';
import { obtainTemporalServer } from '../../src/dev-server/start-dev-server';
import { projectRoot } from '../../src/dev-server/locations';
import * as ports from '../../src/dev-server/child-process';
import { temporalClient, temporalServer } from '../support/temporal-server';

jest.mock('../../src/dev-server/child-process', () => ({
  __esModule: true,
  ...jest.requireActual<typeof ports>('../../src/dev-server/child-process'),
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
  it('serves its namespace, the HTTP API and the Web UI', async () => {
    const { httpAddress, namespace, uiAddress } = temporalServer();
    const { namespaceInfo } = await (await temporalClient()).workflowService.describeNamespace({ namespace });
    expect(namespaceInfo?.name).toBe(namespace);
    const answer = await fetch(`${httpAddress}/api/v1/namespaces/${namespace}`);
    expect(await answer.json()).toMatchObject({ namespaceInfo: { name: namespace } });
    expect(await (await fetch(uiAddress)).text()).toContain('<html');
  });

  it("has a Web UI that calls its things as people read them, in the details, on the holder's page and in its guide", async () => {
    const shown = await textsOfTheWebUi(temporalServer().uiAddress);
    for (const [name, word] of Object.entries(WEB_UI)) if (name !== 'encoding') expect(shown).toContain(`"${word}"`);
    const told = (path: string, words: readonly (keyof typeof WEB_UI)[]) => {
      const text = readFileSync(join(projectRoot(), path), 'utf8').replace(/<[^>]+>/g, '');
      for (const word of words) expect(text).toContain(WEB_UI[word]);
    };
    told('src/pages/holder.html', ['actions', 'sendSignal', 'signalName', 'data', 'encoding', 'submit', 'details']);
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

describe('a dev server', () => {
  it('ends exactly its own process, and can be stopped twice', async () => {
    const server = await obtainTemporalServer();
    const { pid = 0 } = server;
    expect(isAlive(pid)).toBe(true);
    await server.stop();
    await server.stop();
    expect(isAlive(pid)).toBe(false);
    await expect((await temporalClient()).workflowService.getSystemInfo({})).resolves.toBeDefined();
  });

  it('takes other ports if another process has one meanwhile; if all are taken it repeats the error of the server', async () => {
    const taken = Number(temporalServer().address.split(':')[1]);
    const others = await ports.freePorts(3);
    const spy = jest.spyOn(ports, 'freePorts').mockResolvedValueOnce([taken, ...others]);
    try {
      const server = await obtainTemporalServer();
      await server.stop();
      expect([spy.mock.calls.length, server.address.endsWith(`:${taken}`)]).toEqual([2, false]);
      spy.mockResolvedValue([taken, ...others]);
      await expect(obtainTemporalServer()).rejects.toMatchObject({
        code: 'TEMPORAL_UNAVAILABLE',
        message: expect.stringContaining('address already in use') as unknown,
      });
    } finally {
      spy.mockRestore();
    }
  });

  it('ends with the process that started it, even when that one is killed', async () => {
    const program = `
      require('./dist/src/dev-server/start-dev-server').obtainTemporalServer()
        .then(({ pid }) => { console.log(pid); setInterval(() => undefined, 1000); });`;
    const owner = spawn(process.execPath, ['-e', program], {
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
