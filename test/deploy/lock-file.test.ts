import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const root = join(__dirname, '..', '..');
const text = readFileSync(join(root, 'package-lock.json'), 'utf8');
const { packages } = JSON.parse(text) as {
  readonly packages: Readonly<Record<string, { readonly integrity?: string }>>;
};

describe('package-lock.json', () => {
  it('has a SHA-512 hash for every package, also for those of other platforms', () => {
    const without = Object.entries(packages).filter(
      ([path, { integrity = '' }]) => path !== '' && !/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity),
    );
    expect(without.map(([path]) => path)).toEqual([]);
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
    ['docs/holders.md', /npm ci/],
  ])('runs no scripts of packages (%s)', (file, command) => {
    const text = readFileSync(join(root, file), 'utf8');
    const lines = text.split('\n').filter((line) => command.test(line));
    expect(lines).not.toEqual([]);
    expect(lines.filter((line) => !line.includes('--ignore-scripts'))).toEqual([]);
  });
});
