/**
 * Workers that can be killed cheaply, one activity at a time, in the process of the test. A killed attempt is frozen for
 * good where it waits for the service: no answer reaches it, it makes no further call, no `finally` of it runs, its
 * heartbeats end and nothing is reported. So Temporal sees what it sees after SIGKILL: silence until the heartbeat
 * timeout, then another attempt over what is on disk. What this leaves out, the loss of the workflow cache and of the
 * pollers, is in `burst-killed.test.ts`, with real processes.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { CompleteAsyncError, Context } from '@temporalio/activity';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
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
const bursts = new Map<string, Attempt>();
/** Clusters whose next burst dies right before it reports. */
const deadlines = new Set<string>();
const never = new Promise<never>(() => undefined);

/** The burst that is under way on a cluster ends here and now. */
export function killBurst(cluster: string): void {
  bursts.get(cluster)?.die();
}

/** The next burst on a cluster that makes a token ends with the token sealed and in the ledger, and reports nothing. */
export function killBeforeReport(cluster: string): { remove(): void } {
  deadlines.add(cluster);
  return { remove: () => void deadlines.delete(cluster) };
}

/** What activities are wrapped in, with a burst that can be killed as a whole. */
export function killable(border: ActivityInterceptorsFactory): ActivityInterceptorsFactory {
  freezeTransports();
  return (context) => {
    const { inbound, ...others } = border(context);
    const execute = inbound?.execute?.bind(inbound);
    if (context.info.activityType !== 'generateOperationToken' || !execute) return { inbound, ...others };
    return {
      ...others,
      inbound: {
        execute: (input, next) => {
          const attempt = new Attempt();
          const { cluster } = input.args[0] as { readonly cluster: string };
          bursts.set(cluster, attempt);
          attempt.death.catch(() => undefined);
          return current.run(attempt, () =>
            Promise.race([runWith(attempt, () => reported(cluster, execute(input, next))), attempt.death]),
          );
        },
      },
    };
  };
}

async function reported<T>(cluster: string, result: Promise<T>): Promise<T> {
  const value = await result;
  if (deadlines.delete(cluster)) killBurst(cluster);
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
