import type { Finding, Receipt } from '../../src/contracts/run-facts';
import type { Waiting } from '../../src/contracts/run-status';
import type { InboxItem, SignalName } from '../../src/contracts/signals';
import type { StepCalls } from '../../workflows/engine/activity-calls';
import type { FailureFacts } from '../../workflows/engine/failures';
import { OutageDecision, StepFailed, failureFacts } from '../../workflows/engine/failures';
import { LeftToDo } from '../../workflows/engine/left-to-do';
import type { StepOptions } from '../../workflows/engine/parking';
import type { Run } from '../../workflows/engine/run';

interface Script {
  /** Activities by name. */
  readonly calls?: Readonly<Record<string, unknown>>;
  /** The result of all other activities; without it no other activity may be called. */
  readonly otherwise?: object;
  /** The consecutive failures of steps. A step that parks is tried again, and in the end the decision is `leave`. */
  readonly failing?: Readonly<Record<string, readonly FailureFacts[]>>;
  /** Overrides of the run's state. */
  readonly state?: object;
  /** Other overrides of the run, such as `waitFor`, because nobody waits here. */
  readonly run?: object;
}

type Body = (call: StepCalls) => Promise<unknown>;
type Processor = (items: readonly Partial<InboxItem>[]) => Promise<void>;

/** The parts of a run that a procedure needs: steps run at once, according to the script, and everything reported is kept. */
export function fakeRun({ calls = {}, otherwise, failing = {}, state = {}, run = {} }: Script = {}) {
  const steps: string[] = [];
  const parked: string[] = [];
  const findings: Finding[] = [];
  const receipts: Receipt[] = [];
  const left = new LeftToDo();
  const waiting = new Map<string, Waiting>();
  const waited: Waiting[] = [];
  const processors = new Map<SignalName, Processor | undefined>();
  const ends: (() => Promise<void>)[] = [];
  const nothing = () => undefined;
  // The texts that are left to do if the run ends at that activity.
  const leftAt: Record<string, string> = {};
  const call = new Proxy({} as StepCalls, {
    get: (_target, name: string) => (input: never) => {
      leftAt[name] = left.texts.join('\n');
      const activity = calls[name] ?? (otherwise && (() => Promise.resolve(otherwise)));
      if (typeof activity !== 'function') throw new TypeError(`no activity ${name}`);
      return (activity as (given: unknown) => unknown)(input);
    },
  });
  const step = async (name: string, body: Body, { onFailure }: StepOptions = {}) => {
    steps.push(name);
    const throws = (failure: FailureFacts) =>
      (typeof onFailure === 'function' ? onFailure(failure) : onFailure) === 'throw';
    const failures = failing[name] ?? [];
    for (const failure of failures) {
      if (throws(failure)) throw new StepFailed(name, failure);
      parked.push(name);
    }
    if (failures.length > 0) throw new OutageDecision('leave');
    try {
      return await body(call);
    } catch (error) {
      const failure = failureFacts(error);
      throw failure && throws(failure) ? new StepFailed(name, failure) : error;
    }
  };
  const faked = {
    gatesMet: new Map(),
    state: {
      ...{ deployment: 'payments', runbook: 'drFailover', site: {} },
      ...{ left, waiting, notifications: { ofWait: nothing, protectedAgain: nothing } },
      ...{ enterPhase: nothing, learnSite: nothing, fact: nothing, outageBegan: nothing, noteFindings: nothing },
      finding: (finding: Finding) => void findings.push(finding),
      receipt: (receipt: Receipt) => void receipts.push(receipt),
      wait: (key: string, what: Waiting) => void waiting.set(key, what),
      waitOver: (key: string) => void waiting.delete(key),
      whileWaiting: async <T>(key: string, what: Waiting, body: () => Promise<T>) => {
        waiting.set(key, what);
        waited.push(what);
        return body().finally(() => waiting.delete(key));
      },
      besideSteps: <T>(_name: string, body: () => Promise<T>) => body(),
      ...state,
    },
    signals: { on: (name: SignalName, to: Processor | undefined) => void processors.set(name, to) },
    inOutage: false,
    onEnd: (end: () => Promise<void>) => void ends.push(end),
    stop: (stopped: Error) => stopped,
    step,
    skippableStep: (name: string, _effect: string, body: Body, options?: StepOptions) => step(name, body, options),
    cleanUp: step,
    abortable: (body: () => Promise<unknown>) => body(),
    outage: (body: () => Promise<unknown>) => body(),
    ...run,
  };
  return {
    run: faked as unknown as Run,
    ...{ steps, parked, findings, receipts, left, leftAt, waiting, waited },
    /** Passes signals to the processor for their name. */
    send: (name: SignalName, items: readonly Partial<InboxItem>[]) => processors.get(name)?.(items),
    /** Ends the run: runs its clean-ups in the order of registration. */
    end: async () => {
      for (const end of ends.splice(0)) await end();
    },
  };
}
