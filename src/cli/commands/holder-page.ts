import { createHash } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { projectRoot } from '../../dev-server/locations';
import { RunbookError } from '../../errors';
import { formatPublicKey, parsePublicKey, spokenFingerprint } from '../../documents';
import { notAKey } from '../../keys';
import { collect, newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';

export const commands = (host: CommandHost): Command[] => [holderPageCommand(host)];

/** Where the build puts the page, from the project's root. */
const BUILT_PAGE = join('dist', 'holder-page.html');

interface PageOptions extends CommonOptions {
  readonly output: string;
  readonly key: readonly string[];
  readonly environment?: string;
  readonly holder?: string;
}

/** `runbook holder-page`: writes the holder's page, for a holder who has only a browser. */
function holderPageCommand({ context }: CommandHost): Command {
  return newCommand('holder-page', [
    'runbook holder-page --output holder-page.html --key KID:KEY   (trusts the workers with this key and no others)',
    'runbook holder-page --output holder-page.html --key KID:KEY --environment production --holder ada',
    'runbook holder-page --output holder-page.html   (as published: holders give the fingerprint that they noted each time)',
  ])
    .requiredOption('--output <file>', 'the file to write')
    .option(
      '--key <key>',
      'the workers\' public key "<kid>:<x>" that the page trusts (repeat for several)',
      collect,
      [],
    )
    .option('--environment <name>', 'what the page calls the environment of these workers')
    .option('--holder <name>', 'the name that is filled in')
    .action(async (options: PageOptions) => {
      const published = await readPublished();
      const trusted = options.key.map((line) => {
        const key = parsePublicKey(line.trim());
        if (key === undefined) throw notAKey();
        return key;
      });
      const page = fillPage(published, {
        'workers-keys': trusted.map(formatPublicKey).join(' '),
        environment: options.environment ?? '',
        holder: options.holder ?? '',
      });
      await writeFile(options.output, page);
      const fingerprints = trusted.map(({ kid }) => spokenFingerprint(kid));
      const hashes = { sha256: sha256(page), publishedSha256: sha256(published) };
      printResult(context, options, { file: options.output, ...hashes, fingerprints }, [
        `Holder's page: ${options.output}`,
        `SHA-256: ${hashes.sha256}`,
        ...(hashes.sha256 === hashes.publishedSha256
          ? ['This is the page as it is published with the release.']
          : [`The same command gives the same file. Without what was filled in: ${hashes.publishedSha256}`]),
        ...fingerprints.map((fingerprint) => `It trusts the workers' key ${fingerprint}`),
        'Give it to the holder beforehand, who compares hash and fingerprint with you by voice, and keeps the file.',
      ]);
    });
}

/** Writes values into the page's own `meta` elements: its script and its style stay as their hashes say. */
export function fillPage(
  page: string,
  values: Readonly<Partial<Record<'workers-keys' | 'environment' | 'holder', string>>>,
): string {
  return Object.entries(values).reduce((text, [name, value]) => {
    const empty = `<meta name="${name}" content="">`;
    if (!text.includes(empty))
      throw new RunbookError('INTERNAL', "The built holder's page is damaged.", {
        next: 'Build it again: npm run build. Installed from a package: install it again.',
      });
    return text.replace(empty, () => `<meta name="${name}" content="${escape(value)}">`);
  }, page);
}

function escape(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

async function readPublished(): Promise<string> {
  const file = join(projectRoot(), BUILT_PAGE);
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new RunbookError('NOT_FOUND', `The holder's page is not built: ${file} is missing.`, {
      next: 'Build it: npm run build. Or take holder-page.html as it is published with the release.',
    });
  }
}
