import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findTemporalServer, temporalRecipe } from '../../src/dev-server/find-temporal-server';
import type { TemporalRecipe } from '../../src/dev-server/find-temporal-server';

const FLAGS = '--http-port x --ui-port x --dynamic-config-value x';
const temporalScript = (version: string, flags = FLAGS): string =>
  `#!/bin/sh\nif [ "$1" = --version ]; then echo 'temporal version ${version}'; else echo '${flags}'; fi\n`;
/** A go command that "compiles" the given text to the file after -o, and notes each build. */
const goScript = (result: string, log: string): string =>
  `#!/bin/sh\nif [ "$1" = version ]; then echo go version go1.26.4 test; exit 0; fi\n` +
  `echo build >> '${log}'\nwhile [ "$1" != -o ]; do shift; done\ncat > "$2" <<'END'\n${result}END\nchmod +x "$2"\n`;
/** No proxy answers here, so a download fails at once wherever the test runs. */
const NO_NETWORK = { HTTPS_PROXY: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' };

describe('findTemporalServer', () => {
  let directory: string;
  let environment: NodeJS.ProcessEnv;
  let recipe: TemporalRecipe;
  let progress: string[];
  const onProgress = (line: string): void => void progress.push(line);
  const find = (): ReturnType<typeof findTemporalServer> => findTemporalServer({ environment, recipe, onProgress });

  async function install(name: string, text: string): Promise<void> {
    await writeFile(join(directory, 'bin', name), text);
    await chmod(join(directory, 'bin', name), 0o755);
  }

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'find-temporal-'));
    await mkdir(join(directory, 'bin'));
    await mkdir(join(directory, 'recipe'));
    await writeFile(
      join(directory, 'recipe', 'go.mod'),
      'module m\n\nrequire (\n\tgithub.com/temporalio/cli v1.8.2\n)\n',
    );
    await writeFile(join(directory, 'recipe', 'go.sum'), 'sum\n');
    // /bin and /usr/bin are for the shell scripts; a temporal or go that lies there would be found.
    environment = { PATH: join(directory, 'bin'), XDG_CACHE_HOME: join(directory, 'cache'), ...NO_NETWORK };
    recipe = temporalRecipe(join(directory, 'recipe'), environment);
    progress = [];
  });

  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('takes TEMPORAL_ADDRESS before everything else', async () => {
    await install('temporal', temporalScript('9'));
    environment['TEMPORAL_ADDRESS'] = 'temporal.example:7233';
    await expect(find()).resolves.toEqual({ address: 'temporal.example:7233' });
  });

  it('takes the Temporal CLI on the PATH before a download or a build', async () => {
    await install('temporal', temporalScript('9.9.9'));
    await expect(find()).resolves.toMatchObject({
      way: 'path',
      executable: { path: join(directory, 'bin', 'temporal'), version: 'temporal version 9.9.9' },
    });
  });

  it('takes what the SDK downloaded before', async () => {
    const downloads = join(directory, 'cache', 'replication-runbooks', 'temporal', 'download');
    await mkdir(downloads, { recursive: true });
    await writeFile(join(downloads, 'temporal-cli-default-sdk-typescript-1.24.0'), temporalScript('8'), {
      mode: 0o755,
    });
    await expect(find()).resolves.toMatchObject({ way: 'download', executable: { version: 'temporal version 8' } });
  });

  it('builds with Go where nothing else is had, and once only', async () => {
    const log = join(directory, 'builds');
    environment['PATH'] += ':/usr/bin:/bin';
    await install('go', goScript(temporalScript('7'), log));
    const found = await find();
    await expect(find()).resolves.toEqual(found);
    expect(found).toMatchObject({ way: 'build', executable: { path: recipe.binary, version: 'temporal version 7' } });
    expect(await readFile(log, 'utf8')).toBe('build\n');
    expect(await readdir(recipe.cacheDirectory)).toEqual(['temporal']);
    expect(progress.join('\n')).toContain('Building the Temporal server 1.8.2 with go1.26.4');
  });

  it('gives two that build at the same time the same result', async () => {
    environment['PATH'] += ':/usr/bin:/bin';
    await install('go', goScript(temporalScript('7'), join(directory, 'builds')));
    const [first, second] = await Promise.all([find(), find()]);
    expect(second).toEqual(first);
    expect(await readdir(recipe.cacheDirectory)).toEqual(['temporal']);
  });

  it('never takes a build that does not run for done', async () => {
    environment['PATH'] += ':/usr/bin:/bin';
    await install('go', goScript('half a binary\n', join(directory, 'builds')));
    await expect(find()).rejects.toMatchObject({ code: 'TEMPORAL_UNAVAILABLE' });
    expect(await readdir(recipe.cacheDirectory)).toEqual([]);
  });

  it('names the four ways and what each answered where none works', async () => {
    environment['PATH'] += ':/usr/bin:/bin';
    await install('temporal', temporalScript('0.1', '--ui-port x'));
    await install(
      'go',
      '#!/bin/sh\nif [ "$1" = version ]; then echo go version go1.26.4; exit 0; fi\necho "no such module" >&2\nexit 1\n',
    );
    const error: unknown = await find().catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'TEMPORAL_UNAVAILABLE' });
    const { message } = error as Error;
    expect(message).toContain('1. TEMPORAL_ADDRESS with the address of a running server: not set');
    expect(message).toMatch(/2\. the Temporal CLI on the PATH: .*0\.1\) is too old: it has no --http-port/);
    expect(message).toMatch(/3\. the download of the Temporal SDK: \S+/);
    expect(message).toMatch(
      /4\. a build with Go from tools\/temporal: go build ended with exit code 1\n\s+no such module/,
    );
  });

  it('says that Go is missing where it is', async () => {
    await expect(find()).rejects.toThrow('a build with Go from tools/temporal: no go on the PATH');
  });
});
