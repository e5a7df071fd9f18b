const { availableParallelism } = require('node:os');

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: '<rootDir>/test/support/environment.cjs',
  resolver: '<rootDir>/test/support/resolver.cjs',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  // Longer than what a helper waits for (scenario.ts), so that it tells what it waited for.
  testTimeout: 180_000,
  // More than half of the time is spent waiting, most of all by the tests of activities.
  maxWorkers: availableParallelism() * 2 + 2,
  testSequencer: '<rootDir>/test/support/sequencer.cjs',
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-server.ts',
  transform: {
    '^.+\\.(t|j|mj)s$': [
      '@swc/jest',
      { module: { type: 'commonjs' }, jsc: { target: 'es2022', parser: { syntax: 'typescript' } } },
    ],
  },
  // ESM-only, and not shared (resolver.cjs): Jest cannot require() it as it is.
  transformIgnorePatterns: ['/node_modules/(?!@inquirer/)'],
};
