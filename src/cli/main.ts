#!/usr/bin/env node
import { guardProcess } from '../process-guard';
import type * as contextModule from './context';
import type * as programModule from './program';

guardProcess();
// Loaded only now that the process is guarded.
/* eslint-disable @typescript-eslint/no-require-imports -- an import would come before the guard */
const { processContext } = require('./context') as typeof contextModule;
const { runCli } = require('./program') as typeof programModule;

const stop = new AbortController();
const words = process.argv.slice(2);
/** Long-running programs: they finish their work in progress before they exit. */
const PROGRAMS = ['worker', 'simulator', 'dev'];
let ended: number | undefined;
for (const [signal, code] of Object.entries({ SIGINT: 130, SIGTERM: 143 }))
  process.on(signal, () => {
    ended ??= code;
    stop.abort();
    if (!PROGRAMS.includes(words[0] ?? '')) setTimeout(() => process.exit(code), 1_000).unref();
  });

// A reader that stops early (`runbook status ... | head`) is not a failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

void runCli(words, processContext(stop.signal)).then((code) => {
  process.exitCode = code === 1 ? code : (ended ?? code);
  // The buffered rest of a long answer must still be written. After that nothing is left to do, but a connection whose
  // other end never answers would keep the process alive.
  process.stdout.write('', () => setTimeout(() => process.exit(), 1_000).unref());
});
