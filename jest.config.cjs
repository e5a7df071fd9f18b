const { availableParallelism } = require('node:os');

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: '<rootDir>/test/support/environment.cjs',
  resolver: '<rootDir>/test/support/resolver.cjs',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  // Longer than the longest wait of a helper (scenario.ts), so that the helper can report what it waited for.
  testTimeout: 180_000,
  // Tests spend more than half of their time waiting, especially the tests of activities.
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
  // ESM-only and not shared (resolver.cjs), so Jest must transform it before require().
  transformIgnorePatterns: ['/node_modules/(?!@inquirer/)'],
};
