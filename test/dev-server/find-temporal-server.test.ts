import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findTemporalServer } from '../../src/dev-server/find-temporal-server';

/** No proxy answers here, so that a download fails at once wherever the test runs. */
const NO_NETWORK = { HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' };
const temporalScript = (version: string): string => `#!/bin/sh\necho 'temporal version ${version}'\n`;

describe('findTemporalServer', () => {
  let directory: string;
  let environment: NodeJS.ProcessEnv;
  let progress: string[];
  const find = () => {
    const onProgress = (line: string): void => void progress.push(line);
    return findTemporalServer({ environment, recipe: join(directory, 'recipe'), onProgress });
  };
  const install = (name: string, text: string) => writeFile(join(directory, 'bin', name), text, { mode: 0o755 });
  /** A go command that "compiles" the given text to the file after -o, and notes each build. */
  const installGo = (result: string) => {
    // The shell's own commands; a temporal that lies there would be found, too.
    environment['PATH'] += ':/usr/bin:/bin';
    const build = `while [ "$1" != -o ]; do shift; done\ncat > "$2" <<'END'\n${result}END\nchmod +x "$2"\n`;
    return install('go', `#!/bin/sh\necho build >> '${join(directory, 'builds')}'\n${build}`);
  };
  const built = async () => {
    const cache = join(directory, 'cache', 'replication-runbooks', 'temporal');
    const recipe = (await readdir(cache)).find((name) => name !== 'download') ?? '';
    return { folder: join(cache, recipe), names: await readdir(join(cache, recipe)) };
  };

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'find-temporal-'));
    for (const folder of ['bin', 'recipe']) await mkdir(join(directory, folder));
    await writeFile(join(directory, 'recipe', 'go.mod'), 'require (\n\tgithub.com/temporalio/cli v1.8.2\n)\n');
    await writeFile(join(directory, 'recipe', 'go.sum'), 'sum\n');
    environment = { PATH: join(directory, 'bin'), XDG_CACHE_HOME: join(directory, 'cache'), ...NO_NETWORK };
    progress = [];
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('takes TEMPORAL_ADDRESS before everything else, then the Temporal CLI on the PATH, then what the SDK downloaded', async () => {
    const downloads = join(directory, 'cache', 'replication-runbooks', 'temporal', 'download');
    await mkdir(downloads, { recursive: true });
    const path = join(downloads, 'temporal-cli-default-sdk-typescript-1.24.0');
    await writeFile(path, temporalScript('8'), { mode: 0o755 });
    await expect(find()).resolves.toEqual({ path, version: 'temporal version 8' });
    await install('temporal', temporalScript('9.9.9'));
    await expect(find()).resolves.toEqual({ path: 'temporal', version: 'temporal version 9.9.9' });
    environment['TEMPORAL_ADDRESS'] = 'temporal.example:7233';
    await expect(find()).resolves.toEqual({ address: 'temporal.example:7233' });
  });

  it('builds with Go where nothing else is had, once only; two that build at the same time get the same', async () => {
    await installGo(temporalScript('7'));
    const [first, second] = await Promise.all([find(), find()]);
    const { folder, names } = await built();
    expect(first).toEqual({ path: join(folder, 'temporal'), version: 'temporal version 7' });
    expect([second, names]).toEqual([first, ['temporal']]);
    expect(progress.join('\n')).toContain('Building Temporal 1.8.2 with Go');
    const builds = await readFile(join(directory, 'builds'), 'utf8');
    expect(await find()).toEqual(first);
    expect(await readFile(join(directory, 'builds'), 'utf8')).toBe(builds);
    // A build that does not run is never taken for done.
    await writeFile(join(directory, 'recipe', 'go.sum'), 'other sum\n');
    await rm(folder, { recursive: true });
    await installGo('half a binary\n');
    await expect(find()).rejects.toMatchObject({ code: 'TEMPORAL_UNAVAILABLE' });
    expect((await built()).names).toEqual([]);
  });

  it('names the four ways and what each answered where none works', async () => {
    await expect(find()).rejects.toThrow('4. build with Go from tools/temporal: go is not on the PATH');
    await rm(join(directory, 'recipe', 'go.mod'));
    await expect(find()).rejects.toThrow('4. build with Go from tools/temporal: go.mod and go.sum are missing');
    await writeFile(join(directory, 'recipe', 'go.mod'), '');
    await install('temporal', '#!/bin/sh\necho "for another machine" >&2\nexit 1\n');
    await install('go', '#!/bin/sh\necho "no such module" >&2\nexit 1\n');
    const { message } = (await find().catch((reason: unknown) => reason)) as Error;
    expect(message).toContain('1. TEMPORAL_ADDRESS with the address of a running server: not set');
    expect(message).toMatch(/2\. Temporal CLI on the PATH: temporal does not run/);
    expect(message).toMatch(/3\. download of the CLI through the Temporal SDK: \S+/);
    expect(message).toMatch(/4\. build with Go .*: go build ended with exit code 1\n\s+no such module/);
  });
});
