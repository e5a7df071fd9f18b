import { dirname, join, relative } from 'node:path';
import js from '@eslint/js';
import jest from 'eslint-plugin-jest';
import tseslint from 'typescript-eslint';

/** Globals of this Node, read-only. */
const NODE = Object.fromEntries(Object.getOwnPropertyNames(globalThis).map((name) => [name, false]));

const SHARED = ['src/errors', 'src/secret'];
const NO_TEMPORAL = /^@temporalio\//;
// People's tools run in a browser as well as in Node.
const NOT_FOR_BROWSERS = /^(node:|openpgp$|@temporalio\/)/;
const DETERMINISTIC = /^(node:|undici$|zod$|@temporalio\/(client|worker|activity|testing))/;

/**
 * Import directions (docs/architecture.md). For each folder: which other folders of the project its files may import
 * (`may`), which only as types (`types`), and which packages they must not import (`never`). The first match applies.
 */
const LAYERS = [
  { folder: 'src/contracts', may: [], never: /^(node:|@temporalio\/(client|worker|workflow|activity))/ },
  // Facts that plans, timelines, reports and pages share: they run everywhere.
  { folder: 'src/moves', may: ['src/contracts'], never: NOT_FOR_BROWSERS },
  { folder: 'src/vault', may: SHARED, never: NO_TEMPORAL },
  // Independent, so that it does not share the mistakes of the client and the activities.
  { folder: 'src/simulator', may: [], never: NO_TEMPORAL },
  { folder: 'src/documents', may: [...SHARED, 'src/contracts'], never: NOT_FOR_BROWSERS },
  { folder: 'src/pages', may: [...SHARED, 'src/documents', 'src/contracts', 'src/words'], never: NOT_FOR_BROWSERS },
  { folder: 'src/keys', may: [...SHARED, 'src/contracts', 'src/documents'], never: NO_TEMPORAL },
  { folder: 'src/inventory', may: [...SHARED, 'src/contracts', 'src/documents', 'src/keys'], never: NO_TEMPORAL },
  { folder: 'src/words', may: ['src/contracts', 'src/moves'], never: NOT_FOR_BROWSERS },
  { folder: 'src/report', may: [...SHARED, 'src/contracts', 'src/moves', 'src/keys'], never: /^$/ },
  // The engine knows Temporal and people; the procedures know replication and serve several runbooks.
  {
    folder: 'workflows/engine',
    may: ['src/contracts', 'src/moves', 'src/words', 'src/report/run-record', 'src/report/report-of-run'],
    types: ['activities'],
    never: DETERMINISTIC,
  },
  {
    folder: 'workflows/procedures',
    may: ['src/contracts', 'src/moves', 'workflows/engine'],
    types: ['activities'],
    never: DETERMINISTIC,
  },
  { folder: 'workflows', may: ['src/contracts', 'src/moves'], types: ['activities'], never: DETERMINISTIC },
  {
    folder: 'activities',
    may: [
      ...SHARED,
      ...['contracts', 'moves', 'vault', 'documents', 'keys', 'inventory', 'report', 'words'].map(
        (name) => `src/${name}`,
      ),
    ],
    never: /^@temporalio\/(worker|workflow|testing)/,
  },
  // For machines: they read the inventory too, and have no key of anybody.
  ...['receive', 'metrics'].map((door) => ({
    folder: `src/gateway/${door}`,
    may: [
      ...SHARED,
      'src/contracts',
      'src/inventory',
      'src/gateway/budget',
      'src/gateway/http',
      'src/gateway/listening',
    ],
    never: /^@temporalio\/(worker|workflow|activity|testing)/,
  })),
  // For people: it verifies what they signed, and has no key of anybody.
  {
    folder: 'src/gateway/mailbox',
    may: [
      ...SHARED,
      ...['contracts', 'documents', 'inventory', 'keys/people'].map((name) => `src/${name}`),
      ...['budget', 'http', 'listening'].map((name) => `src/gateway/${name}`),
    ],
    never: /^@temporalio\//,
  },
  // Stands between people and Temporal, and knows neither clusters nor keys.
  {
    folder: 'src/gateway',
    may: ['src/errors', 'src/contracts'],
    never: /^@temporalio\/(worker|workflow|activity|testing)/,
  },
  // The programs; only this folder may start the simulated service.
  { folder: 'src/cli', may: ['src', 'activities'], never: /^$/ },
  { folder: 'src', may: ['src', 'activities'], never: /^$/, not: 'src/simulator' },
];

