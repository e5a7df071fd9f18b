import { readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { errnoOf, RunbookError } from '../../errors';
import { newCommand, printResult, withServerOptions, withSession, workflowIdOf } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT } from '../errors';
import { fetchEvents } from '../run';
import { readTextFile } from '../secret-input';
import { canary, SecretSearch } from '../secret-search';
import type { Canary } from '../secret-search';
import { columns } from '../text';

export const commands = (host: CommandHost): Command[] => [scanCommand(host)];

interface ScanOptions extends ServerOptions {
  readonly runId?: string;
  readonly files?: readonly string[];
  readonly canaryFile?: string;
  readonly canaryPrompt?: boolean;
}

/** `runbook scan`: searches a run's history, and files, for given secrets and for what looks like one. */
function scanCommand(host: CommandHost): Command {
  const command = newCommand('scan', [
    'runbook scan deployment:payments',
    'runbook scan deployment:payments --canary-file secrets.txt --files worker.log reports/*.json',
    'runbook scan deployment:payments --canary-prompt   (a secret to look for, typed unseen)',
  ])
    .argument('[run]', 'the run whose history is searched; without it only files are', workflowIdOf)
    .option('--run-id <id>', 'an earlier run of this Workflow ID')
    .option('--files <file...>', 'logs, reports and other files to search too; a folder with all that is in it')
    .option('--canary-file <file>', 'secrets to look for, one per line')
    .option('--canary-prompt', 'ask for a secret to look for, on a hidden prompt');
  return withServerOptions(command).action(async (workflowId: string | undefined, options: ScanOptions) => {
    const { context } = host;
    const { files = [], runId } = options;
    if (workflowId === undefined && options.files === undefined)
      throw new RunbookError('INVALID_INPUT', 'Nothing to search.', { needed: 'a Workflow ID, --files, or both' });
    const canaries = await readCanaries(context, options);
    const search = new SecretSearch(canaries);
    const events =
      workflowId === undefined
        ? []
        : await withSession(context, options, ({ client }) => fetchEvents(client, { workflowId, runId }));
    for (const event of events) search.value(`event ${String(event.eventId)}`, event);
    const all = (await Promise.all(files.map(filesIn))).flat();
    for (const file of all) await scanFile(file, search);
    const { findings, incomplete } = search;
    const counts = { events: events.length, files: all.length, canaries: canaries.length };
    printResult(context, options, { findings, searched: { ...counts, complete: !incomplete } }, [
      ...columns(findings.map(({ where, kind, what }) => [kind, where, what])),
      `Searched ${counts.events} events and ${counts.files} files for ${counts.canaries} given secrets and for secret-looking values: ${findings.length} found.`,
      ...(incomplete ? ['Not everything was opened: something is nested too deep, or too much of it.'] : []),
      'A search proves presence, never absence.',
    ]);
    if (findings.length > 0) host.finish(EXIT.failed);
  });
}

/** A file itself; of a folder all files in it. */
async function filesIn(path: string): Promise<string[]> {
  const entries = await readdir(path, { recursive: true, withFileTypes: true }).catch(() => undefined);
  return entries?.flatMap((each) => (each.isFile() ? [join(each.parentPath, each.name)] : [])) ?? [path];
}

/** Line by line, so that a finding names the line; then as a whole, for what goes over several. */
async function scanFile(file: string, search: SecretSearch): Promise<void> {
  const bytes = await readFile(file).catch((error: unknown): never => {
    throw new RunbookError('INVALID_INPUT', `${file} cannot be read (${errnoOf(error) ?? 'unknown reason'}).`);
  });
  const text = bytes.toString('utf8');
  const found = search.findings.length;
  text.split('\n').forEach((line, index) => search.value(`${file}:${index + 1}`, line));
  if (search.findings.length === found) search.value(file, bytes);
}

async function readCanaries(context: CliContext, options: ScanOptions): Promise<Canary[]> {
  const { canaryFile, canaryPrompt } = options;
  const given = canaryFile === undefined ? [] : (await readTextFile(canaryFile)).split('\n');
  if (canaryPrompt === true) given.push(await context.askHidden('A secret to look for'));
  const secrets = given.map((line) => line.trim()).filter((secret) => secret !== '');
  return secrets.map((secret, index) => {
    const made = canary(`given secret ${index + 1}`, secret);
    if (made !== undefined) return made;
    throw new RunbookError('INVALID_INPUT', `Given secret ${index + 1} is too short to be looked for.`, {
      needed: 'at least 8 characters',
    });
  });
}
