import { readFileSync } from 'node:fs';
import { join } from 'node:path';

interface LockFile {
  readonly packages: Readonly<Record<string, { readonly optionalDependencies?: Readonly<Record<string, string>> }>>;
}

describe('package-lock.json', () => {
  it('names every optional package, or npm ci refuses it (remedy: node scripts/complete-lock-file.mjs)', () => {
    const text = readFileSync(join(__dirname, '..', '..', 'package-lock.json'), 'utf8');
    const { packages } = JSON.parse(text) as LockFile;
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
