import { join } from 'node:path';
import { projectRoot } from '../dev-server/locations';

/** How one of our programs is started as a process of its own: compiled as `.js`, or from its source. */
function programCommand(modulePath: string): readonly [string, ...string[]] {
  if (__filename.endsWith('.js')) return [process.execPath, `${modulePath}.js`];
  return [process.execPath, '-r', join(projectRoot(), 'scripts', 'register-typescript.cjs'), `${modulePath}.ts`];
}

/** The command line program. */
export function runbookCommand(): readonly [string, ...string[]] {
  return programCommand(join(__dirname, '..', 'cli', 'main'));
}

/** A program of this folder. */
export function demoCommand(name: 'hook' | 'simulated' | 'writer'): readonly [string, ...string[]] {
  return programCommand(join(__dirname, name));
}
