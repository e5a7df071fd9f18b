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
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());

// The reader has read enough (`runbook status ... | head`): that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

void runCli(process.argv.slice(2), processContext(stop.signal)).then((code) => {
  // Not process.exit: what stands in the pipes of a long answer must still be written.
  process.exitCode = stop.signal.aborted && code === 0 ? 130 : code;
});
