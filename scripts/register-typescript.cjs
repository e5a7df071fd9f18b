/**
 * Lets Node load the project's TypeScript sources without a build: `node -r ./scripts/register-typescript.cjs file.ts`.
 * For programs that must run before the build, and for tests that start other processes.
 * It does not check types; `npm run typecheck` does.
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
