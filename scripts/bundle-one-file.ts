import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { basename, join, relative, resolve } from 'node:path';
import * as esbuild from 'esbuild';
import writeFileAtomic from 'write-file-atomic';
import { projectRoot } from '../src/dev-server/locations';
import { englishOnly } from './bundle-pages';

/** Where the build writes the file, relative to the project root. The file with its hash is in the same folder. */
const ONE_FILE_PATH = join('dist', 'runbook.cjs');
/** What people download. */
const LARGEST_BYTES = 5_000_000;
const OWN_MODULES = join('src', 'cli', 'one-file');
/** The modules that {@link OWN_MODULES} replaces, each by the one with the same name. */
const REPLACED = ['src/cli/command-files', 'src/dev-server/locations', 'src/worker/data-converter'];

/**
 * Bundles the commands of people: one file that needs nothing but Node. The same sources produce the same bytes,
 * regardless of their location.
 *
 * @param root folder with the sources, `package.json`, and `node_modules`.
 */
export async function buildOneFile(root = projectRoot()) {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  const { outputFiles, metafile } = await esbuild.build({
    absWorkingDir: root,
    // The names of modules are in the file: those in the folder, wherever its packages really are.
    preserveSymlinks: true,
    entryPoints: [join(OWN_MODULES, 'main.ts')],
    bundle: true,
    write: false,
    metafile: true,
    format: 'cjs',
    platform: 'node',
    target: ['node20.19'],
    // A package of the new module format asks where it is, to load what is built into Node.
    define: { RUNBOOK_VERSION: JSON.stringify(version), 'import.meta.url': '__filename' },
    // Names stay readable: stack traces show them, and some packages use those of their classes.
    minifySyntax: true,
    minifyWhitespace: true,
    legalComments: 'eof',
    logLevel: 'warning',
    plugins: [englishOnly, replacements(root)],
  });
  const [output] = outputFiles;
  if (output === undefined) throw new Error('The bundler returned no file.');
  const native = Object.keys(metafile.inputs).filter((input) =>
    /@temporalio\/(worker|core-bridge)\/|\.node$/.test(input),
  );
  if (native.length > 0) throw new Error(`The file has parts of the worker: ${native.slice(0, 3).join(', ')}`);
  const program = Buffer.from(output.contents);
  if (program.length > LARGEST_BYTES) throw new Error(`The file is too large: ${program.length} bytes.`);
  return { program, sha256: createHash('sha256').update(program).digest('hex') };
}

/** The program, and its SHA-256 in hexadecimal. */
export type BuiltProgram = Awaited<ReturnType<typeof buildOneFile>>;

/** Loads the modules in {@link OWN_MODULES} instead of those that need other files or load the worker. */
function replacements(root: string): esbuild.Plugin {
  return {
    name: 'replacements',
    setup: (build) =>
      build.onResolve({ filter: /^\.\.?\// }, ({ path, resolveDir, kind }) => {
        const wanted = relative(root, resolve(resolveDir, path)).replaceAll('\\', '/');
        if (kind === 'entry-point' || !REPLACED.includes(wanted)) return undefined;
        return { path: join(root, OWN_MODULES, `${basename(wanted)}.ts`) };
      }),
  };
}

/** Writes the program, and its hash in the format of `sha256sum --check`. Each file appears only when it is complete. */
export async function writeOneFile(outFile: string): Promise<BuiltProgram> {
  const built = await buildOneFile();
  await writeFileAtomic(outFile, built.program, { mode: 0o755 });
  await writeFileAtomic(`${outFile}.sha256`, `${built.sha256}  ${basename(outFile)}\n`);
  return built;
}

/** Build step: writes the program, which is published unchanged, and its hash. */
async function main(): Promise<void> {
  const { program, sha256 } = await writeOneFile(join(projectRoot(), ONE_FILE_PATH));
  console.log(`${ONE_FILE_PATH}: ${(program.length / 1024 / 1024).toFixed(1)} MiB, SHA-256 ${sha256}`);
}

if (require.main === module) void main();
