/**
 * Workers that can be killed cheaply, one activity at a time, in the process of the test. A killed attempt is frozen for
 * good where it waits for the service: no answer reaches it, it makes no further call, no `finally` of it runs, its
 * heartbeats end and nothing is reported. So Temporal sees what it sees after SIGKILL: silence until the heartbeat
 * timeout, then another attempt over what is on disk. What this leaves out, the loss of the workflow cache and of the
 * pollers, is in `test/long/worker-killed.test.ts`, with real processes.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { CompleteAsyncError, Context } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type * as Activities from '../../activities';
import { Transport } from '../../src/vault/transport';

class Attempt {
  dead = false;
  die: () => void = () => undefined;
  readonly death = new Promise<never>((_resolve, reject) => {
    this.die = () => {
      this.dead = true;
      reject(new CompleteAsyncError());
    };
  });
}

const current = new AsyncLocalStorage<Attempt>();
const generations = new Map<string, Attempt>();
/** Clusters whose next token generation dies right before it reports its token. */
const deadlines = new Set<string>();
/** Clusters whose next last share is ordered, and taken up by a worker that dies at once. */
const between = new Set<string>();
const never = new Promise<never>(() => undefined);

/** The activity of a token generation that is under way on a cluster ends here and now. */
export function killGeneration(cluster: string): void {
  generations.get(cluster)?.die();
}

/** The next generation on a cluster that makes a token ends with the token sealed and noted, and reports nothing. */
export function killBeforeReport(cluster: string): { remove(): void } {
  deadlines.add(cluster);
  return { remove: () => void deadlines.delete(cluster) };
}

/** Between the two activities: the last share is ordered, and whoever takes that up dies before anything is done. */
export function killBeforeLastShare(cluster: string): { remove(): void } {
  between.add(cluster);
  return { remove: () => void between.delete(cluster) };
}

const KILLABLE = new Set(['startGeneration', 'completeGeneration']);

/** The activities, with token generations that can be killed: for `jest.mock`. */
export function killableActivities() {
  const actual = jest.requireActual<typeof Activities>('../../activities');
  return { ...actual, interceptActivities: (given: never) => killable(actual.interceptActivities(given)) };
}

/** What activities are wrapped in, with token generations that can be killed. */
function killable(border: ActivityInterceptorsFactory): ActivityInterceptorsFactory {
  freezeTransports();
  return (context) => {
    const { inbound, ...others } = border(context);
    const execute = inbound?.execute?.bind(inbound);
    const { activityType } = context.info;
    if (!KILLABLE.has(activityType) || !execute) return { inbound, ...others };
    return {
      ...others,
      inbound: {
        execute: (input, next) => {
          const attempt = new Attempt();
          const { cluster } = input.args[0] as { readonly cluster: string };
          generations.set(cluster, attempt);
          attempt.death.catch(() => undefined);
          const body = () => reported(cluster, execute(input, next));
          return current.run(attempt, () => {
            if (activityType === 'completeGeneration' && between.delete(cluster)) attempt.die();
            return Promise.race([attempt.dead ? never : runWith(attempt, body), attempt.death]);
          });
        },
      },
    };
  };
}

async function reported(cluster: string, result: Promise<unknown>): Promise<unknown> {
  const value = await result;
  const { next } = value as { readonly next?: string };
  if (next === 'token' && deadlines.delete(cluster)) killGeneration(cluster);
  return value;
}

/** Runs the body so that its heartbeats end with the attempt. */
function runWith<T>(attempt: Attempt, body: () => Promise<T>): Promise<T> {
  const context: { heartbeat: (details?: unknown) => void } = Context.current();
  const { heartbeat } = Context.current();
  context.heartbeat = (details) => {
    if (!attempt.dead) heartbeat(details);
  };
  // The timer of the heartbeats is made before the body first waits.
  const { setInterval: original } = globalThis;
  const timers: NodeJS.Timeout[] = [];
  globalThis.setInterval = (...given: Parameters<typeof original>) => {
    const timer = original(...given);
    timers.push(timer);
    return timer;
  };
  attempt.death.catch(() => timers.forEach((timer) => clearInterval(timer)));
  try {
    return body();
  } finally {
    globalThis.setInterval = original;
  }
}

let frozen = false;
function freezeTransports(): void {
  if (frozen) return;
  frozen = true;
  // eslint-disable-next-line @typescript-eslint/unbound-method -- called with its own receiver below
  const { send } = Transport.prototype;
  Transport.prototype.send = async function (this: Transport, ...given) {
    const attempt = current.getStore();
    if (attempt?.dead) return never;
    try {
      const answer = await send.apply(this, given);
      return attempt?.dead ? await never : answer;
    } catch (error) {
      if (attempt?.dead) return never;
      throw error;
    }
  };
}
