const { types } = require('node:util');
const { TestEnvironment } = require('jest-environment-node');
// The Temporal SDK loads the payload converter by itself, from its source.
require('../../scripts/register-typescript.cjs');

/**
 * Jest gives each test file a realm of its own and loads every package anew into it. Packages that are large, or whose
 * code must run for a while before it is fast, are loaded once for each process of Jest instead (resolver.cjs): the files
 * that run in it share them. Nothing of this project is among them.
 */
class SharedPackagesEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.global.requireShared = require;
    for (const error of [Error, this.global.Error]) countErrorsOfAllRealms(error);
  }

  /** Before the error of a failed test is shown, the runs of its scenario say what they did (scenario.ts). */
  async handleTestEvent({ name, error }) {
    if (name === 'test_fn_failure' || name === 'hook_failure') await this.global.explainFailure?.(error);
  }
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
