import { spawn } from 'node:child_process';
import type { ChildProcess } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { RunbookError } from '../../src/errors';
import type { CommandHook } from '../../src/inventory';
import { OutputTail } from './hook-output';
import type { HookEnd, HookFacts } from './hook-output';

/** How long a program that was told to end may take before it is killed. */
const END_WITHIN_MS = 1_000;
/** How long what it wrote last is waited for after it ended: a process that it left behind may hold the pipe. */
const REST_WITHIN_MS = 200;

/** Runs a hook without a shell, in a process group of its own, and ends the group where its time is over. */
export async function runCommand(entry: CommandHook, facts: HookFacts, signal: AbortSignal): Promise<HookEnd> {
  const [program = '', ...args] = entry.command;
  const output = new OutputTail();
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: { ...inherited(), ...variablesOf(facts) },
    // Node drops all further groups with it. Where the worker is not root it cannot: not begun.
    ...entry.user,
  });
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => output.add(chunk));
  const ended = new Promise<number | string>((resolve) => {
    child.once('error', (error) => resolve('code' in error ? String(error.code) : 'could not be started'));
    child.once('exit', (code, killedBy) => resolve(code ?? String(killedBy)));
  });
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const first = await Promise.race([ended, timeIsOver(entry.timeoutMs, signal)]);
  if (first === 'timed-out' || first === 'cancelled') await end(child, ended);
  await Promise.race([closed, delay(REST_WITHIN_MS)]);
  child.stdout.destroy();
  child.stderr.destroy();
  if (first === 'cancelled')
    throw new RunbookError('REQUEST_CANCELLED', `The ${facts.hook} hook was cancelled and ended.`);
  const how = first === 'timed-out' ? `still running after ${entry.timeoutMs / 1000} s, ended` : `exit ${first}`;
  return { ok: first === 0, how, begun: child.pid !== undefined, output: output.text() };
}

async function timeIsOver(milliseconds: number, signal: AbortSignal): Promise<'timed-out' | 'cancelled'> {
  try {
    await delay(milliseconds, undefined, { signal, ref: false });
    return 'timed-out';
  } catch {
    return 'cancelled';
  }
}

/** What it started itself ends with it. */
async function end(child: ChildProcess, ended: Promise<unknown>): Promise<void> {
  kill(child, 'SIGTERM');
  await Promise.race([ended, delay(END_WITHIN_MS)]);
  kill(child, 'SIGKILL');
}

function kill({ pid }: ChildProcess, signal: NodeJS.Signals): void {
  try {
    if (pid !== undefined) process.kill(-pid, signal);
  } catch {
    // The group is gone.
  }
}

/** What a program needs to find its parts and its language. Of the worker's own environment nothing else. */
function inherited(): NodeJS.ProcessEnv {
  const names = ['PATH', 'LANG', 'LC_ALL', 'LC_CTYPE', 'TZ'];
  return Object.fromEntries(
    names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

function variablesOf(facts: HookFacts): NodeJS.ProcessEnv {
  return {
    RUNBOOK_HOOK: facts.hook,
    RUNBOOK_DEPLOYMENT: facts.deployment,
    RUNBOOK_FROM: facts.from,
    RUNBOOK_TO: facts.to,
    RUNBOOK_FACTS: JSON.stringify(facts),
  };
}
