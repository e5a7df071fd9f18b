import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(__dirname, '..', '..');
const text = readFileSync(join(root, 'package-lock.json'), 'utf8');
interface Entry {
  readonly integrity?: string;
  /** Only with the packages for development. */
  readonly dev?: boolean;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}
const { packages } = JSON.parse(text) as { readonly packages: Readonly<Record<string, Entry>> };

describe('package-lock.json', () => {
  it('has a SHA-512 hash for every package, also for those of other platforms', () => {
    const without = Object.entries(packages).filter(
      ([path, { integrity = '' }]) => path !== '' && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity),
    );
    expect(without.map(([path]) => path)).toEqual([]);
  });

  it('puts no test server, bundler of ours or test runner into a production install', () => {
    const production = Object.entries(packages).flatMap(([path, { dev = false }]) => (dev ? [] : [path]));
    expect(production).toContain('node_modules/@temporalio/worker');
    expect(production.filter((path) => /\/(@temporalio\/testing|esbuild|jest|typescript|eslint)$/.test(path))).toEqual(
      [],
    );
  });

  it('names every optional package, or npm ci refuses it', () => {
    const missing = Object.entries(packages).flatMap(([path, { optionalDependencies = {} }]) =>
      Object.keys(optionalDependencies)
        .filter(
          (name) =>
            packages[`node_modules/${name}`] === undefined && packages[`${path}/node_modules/${name}`] === undefined,
        )
        .map((name) => `${path} -> ${name}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('package.json', () => {
  it('asks for exact versions', () => {
    type Versions = Readonly<Record<string, string>>;
    const { dependencies, devDependencies, overrides } = JSON.parse(
      readFileSync(join(root, 'package.json'), 'utf8'),
    ) as { readonly dependencies: Versions; readonly devDependencies: Versions; readonly overrides: Versions };
    const asked = Object.entries({ ...dependencies, ...devDependencies, ...overrides });
    expect(asked.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });
});

describe('installation', () => {
  it.each([
    ['Dockerfile', /npm (ci|prune)/],
    ['scripts/bootstrap.mjs', /\['ci'/],
    ['docs/first-hour.md', /npm ci/],
  ])('runs no scripts of packages (%s)', (file, command) => {
    const text = readFileSync(join(root, file), 'utf8');
    const lines = text.split('\n').filter((line) => command.test(line));
    expect(lines).not.toEqual([]);
    expect(lines.filter((line) => !line.includes('--ignore-scripts'))).toEqual([]);
  });
});

/**
 * The Temporal packages convert histories with protobufjs 8, while another dependency brings protobufjs 7. When npm puts
 * version 7 on top, each Temporal package gets a copy of version 8 of its own and the conversion fails. The direct
 * dependency in package.json prevents that.
 */
it('protobufjs is one copy for all Temporal packages', () => {
  const modules = join(root, 'node_modules');
  const scoped = readdirSync(join(modules, '@temporalio')).map((name) => join(modules, '@temporalio', name));
  const resolved = new Set(
    scoped
      .filter((path) => readFileSync(join(path, 'package.json'), 'utf8').includes('"protobufjs"'))
      .map((path) => require.resolve('protobufjs', { paths: [path] })),
  );
  expect([...resolved]).toEqual([require.resolve('protobufjs', { paths: [root] })]);
});
