import { mkdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import type { Logger } from '@temporalio/worker';
import writeFileAtomic from 'write-file-atomic';
import { projectRoot } from '../src/dev-server/locations';
import { workflowSources } from '../src/worker/workflow-code';

/** Where the build writes the bundle, relative to the project root. */
const BUNDLE_PATH = join('dist', 'workflow-bundle.js');

/**
 * Bundles the workflows together with the payload converter, which cannot be passed to a worker separately.
 * The file appears only when it is complete.
 *
 * @returns the size of the file in bytes.
 */
export async function writeWorkflowBundle(outFile: string, logger: Logger): Promise<number> {
  const root = projectRoot();
  const payloadConverterPath = join(root, 'src', 'contracts', 'payload-converter.ts');
  const { code } = await bundleWorkflowCode({
    ...workflowSources(),
    payloadConverterPath,
    logger,
  });
  await mkdir(dirname(outFile), { recursive: true });
  await writeFileAtomic(outFile, withoutSourceTexts(code));
  return (await stat(outFile)).size;
}

/** Removes the source texts from the source map: stack traces need only files and lines, and the texts use worker memory. */
function withoutSourceTexts(code: string): string {
  return code.replace(/(sourceMappingURL=data:[^,]+,)([\w+/=]+)/, (_all, begin: string, map: string) => {
    const { sourcesContent: _texts, ...rest } = JSON.parse(Buffer.from(map, 'base64').toString()) as Record<
      string,
      unknown
    >;
    return `${begin}${Buffer.from(JSON.stringify(rest)).toString('base64')}`;
  });
}

/** Build step: writes the workflow bundle that workers load. */
async function main(): Promise<void> {
  const size = await writeWorkflowBundle(join(projectRoot(), BUNDLE_PATH), new DefaultLogger('WARN'));
  console.log(`${BUNDLE_PATH}: ${(size / 1024 / 1024).toFixed(1)} MiB`);
}

if (require.main === module) void main();
