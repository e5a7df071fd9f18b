import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../src/dev-server/locations';
import { buildTwice, sha256Of, writeHolderPage } from './holder-page';

/**
 * Release step: builds the holder's page twice, in two folders, and writes what is published: the page and its hash.
 * With `--check FILE` it compares a published page with what these sources give, and writes nothing.
 */
async function main(): Promise<void> {
  const [option, file] = process.argv.slice(2);
  const page = await buildTwice();
  if (option === '--check' && file !== undefined) {
    const published = sha256Of(await readFile(file, 'utf8'));
    if (published !== page.sha256)
      throw new Error(`Not the page of these sources: ${file} has ${published}, these sources give ${page.sha256}.`);
    console.log(`${file} is the page of these sources: SHA-256 ${published}`);
    return;
  }
  if (option !== undefined) throw new Error('Usage: npm run release:holder-page [-- --check FILE]');
  const manifest = await readFile(join(projectRoot(), 'package.json'), 'utf8');
  const { version } = JSON.parse(manifest) as { version: string };
  const folder = join(projectRoot(), 'release');
  await mkdir(folder, { recursive: true });
  const name = `holder-page-${version}.html`;
  await writeHolderPage(join(folder, name), page);
  console.log(`Two builds gave the same bytes. Publish both files, and the hash in the notes of release ${version}:`);
  console.log(`  release/${name}`);
  console.log(`  release/${name}.sha256`);
  console.log(`  SHA-256 ${page.sha256}`);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
