import js from '@eslint/js';
import jest from 'eslint-plugin-jest';
import tseslint from 'typescript-eslint';

const NODE_BUILTINS = [
  'node:*',
  'fs',
  'path',
  'os',
  'crypto',
  'http',
  'https',
  'net',
  'tls',
  'child_process',
  'stream',
  'events',
  'worker_threads',
];

/** One entry per folder: what files there must not import (design: import directions). */
function forbidImports(files, patterns, ignores = []) {
  return { files, ignores, rules: { '@typescript-eslint/no-restricted-imports': ['error', { patterns }] } };
}
const group = (globs, message, allowTypeImports = false) => ({ group: globs, message, allowTypeImports });

export default tseslint.config(
  { ignores: ['dist/**', 'node_modules/**', 'coverage/**', 'reports/**', 'test/histories/**'] },
  js.configs.recommended,
  {
    files: ['**/*.ts'],
    extends: [...tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/require-await': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true, allowBoolean: true }],
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      eqeqeq: ['error', 'always'],
    },
  },
  {
    files: ['**/*.mjs'],
    languageOptions: {
      globals: {
        process: 'readonly',
        console: 'readonly',
        URL: 'readonly',
        setTimeout: 'readonly',
        fetch: 'readonly',
        Buffer: 'readonly',
      },
    },
  },
  {
    files: ['**/*.cjs'],
    languageOptions: {
      sourceType: 'commonjs',
      globals: { module: 'writable', require: 'readonly', process: 'readonly', __dirname: 'readonly' },
    },
  },
  forbidImports(
    ['workflows/**/*.ts'],
    [
      group(
        [
          ...NODE_BUILTINS,
          '@temporalio/client',
          '@temporalio/worker',
          '@temporalio/activity',
          '@temporalio/testing',
          'undici',
        ],
        'Workflow code is deterministic: no Node built-ins, no client, worker or activity code.',
      ),
      group(['**/activities/**', '**/activities'], 'Workflows import activities as types only.', true),
      group(
        [
          '**/src/vault/**',
          '**/src/keys/**',
          '**/src/inventory/**',
          '**/src/simulator/**',
          '**/src/report/**',
          '**/src/worker/**',
          '**/src/cli/**',
        ],
        'Workflows import src/contracts only.',
      ),
    ],
  ),
  forbidImports(
    ['src/contracts/**/*.ts'],
    [
      group(
        [
          '../vault/**',
          '../keys/**',
          '../documents/**',
          '../inventory/**',
          '../simulator/**',
          '../report/**',
          '../worker/**',
          '../cli/**',
          '**/activities/**',
          '**/workflows/**',
        ],
        'Contracts import nothing of the project.',
      ),
    ],
  ),
  forbidImports(
    ['src/vault/**/*.ts'],
    [
      group(
        ['@temporalio/*', '../simulator/**', '../worker/**', '../cli/**', '**/activities/**', '**/workflows/**'],
        'The client knows HTTP and nothing of Temporal or the simulated service.',
      ),
    ],
  ),
  forbidImports(
    ['src/simulator/**/*.ts'],
    [
      group(
        [
          '@temporalio/*',
          '../vault/**',
          '../keys/**',
          '../documents/**',
          '../inventory/**',
          '../errors',
          '**/activities/**',
          '**/workflows/**',
        ],
        'The simulated service must not share the mistakes of the client and the activities.',
      ),
    ],
  ),
  forbidImports(
    ['activities/**/*.ts', 'src/**/*.ts'],
    [group(['**/simulator/**', '**/simulator'], 'Only tests, the CLI and the demo import the simulated service.')],
    ['src/simulator/**', 'src/cli/**', 'src/demo/**', 'src/contracts/**', 'src/vault/**'],
  ),
  {
    files: ['test/**/*.ts'],
    ...jest.configs['flat/recommended'],
    rules: {
      ...jest.configs['flat/recommended'].rules,
      'jest/expect-expect': 'off',
      'jest/no-conditional-expect': 'off',
      'jest/no-standalone-expect': 'off',
      // Titles of the table of runbooks and faults are made by a function.
      'jest/valid-title': ['error', { ignoreTypeOfTestName: true }],
    },
  },
);
