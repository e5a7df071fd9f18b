#!/usr/bin/env node
import './guard';
import { processContext } from './context';
import { runCli } from './program';

const stop = new AbortController();
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => stop.abort());

// Whoever reads has read enough (`runbook status ... | head`): that is no failure.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error;
  process.exit();
});

void runCli(process.argv.slice(2), processContext(stop.signal)).then((code) => {
  // Not process.exit: what stands in the pipes of a long answer must still be written.
  process.exitCode = stop.signal.aborted && code === 0 ? 130 : code;
});
