import { readFileSync, writeFileSync } from 'node:fs';
import { url as inspectorAddress } from 'node:inspector';
import { RunbookError } from './errors';

/** Set to `yes` to allow a debugger or memory dumps: in a laboratory only, never with real key shares. */
const DEBUGGING_VARIABLE = 'RUNBOOKS_ALLOW_DEBUGGING';

/** Set to `yes` to run a worker as user 0: in a laboratory, or in a container where that is an ordinary user of the host. */
const ROOT_VARIABLE = 'RUNBOOKS_ALLOW_ROOT';

/** Node options that expose the process's memory or its TLS traffic. */
const REFUSED_OPTIONS: readonly RegExp[] = [
  /^--inspect(-|$)/,
  /^--debug(-|$)/,
  /^--heapsnapshot-/,
  /^--heap-prof/,
  /^--report-(on-|uncaught-|signal)/,
  /^--abort-on-uncaught-exception$/,
  /^--tls-keylog$/,
];
/** Node options that load other code before ours. */
const PRELOADS = /^(-r|--require|--import|--loader|--experimental-loader|--experimental(-default)?-config-file)$/;
/** Variables that make Node modules print what they send. */
const REFUSED_VARIABLES = ['NODE_DEBUG', 'NODE_DEBUG_NATIVE'];

/**
 * Protects this process's memory as far as the process itself can, before it holds a secret: SIGUSR1 opens no
 * inspector, a core dump contains no memory (Linux), and no diagnostic report is written automatically. Every command
 * calls this first. Safe to call more than once.
 */
export function guardProcess(): void {
  // A listener replaces Node's own handler, which would listen for a debugger.
  if (process.listenerCount('SIGUSR1') === 0) process.on('SIGUSR1', () => undefined);
  const { report } = process;
  report.reportOnFatalError = false;
  report.reportOnSignal = false;
  report.reportOnUncaughtException = false;
  try {
    // Dump no mapping. Also covers dumps that the kernel pipes to a program, which RLIMIT_CORE does not stop.
    writeFileSync('/proc/self/coredump_filter', '0');
  } catch {
    // Not Linux, or not allowed: the worker reports it when it starts.
  }
}

/** Something that weakens a process that holds secrets but does not stop it from starting, and what to do about it. */
interface Weakness {
  readonly text: string;
  readonly next: string;
}

/** The facts about a process and its host; tests pass their own. */
export interface ProcessFacts {
  readonly env: Readonly<NodeJS.ProcessEnv>;
  readonly execArgv: readonly string[];
  /** Address of an open inspector. */
  readonly inspector: string | undefined;
  /** The user that this process runs as; undefined where there are no such numbers. */
  readonly uid: number | undefined;
  /** Whether every deployment of the inventory is a laboratory: then a worker may run as root. */
  readonly isLaboratory: boolean;
  /** Whether this is the built program. Running the TypeScript sources requires a preload. */
  readonly built: boolean;
  /** Text of a file; undefined if it cannot be read. */
  readonly read: (path: string) => string | undefined;
}

/** This process. */
export function processFacts(env: Readonly<NodeJS.ProcessEnv>, isLaboratory = false): ProcessFacts {
  const built = !__filename.endsWith('.ts');
  const uid = process.geteuid?.();
  return { env, execArgv: process.execArgv, inspector: inspectorAddress(), uid, isLaboratory, built, read: readText };
}

/**
 * Refuses to start if Node was told to trust any certificate, or to load other code first. Every command calls this,
 * including those of key holders and approvers. It finds leftovers and mistakes only: code that was loaded first can
 * hide itself.
 *
 * @throws RunbookError `INVALID_INPUT`; `RUNBOOKS_ALLOW_DEBUGGING=yes` permits other code to be loaded first
 */
export function refuseUnsafeStart({ env, execArgv, built }: Pick<ProcessFacts, 'env' | 'execArgv' | 'built'>): void {
  const preloads = built
    ? [...execArgv, ...optionsOf(env['NODE_OPTIONS'])].map(nameOf).filter((name) => PRELOADS.test(name))
    : [];
  const trustsAny = env['NODE_TLS_REJECT_UNAUTHORIZED'] === '0';
  if (!trustsAny && (preloads.length === 0 || env[DEBUGGING_VARIABLE] === 'yes')) return;
  const seen = [...(trustsAny ? ['NODE_TLS_REJECT_UNAUTHORIZED=0'] : []), ...new Set(preloads)];
  const text = 'This program does not start in a process that trusts any certificate or loads other code first.';
  throw new RunbookError('INVALID_INPUT', text, {
    observed: seen.join(', '),
    needed: 'verified certificates, and no code that is loaded before the program',
    next: trustsAny
      ? 'Unset NODE_TLS_REJECT_UNAUTHORIZED. If a certificate is not trusted, name its CA: caFile in the inventory.'
      : `Start it without that option of node or NODE_OPTIONS. In a laboratory, set ${DEBUGGING_VARIABLE}=yes.`,
  });
}

