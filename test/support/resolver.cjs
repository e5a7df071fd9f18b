const { createHash } = require('node:crypto');
const { existsSync, mkdirSync, renameSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

/** Packages that all test files of a process share (environment.cjs). */
const SHARED =
  /^(@temporalio\/(?!testing)[^/]+|@grpc\/grpc-js|protobufjs|openpgp|age-encryption|jose|zod|yaml|undici|@noble\/.+|@scure\/.+)(\/.*)?$/;
const DIRECTORY = join(__dirname, '..', '..', 'node_modules', '.cache', 'shared-packages');

/** Resolves a shared package to a module that returns the only instance in this process. */
module.exports = (request, options) => {
  if (!SHARED.test(request)) return options.defaultResolver(request, options);
  const name = createHash('sha256').update(request).digest('hex').slice(0, 16);
  const path = join(DIRECTORY, `${name}.js`);
  if (!existsSync(path)) {
    mkdirSync(DIRECTORY, { recursive: true });
    const unfinished = `${path}.${process.pid}`;
    writeFileSync(unfinished, `module.exports = requireShared(${JSON.stringify(request)});\n`);
    renameSync(unfinished, path);
  }
  return path;
};
