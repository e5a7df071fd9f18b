import { join } from 'node:path';
import { projectRoot } from '../src/dev-server/locations';
import { HOLDER_PAGE_PATH, writeHolderPage } from './holder-page';

/** Build step: writes the holder's page and its hash, which is published with the release. */
async function main(): Promise<void> {
  const { html, sha256 } = await writeHolderPage(join(projectRoot(), HOLDER_PAGE_PATH));
  console.log(`${HOLDER_PAGE_PATH}: ${Math.round(html.length / 1024)} KiB, SHA-256 ${sha256}`);
}

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
