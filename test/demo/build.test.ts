import { execFile } from 'node:child_process';
import { cpSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { projectRoot } from '../../src/dev-server/locations';
import { temporaryDirectory } from '../support/directory';

const run = promisify(execFile);
const project = temporaryDirectory('project');

function write(path: string, content: string): void {
  mkdirSync(dirname(join(project, path)), { recursive: true });
  writeFileSync(join(project, path), content);
}

/** Runs the demonstration of the small project with the real tasks, and returns its output. */
async function demo(): Promise<string> {
  const { stdout } = await run(process.execPath, [join(project, 'scripts/bootstrap.mjs'), 'demo']);
  return stdout;
}

const COMPILES = '== Compile';

beforeAll(() => {
  for (const file of ['scripts/bootstrap.mjs', 'package.json', 'tsconfig.json', 'tsconfig.build.json'])
    cpSync(join(projectRoot(), file), join(project, file));
  symlinkSync(join(projectRoot(), 'node_modules'), join(project, 'node_modules'));
  write('package-lock.json', '{ "packages": {} }');
  for (const step of ['bundle-workflows', 'bundle-pages']) write(`scripts/${step}.ts`, 'export {};\n');
  write('src/cli/demo/main.ts', "import { word } from '../../word';\nconsole.log(`says ${word}`);\n");
  write('src/word.ts', "export const word = 'one';\n");
});

it('compiles once, and again after each change of a source, of an output, or of the settings', async () => {
  const first = await demo();
  expect(first).toContain(COMPILES);
  expect(first).toContain('says one\n');
  const unchanged = await demo();
  expect(unchanged).not.toContain(COMPILES);
  expect(unchanged).toContain('says one\n');

  write('src/word.ts', "export const word = 'two';\n");
  expect(await demo()).toContain('says two\n');

  // What was compiled belongs to other sources, as after the compiler was run by hand and the sources were restored.
  const compiled = join(project, 'dist/src/word.js');
  writeFileSync(compiled, readFileSync(compiled, 'utf8').replace('two', 'three'));
  expect(await demo()).toContain('says two\n');
  rmSync(compiled);
  expect(await demo()).toContain('says two\n');
  expect(await demo()).not.toContain(COMPILES);

  const settings = readFileSync(join(project, 'tsconfig.json'), 'utf8');
  write('tsconfig.json', settings.replace('"es2022"', '"es2023"'));
  expect(await demo()).toContain(COMPILES);

  // A source that was is removed leaves nothing behind that could still run.
  rmSync(join(project, 'src/word.ts'));
  await expect(demo()).rejects.toThrow("Cannot find module '../../word'");
}, 180_000);

it('a build that failed is repeated', async () => {
  write('src/word.ts', "export const word = 'one';\n");
  write('scripts/bundle-workflows.ts', 'process.exitCode = 3;\n');
  await expect(demo()).rejects.toMatchObject({ code: 3 });
  await expect(demo()).rejects.toMatchObject({ code: 3 });
}, 60_000);
