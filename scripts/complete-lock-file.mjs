/**
 * Adds what npm leaves out of package-lock.json when the registry that it was made with does not serve the native
 * packages of other platforms: `npm ci` refuses a lock file in which any of them is missing. The added entries pin the
 * exact version that the parent package asks for; they carry no integrity hash, as none was to be had.
 * Run it after `npm install <package>`; a test tells when it is needed.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const SYSTEMS = ['aix', 'android', 'darwin', 'freebsd', 'linux', 'netbsd', 'openbsd', 'openharmony', 'sunos', 'win32'];
const PROCESSORS = ['arm', 'arm64', 'ia32', 'loong64', 'mips64el', 'ppc64', 'riscv64', 's390x', 'x64'];

/** Entries to add to the lock file's `packages`, by path. */
function missingPlatformPackages(lockFile) {
  const added = {};
  for (const [path, entry] of Object.entries(lockFile.packages)) {
    for (const [name, version] of Object.entries(entry.optionalDependencies ?? {})) {
      const hoisted = `node_modules/${name}`;
      if (lockFile.packages[hoisted] !== undefined || lockFile.packages[`${path}/${hoisted}`] !== undefined) continue;
      const words = name.split('/').at(-1).split('-');
      const os = words.filter((word) => SYSTEMS.includes(word));
      const cpu = words.filter((word) => PROCESSORS.includes(word));
      if (os.length !== 1 || cpu.length !== 1 || !/^\d+\.\d+\.\d+$/.test(version)) {
        throw new Error(`${name} ${version} of ${path} is missing in the lock file and is no platform package`);
      }
      added[hoisted] = { version, cpu, ...(entry.dev === true ? { dev: true } : {}), optional: true, os };
    }
  }
  return added;
}

const file = fileURLToPath(new URL('../package-lock.json', import.meta.url));
const lockFile = JSON.parse(readFileSync(file, 'utf8'));
const added = missingPlatformPackages(lockFile);
const { '': root, ...others } = { ...lockFile.packages, ...added };
const sorted = Object.entries(others).sort(([left], [right]) => left.localeCompare(right, 'en'));
lockFile.packages = { '': root, ...Object.fromEntries(sorted) };
writeFileSync(file, `${JSON.stringify(lockFile, null, 2)}\n`);
console.log(`package-lock.json: ${Object.keys(added).length} platform packages added`);
