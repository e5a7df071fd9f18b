import { readFileSync, writeFileSync } from 'node:fs';
import { url as inspectorAddress } from 'node:inspector';
import { RunbookError } from './errors';

/** Set to `yes` where a debugger or memory dumps are wanted: a laboratory, never where real key shares arrive. */
const DEBUGGING_VARIABLE = 'RUNBOOKS_ALLOW_DEBUGGING';

/** Options of Node by which memory, or what goes through TLS, gets out of the process. */
const REFUSED_OPTIONS: readonly RegExp[] = [
  /^--inspect(-|$)/,
  /^--debug(-|$)/,
  /^--heapsnapshot-/,
  /^--heap-prof/,
  /^--report-(on-|uncaught-|signal)/,
  /^--abort-on-uncaught-exception$/,
  /^--tls-keylog$/,
];
/** Options of Node that load code before ours. */
const PRELOADS = /^(-r|--require|--import|--loader|--experimental-loader|--experimental(-default)?-config-file)$/;
/** Variables by which modules of Node print what they send. */
const REFUSED_VARIABLES = ['NODE_DEBUG', 'NODE_DEBUG_NATIVE'];

/**
 * Closes the ways out of this process's memory that it can close itself, before it holds a secret: SIGUSR1 opens no
 * inspector, a core dump holds no memory (Linux), and no diagnostic report is written by itself. Every program of the
 * command line does this first. Safe to call more than once.
 */
export function guardProcess(): void {
  // A listener takes the place of Node's own handler, which would listen for a debugger.
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => undefined);
  const { report } = process;
  report.reportOnFatalError = false;
  report.reportOnSignal = false;
  report.reportOnUncaughtException = false;
  try {
    // Of all mappings none: also for dumps that the kernel hands to a program, which RLIMIT_CORE does not stop.
    writeFileSync('/proc/self/coredump_filter', '0');
  } catch {
    // Not Linux, or not allowed: the worker says so at its start.
  }
}

/** What weakens a process that holds secrets, without forbidding it, and what to do about it. */
interface Weakness {
  readonly text: string;
  readonly next: string;
}

/** What a host can be asked about a process; tests give their own. */
export interface ProcessFacts {
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly execArgv: readonly string[];
  /** Address of an open inspector. */
  readonly inspector: string | undefined;
  /** Whether the program is the built one: its sources are TypeScript, which only something that was preloaded can read. */
  readonly built: boolean;
  /** Text of a file; undefined where it cannot be read. */
  readonly read: (path: string) => string | undefined;
}

/** This process. */
export function processFacts(env: Readonly<NodeJS.ProcessEnv>): ProcessFacts {
  const built = !__filename.endsWith('.ts');
  return { env, execArgv: process.execArgv, inspector: inspectorAddress(), built, read: readText };
}

/**
 * Refuses to begin anything where Node was told to trust any certificate, or to load other code first. Every command
 * does this, also those of a key holder and of an approver. It finds what was set by mistake or left over: code that was
 * loaded first can hide itself.
 *
 * @throws RunbookError `INVALID_INPUT`; other code may be loaded first with `RUNBOOKS_ALLOW_DEBUGGING=yes`
 */
export function refuseUnsafeStart({ env, execArgv, built }: Omit<ProcessFacts, 'read' | 'inspector'>): void {
  const preloads = built
    ? [...execArgv, ...optionsOf(env['NODE_OPTIONS'])].map(nameOf).filter((name) => PRELOADS.test(name))
    : [];
  const believes = env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0';
  if (!believes && (preloads.length === 0 || env[DEBUGGING_VARIABLE] === 'yes')) return;
  const seen = [...(believes ? ['NODE_TLS_REJECT_UNAUTHORIZED=0'] : []), ...new Set(preloads)];
  throw new RunbookError(
    'INVALID_INPUT',
    'This program does not start in a process that trusts any certificate or loads other code first.',
    {
      observed: seen.join(', '),
      needed: 'certificates that are verified, and no code that is loaded before the program',
      next: believes
        ? 'Unset NODE_TLS_REJECT_UNAUTHORIZED. Where a certificate is not known, name its CA: caFile in the inventory.'
        : `Start it without that option of node, or of NODE_OPTIONS; in a laboratory set ${DEBUGGING_VARIABLE}=yes.`,
    },
  );
}

/**
 * Whether a worker may hold secrets in this process.
 *
 * @returns what weakens it: core dumps, swap, a debugger that was allowed
 * @throws RunbookError `INVALID_INPUT` where the process was started so that its memory gets out, unless
 * `RUNBOOKS_ALLOW_DEBUGGING=yes`.
 */
export function checkProcess({ env, execArgv, inspector, read }: ProcessFacts): readonly Weakness[] {
  const options = [...execArgv, ...optionsOf(env['NODE_OPTIONS'])].map(nameOf);
  const open = [
    ...options.filter((option) => REFUSED_OPTIONS.some((refused) => refused.test(option))),
    ...REFUSED_VARIABLES.filter((name) => (env[name] ?? '') !== ''),
    ...(inspector === undefined ? [] : ['an open inspector']),
  ];
  const observed = [...new Set(open)].join(', ');
  if (open.length > 0 && env[DEBUGGING_VARIABLE] !== 'yes') {
    throw new RunbookError('INVALID_INPUT', 'A worker holds key shares: it does not start in a process that is open.', {
      observed,
      needed: 'no inspector, heap snapshot, diagnostic report or debug output in the arguments of node or NODE_OPTIONS',
      next: `Start it without them; in a laboratory set ${DEBUGGING_VARIABLE}=yes.`,
    });
  }
  const next = `In the worker's shell: \`unset ${DEBUGGING_VARIABLE}\``;
  const allowed = open.length > 0 ? [{ text: `${DEBUGGING_VARIABLE} is set: ${observed}`, next }] : [];
  return [...allowed, ...coreDumps(read), ...swap(read)];
}

/** `NODE_OPTIONS` may quote, and an option may follow anything. */
function optionsOf(text = ''): string[] {
  return text.split(/[\s"]+/).filter((each) => each.startsWith('-'));
}

/** Node reads `_` as `-`. */
function nameOf(option: string): string {
  return (option.split('=')[0] ?? '').replaceAll('_', '-');
}

function coreDumps(read: ProcessFacts['read']): Weakness[] {
  const next = "In the worker's shell: `ulimit -c 0`; its systemd unit does it";
  const limits = read('/proc/self/limits');
  if (limits === undefined) return [{ text: 'whether this process may dump core cannot be read here', next }];
  const [, soft = 'unknown'] = /^Max core file size\s+(\S+)/m.exec(limits) ?? [];
  if (soft === '0') return [];
  const filter = Number.parseInt(read('/proc/self/coredump_filter')?.trim() || 'ff', 16);
  const danger = filter === 0 ? 'would hold no memory' : 'would hold key shares';
  return [{ text: `core dumps are not forbidden (limit ${soft}); they ${danger}`, next }];
}

function swap(read: ProcessFacts['read']): Weakness[] {
  const areas = (read('/proc/swaps') ?? '').trim().split('\n').slice(1);
  const text = 'swap is on: key shares and ceremony keys may get to a disk';
  return areas.length === 0 ? [] : [{ text, next: '`sudo swapoff -a`, or encrypt it' }];
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
