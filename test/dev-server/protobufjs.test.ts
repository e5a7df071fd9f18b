import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { projectRoot } from '../../src/dev-server/locations';

/**
 * The Temporal packages convert histories with protobufjs 8, while another dependency brings protobufjs 7. When npm puts
 * version 7 on top, each Temporal package gets a copy of version 8 of its own and the conversion fails. The direct
 * dependency in package.json prevents that.
 */
it('protobufjs is one copy for all Temporal packages', () => {
  const modules = join(projectRoot(), 'node_modules');
  const scoped = readdirSync(join(modules, '@temporalio')).map((name) => join(modules, '@temporalio', name));
  const resolved = new Set(
    scoped
      .filter((path) => readFileSync(join(path, 'package.json'), 'utf8').includes('"protobufjs"'))
      .map((path) => require.resolve('protobufjs', { paths: [path] })),
  );
  expect([...resolved]).toEqual([require.resolve('protobufjs', { paths: [projectRoot()] })]);
});
