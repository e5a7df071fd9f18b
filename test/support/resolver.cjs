const { createHash } = require('node:crypto');
const { existsSync, mkdirSync, renameSync, writeFileSync } = require('node:fs');
const { join } = require('node:path');

/** Packages that the test files of one process share (environment.cjs). */
const SHARED =
  /^(@temporalio\/(?!testing)[^/]+|@grpc\/grpc-js|protobufjs|openpgp|age-encryption|jose|zod|yaml|undici|@noble\/.+|@scure\/.+)(\/.*)?$/;
const DIRECTORY = join(__dirname, '..', '..', 'node_modules', '.cache', 'shared-packages');

/** Resolves a shared package to a module that gives the one instance of this process. */
module.exports = (request, options) => {
  if (!SHARED.test(request)) return options.defaultResolver(request, options);
  const name = createHash('sha256').update(request).digest('hex').slice(0, 16);
  const path = join(DIRECTORY, `${name}.js`);
  if (!existsSync(path)) {
    mkdirSync(DIRECTORY, { recursive: true });
    const whole = `${path}.${process.pid}`;
    writeFileSync(whole, `module.exports = requireShared(${JSON.stringify(request)});\n`);
    renameSync(whole, path);
  }
  return path;
};
