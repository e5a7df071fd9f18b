const { types } = require('node:util');
const { TestEnvironment } = require('jest-environment-node');
// The Temporal SDK loads the payload converter by itself, from its source.
require('../../scripts/register-typescript.cjs');

let isShared = false;

/**
 * Half a second of processor time goes into each thread that runs workflows: loading the SDK and the bundle. All workers
 * of a process that run the same bundle share a single one, which ends with the process.
 */
function shareWorkflowThreads() {
  const { ThreadedVMWorkflowCreator } = require('@temporalio/worker/lib/workflow/threaded-vm');
  const create = ThreadedVMWorkflowCreator.create.bind(ThreadedVMWorkflowCreator);
  const threads = [];
  const isSame = (one, other) =>
    one.workflowBundle.code === other.workflowBundle.code &&
    one.isolateExecutionTimeoutMs === other.isolateExecutionTimeoutMs;
  const isAlive = ({ workerThreadClients }) => workerThreadClients.every((each) => !each.workerExited);
  const start = async (options) => {
    const creator = await create({ ...options, threadPoolSize: 1 });
    for (const { workerThread } of creator.workerThreadClients) workerThread.unref();
    return creator;
  };
  ThreadedVMWorkflowCreator.create = async (options) => {
    let thread = threads.find((each) => isSame(each.options, options));
    if (!thread || !isAlive(await thread.creator)) {
      // Known before it has started: the workers of the lanes of a file start side by side.
      thread = { options, creator: start(options) };
      threads.unshift(thread);
    }
    const creator = await thread.creator;
    return { createWorkflow: (workflow) => creator.createWorkflow(workflow), destroy: () => Promise.resolve() };
  };
}

/**
 * Jest gives each test file a realm of its own and loads every package anew into it. Packages that are large, or whose
 * code must run for a while before it is fast, are loaded once for each process of Jest instead (resolver.cjs): the files
 * that run in it share them. Nothing of this project is among them.
 */
class SharedPackagesEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.global.requireShared = requireShared;
    for (const error of [Error, this.global.Error]) countErrorsOfAllRealms(error);
  }

  /** Before the error of a failed test is shown, the runs of its scenario say what they did (scenario.ts). */
  async handleTestEvent({ name, error }) {
    if (name === 'test_fn_failure' || name === 'hook_failure') await this.global.explainFailure?.(error);
  }
}

/** Those that have no use for the SDK's worker do not load it. */
function requireShared(name) {
  if (name === '@temporalio/worker' && !isShared) {
    isShared = true;
    shareWorkflowThreads();
  }
  return require(name);
}

/** An error of another realm is an error too, as it is where there is one realm. */
function countErrorsOfAllRealms(error) {
  Object.defineProperty(error, Symbol.hasInstance, {
    configurable: true,
    value(one) {
      return Function.prototype[Symbol.hasInstance].call(this, one) || (this === error && types.isNativeError(one));
    },
  });
}

module.exports = SharedPackagesEnvironment;
