/**
 * Lets Node load the project's TypeScript sources as they are: `node -r ./scripts/register-typescript.cjs file.ts`.
 * For programs that must run before anything is built, and for tests that start processes of their own.
 * Types are not checked here; `npm run typecheck` does that.
 */
const { readFileSync } = require('node:fs');
const { transformSync } = require('@swc/core');

require.extensions['.ts'] = (module, filename) => {
  const { code } = transformSync(readFileSync(filename, 'utf8'), {
    filename,
    swcrc: false,
    sourceMaps: 'inline',
    module: { type: 'commonjs' },
    jsc: { target: 'es2022', parser: { syntax: 'typescript' } },
  });
  module._compile(code, filename);
};
process.setSourceMapsEnabled(true);
