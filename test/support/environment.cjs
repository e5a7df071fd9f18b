const { types } = require('node:util');
const { TestEnvironment } = require('jest-environment-node');
// The Temporal SDK loads the payload converter itself, from its TypeScript source.
require('../../scripts/register-typescript.cjs');

let isShared = false;

/**
 * Each thread that runs workflows takes half a second of processor time to load the SDK and the bundle. So all workers
 * of a process with the same bundle share one thread, which ends with the process.
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
      // Registered before it has started, because the workers of the lanes of a file start in parallel.
      thread = { options, creator: start(options) };
      threads.unshift(thread);
    }
    const creator = await thread.creator;
    return { createWorkflow: (workflow) => creator.createWorkflow(workflow), destroy: () => Promise.resolve() };
  };
}

/**
 * Jest gives each test file its own realm and loads every package into it again. Packages that are large, or that must
 * warm up before they are fast, are loaded once per Jest process instead (resolver.cjs), and its test files share them.
 * No code of this project is shared.
 */
class SharedPackagesEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.global.requireShared = requireShared;
    for (const error of [Error, this.global.Error]) countErrorsOfAllRealms(error);
    countObjectsOfAllRealms();
  }
}

/** Prepares the SDK's worker on first use, so test files that do not use it do not load it. */
function requireShared(name) {
  if (name === '@temporalio/worker' && !isShared) {
    isShared = true;
    shareWorkflowThreads();
  }
  return require(name);
}

/** Makes errors of another realm instances of `Error` too. */
function countErrorsOfAllRealms(error) {
  Object.defineProperty(error, Symbol.hasInstance, {
    configurable: true,
    value(one) {
      return Function.prototype[Symbol.hasInstance].call(this, one) || (this === error && types.isNativeError(one));
    },
  });
}

/** Makes plain objects of a test's realm instances of `Object` in shared packages: gRPC looks for its options so. */
function countObjectsOfAllRealms() {
  const isPlain = (one) =>
    Object.prototype.toString.call(one) === '[object Object]' && Object.getPrototypeOf(one) !== null;
  Object.defineProperty(Object, Symbol.hasInstance, {
    configurable: true,
    value(one) {
      return Function.prototype[Symbol.hasInstance].call(this, one) || (this === Object && isPlain(one));
    },
  });
}

module.exports = SharedPackagesEnvironment;