/**
 * Whether a worker may hold secrets in this process.
 *
 * @returns what weakens it: core dumps, swap, and what was allowed
 * @throws RunbookError `INVALID_INPUT` if the process was started in a way that exposes its memory, unless
 * `RUNBOOKS_ALLOW_DEBUGGING=yes`, or as root, unless the inventory is that of a laboratory or `RUNBOOKS_ALLOW_ROOT=yes`.
 */
export function checkProcess(facts: ProcessFacts): readonly Weakness[] {
  return [...exposures(facts), ...rootRights(facts), ...coreDumps(facts.read), ...swap(facts.read)];
}

function exposures({ env, execArgv, inspector }: ProcessFacts): Weakness[] {
  const options = [...execArgv, ...optionsOf(env['NODE_OPTIONS'])].map(nameOf);
  const open = [
    ...options.filter((option) => REFUSED_OPTIONS.some((refused) => refused.test(option))),
    ...REFUSED_VARIABLES.filter((name) => (env[name] ?? '') !== ''),
    ...(inspector === undefined ? [] : ['an open inspector']),
  ];
  const observed = [...new Set(open)].join(', ');
  if (open.length > 0 && env[DEBUGGING_VARIABLE] !== 'yes') {
    const text = 'A worker holds key shares: it does not start in a process that exposes its memory.';
    throw new RunbookError('INVALID_INPUT', text, {
      observed,
      needed: 'no inspector, heap snapshot, diagnostic report or debug output in the arguments of node or NODE_OPTIONS',
      next: `Start it without them. In a laboratory, set ${DEBUGGING_VARIABLE}=yes.`,
    });
  }
  const next = `In the worker's shell: \`unset ${DEBUGGING_VARIABLE}\``;
  return open.length > 0 ? [{ text: `${DEBUGGING_VARIABLE} is set: ${observed}`, next }] : [];
}

function rootRights({ env, uid, isLaboratory }: ProcessFacts): Weakness[] {
  if (uid !== 0) return [];
  if (isLaboratory)
    return [{ text: 'The worker of this laboratory runs as root', next: 'Elsewhere it does not start' }];
  if (env[ROOT_VARIABLE] === 'yes')
    return [
      {
        text: `${ROOT_VARIABLE} is set: the worker runs as root`,
        next: 'Outside of a laboratory, start it as another user',
      },
    ];
  throw new RunbookError('INVALID_INPUT', 'A worker does not run as root.', {
    observed: 'user 0 (root)',
    needed: 'a user of its own, so that a mistake of the worker or its packages does not get the whole host',
    next: `Start it as such a user, for example with the systemd unit. In a laboratory, or in a rootless container, where user 0 is an ordinary user of the host, set ${ROOT_VARIABLE}=yes.`,
  });
}

/** Splits at quotes too: `NODE_OPTIONS` may contain quoted options. */
function optionsOf(text = ''): string[] {
  return text.split(/[\s"]+/).filter((each) => each.startsWith('-'));
}

/** The name of an option. Node treats `_` like `-`. */
function nameOf(option: string): string {
  return (option.split('=')[0] ?? '').replaceAll('_', '-');
}

function coreDumps(read: ProcessFacts['read']): Weakness[] {
  const next = "In the worker's shell: `ulimit -c 0`; its systemd unit does this already";
  const limits = read('/proc/self/limits');
  if (limits === undefined) return [{ text: 'the core dump limit of this process cannot be read', next }];
  const [, soft = 'unknown'] = /^Max core file size\s+(\S+)/m.exec(limits) ?? [];
  if (soft === '0') return [];
  const filter = Number.parseInt(read('/proc/self/coredump_filter')?.trim() || 'ff', 16);
  const danger = filter === 0 ? 'would contain no memory' : 'would contain key shares';
  return [{ text: `core dumps are not disabled (limit ${soft}); they ${danger}`, next }];
}

function swap(read: ProcessFacts['read']): Weakness[] {
  const areas = (read('/proc/swaps') ?? '').trim().split('\n').slice(1);
  const text = 'swap is on: key shares and ceremony keys may be written to a disk';
  return areas.length === 0 ? [] : [{ text, next: '`sudo swapoff -a`, or encrypt the swap' }];
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