const isIn = (folder, path) => path === folder || path.startsWith(`${folder}/`);

/** @type {import('eslint').Rule.RuleModule} */
const importDirections = {
  meta: { type: 'problem', schema: [] },
  create(context) {
    const pathOf = (file) => relative(import.meta.dirname, file).replaceAll('\\', '/');
    const file = pathOf(context.filename);
    const layer = LAYERS.find(({ folder }) => isIn(folder, file));
    if (layer === undefined) return {};
    const { folder, may, types = [], never, not } = layer;
    const mayImport = (specifier, typeOnly) => {
      if (!specifier.startsWith('.')) return typeOnly || !never.test(specifier);
      const target = pathOf(join(dirname(context.filename), specifier));
      if (not !== undefined && isIn(not, target)) return false;
      return [folder, ...may, ...(typeOnly ? types : [])].some((each) => isIn(each, target));
    };
    const check = (node) => {
      const specifier = node.source?.value;
      const typeOnly = node.importKind === 'type' || node.exportKind === 'type';
      if (typeof specifier !== 'string' || mayImport(specifier, typeOnly)) return;
      context.report({ node, message: `Files of ${folder} do not import ${specifier} (import directions).` });
    };
    return {
      ImportDeclaration: check,
      ExportNamedDeclaration: check,
      ExportAllDeclaration: check,
      ImportExpression: check,
    };
  },
};

/** Globals that differ between workers, so that a replay would diverge, or that Temporal's sandbox does not have. */
const NOT_IN_WORKFLOWS = ['process', 'performance', 'crypto', 'fetch', 'Buffer', 'Intl'];
const OF_THE_HOST = {
  selector:
    'MemberExpression[property.name=/^(toLocale\\w*|localeCompare|to(Date|Time)String|get(Date|Day|FullYear|Hours|Minutes|Month|TimezoneOffset))$/]',
  message: 'Workers differ in language and time zone, so a replay on another worker would diverge.',
};

const WITHOUT_NEXT = {
  selector: "NewExpression[callee.name='RunbookError']:not(:has(Property[key.name='next']))",
  message: 'An error must say what to do next: set "next".',
};

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
  { files: ['**/*.mjs'], languageOptions: { globals: NODE } },
  {
    files: ['**/*.cjs'],
    languageOptions: {
      sourceType: 'commonjs',
      globals: { ...NODE, module: 'writable', require: false, __dirname: false },
    },
  },
  {
    files: ['src/**/*.ts', 'activities/**/*.ts', 'workflows/**/*.ts'],
    plugins: { layers: { rules: { 'import-directions': importDirections } } },
    rules: { 'layers/import-directions': 'error' },
  },
  {
    // Workers write to a log that redacts and drops unlisted fields; commands write through their context.
    files: ['src/**/*.ts', 'activities/**/*.ts', 'workflows/**/*.ts'],
    ignores: ['src/cli/demo/main.ts'],
    rules: { 'no-console': 'error' },
  },
  {
    files: ['workflows/**/*.ts', 'src/{contracts,words,report}/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', OF_THE_HOST] },
  },
  {
    files: ['workflows/**/*.ts'],
    rules: { 'no-restricted-globals': ['error', ...NOT_IN_WORKFLOWS] },
  },
  {
    // At a terminal or on the page, a refusal must say what to do next. Workers use `documents.ts` too, so its callers
    // add that.
    files: [
      ...['src/documents/*.ts', 'src/pages/*.ts', 'src/keys/holder-keys.ts'],
      ...['src/cli/commands/{share,statements,keys}.ts', 'src/cli/{invitation,secret-input,signals}.ts'],
    ],
    ignores: ['src/documents/documents.ts'],
    rules: { 'no-restricted-syntax': ['error', WITHOUT_NEXT] },
  },
  {
    files: ['test/**/*.ts'],
    ...jest.configs['flat/recommended'],
    rules: {
      ...jest.configs['flat/recommended'].rules,
      'jest/expect-expect': 'off',
      'jest/no-conditional-expect': 'off',
      'jest/no-standalone-expect': 'off',
      // A lane defines tests in its callback (test/support/lane.ts).
      'jest/no-export': 'off',
      // A function builds the titles of the table of runbooks and faults.
      'jest/valid-title': ['error', { ignoreTypeOfTestName: true }],
    },
  },
);
