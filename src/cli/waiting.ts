import { setTimeout as delay } from 'node:timers/promises';
import { nextCommandOf } from '../contracts/next-commands';
import type { Report } from '../contracts/report';
import type { CommandHost } from './command';
import type { CliContext } from './context';
import { EXIT } from './errors';
import { describe, pollersInWords, readPollers } from './run';
import type { RunReference } from './run';
import type { TemporalSession } from './temporal';
import { inWords } from './text';

const FIRST_WORD_MS = 2_000;
const AGAIN_MS = 10_000;

interface Waited {
  /** What is waited for, with its article. */
  readonly what: string;
  /** The run that a worker must carry on. */
  readonly run: RunReference;
  /** Default: for as long as the person likes. */
  readonly timeoutMs?: number;
}

/**
 * What `work` gives. While it takes its time a person reads every few seconds what is waited for, and whether any worker
 * polls; undefined where the time was over first, or the person ended the command.
 */
export async function waitVisibly<T>(
  context: Pick<CliContext, 'stop' | 'err'>,
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  { what, run, timeoutMs = 2 ** 31 - 1 }: Waited,
  work: Promise<T>,
): Promise<T | undefined> {
  const over = new AbortController();
  const signal = AbortSignal.any([context.stop, over.signal]);
  const pause = (ms: number) => delay(ms, undefined, { signal }).catch(() => undefined);
  const begin = Date.now();
  const speak = async (): Promise<void> => {
    await pause(FIRST_WORD_MS);
    while (!signal.aborted) {
      const polled = await polledInWords(session, run);
      const waited = `Waiting for ${what}, ${inWords(Math.round((Date.now() - begin) / 1_000) * 1_000)}`;
      // It may have come meanwhile.
      if (!over.signal.aborted) context.err(`${waited}: ${polled}. Ctrl-C ends the waiting, not the run.`);
      await pause(AGAIN_MS);
    }
  };
  void speak();
  const nothing = Symbol('nothing');
  try {
    const found = await Promise.race([work, pause(timeoutMs).then(() => nothing)]);
    return found === nothing ? undefined : (found as T);
  } finally {
    over.abort();
  }
}

/** The report of a run that was started for it; undefined where the time or the person ended the waiting first, which is said. */
export async function waitForReport(
  { context, finish }: CommandHost,
  session: TemporalSession,
  waited: Waited,
  result: Promise<Report>,
): Promise<Report | undefined> {
  const report = await waitVisibly(context, session, waited, result);
  if (report !== undefined) return report;
  const { what, run } = waited;
  context.err(`Not waiting any more; ${what} goes on: ${nextCommandOf.status(run.workflowId)}`);
  finish(EXIT.pending);
  return undefined;
}

async function polledInWords(
  session: Pick<TemporalSession, 'client' | 'namespace'>,
  run: RunReference,
): Promise<string> {
  try {
    const { taskQueue } = await describe(session.client, run);
    const pollers = await readPollers(session, taskQueue);
    const start = pollers?.count === 0 ? '; start one with "runbook worker"' : '';
    return `${pollersInWords(taskQueue, pollers)}${start}`;
  } catch {
    return 'Temporal does not answer';
  }
}
