/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  roots: ['<rootDir>/test'],
  testMatch: ['**/*.test.ts'],
  testTimeout: 60_000,
  // Most of the time is spent waiting for servers: every core takes a file.
  maxWorkers: '100%',
  reporters: ['default', '<rootDir>/test/support/matrix-reporter.cjs'],
  globalSetup: '<rootDir>/test/support/global-setup.ts',
  globalTeardown: '<rootDir>/test/support/global-teardown.ts',
  transform: {
    '^.+\\.(t|j|mj)s$': [
      '@swc/jest',
      { module: { type: 'commonjs' }, jsc: { target: 'es2022', parser: { syntax: 'typescript' } } },
    ],
  },
  // ESM-only dependencies: Jest cannot require() them as they are.
  transformIgnorePatterns: ['/node_modules/(?!(age-encryption|@noble|@scure|jose|openpgp|@inquirer)/)'],
};
