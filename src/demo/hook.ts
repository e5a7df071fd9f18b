import { readFile, rm, writeFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { replaceFile } from './clients-address';
import { writerState } from './writer';

/*
 * The hooks of the demonstration's inventory, as a process of its own: `hook <target file> <quiesce file> <writer file>`.
 * The worker says which hook it is, and which clusters are concerned, in the environment.
 */

const QUIET_WITHIN_MS = 10_000;

async function main([target = '', quiesce = '', writer = '']: readonly string[]): Promise<void> {
  const { RUNBOOK_HOOK: hook, RUNBOOK_TO: to = '' } = process.env;
  switch (hook) {
    case 'quiesce':
      await writeFile(quiesce, '', { mode: 0o600 });
      return awaitQuiet(writer);
    case 'traffic':
      await replaceFile(target, to);
      return rm(quiesce, { force: true });
    case 'release':
      return rm(quiesce, { force: true });
    // Simulated clusters have no network of their own that could be cut off.
    case 'fence':
    case 'unfence':
    case 'dump':
      console.log(`${hook} of the demonstration: nothing to do`);
      return;
    default:
      throw new Error(`there is no hook ${hook ?? '(none named)'}`);
  }
}

async function awaitQuiet(writer: string): Promise<void> {
  const deadline = Date.now() + QUIET_WITHIN_MS;
  while (Date.now() < deadline) {
    const state = writerState.safeParse(JSON.parse(await readFile(writer, 'utf8')));
    if (state.success && state.data.state === 'quiet') return;
    await delay(20);
  }
  throw new Error('the writer did not become quiet');
}

main(process.argv.slice(2)).catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : 'the hook failed');
  process.exitCode = 1;
});
