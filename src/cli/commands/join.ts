import { stat, writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { RunbookError } from '../../errors';
import { Secret } from '../../secret';
import { createHolderKey, formatPublicKey, generatePassphrase, parsePublicKey, spokenFingerprint } from '../../keys';
import type { PublicKeyEntry } from '../../keys';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { pinAfterComparing, PINS_OPTION } from '../invitation';
import { personalKeyFile, readTextFile, signingKey, writeSecretFile } from '../secret-input';
import { shellLine } from '../text';

export const commands = (host: CommandHost): Command[] => [joinCommand(host)];

/** What one line hands on: nothing in it is secret, and nothing in it is believed before a fingerprint was compared. */
export interface JoinLine {
  readonly environment: string;
  readonly name: string;
  /** The workers' public key, to be pinned. */
  readonly workers: PublicKeyEntry;
}

/** The line for one person: `<environment>/<name>/<kid>:<x>`. */
export function joinLine({ environment, name, workers }: JoinLine): string {
  return `${environment}/${name}/${formatPublicKey(workers)}`;
}

/** Where the line stands that a person sent back. */
export const publicLineFile = (keyFile: string): string => `${keyFile}.pub`;

function readJoinLine(text: string): JoinLine {
  const [environment = '', name = '', key = '', ...rest] = text.trim().split('/');
  const workers = parsePublicKey(key);
  if (workers !== undefined && rest.length === 0 && [environment, name].every((each) => /^[a-z0-9-]+$/.test(each)))
    return { environment, name, workers };
  throw new RunbookError('INVALID_INPUT', 'This is not a line that "runbook init" printed.', {
    needed: 'environment, your name and the key of the workers, with two slashes and a colon',
    next: 'Copy the whole line again; a character may be missing.',
  });
}

const SHORTEST_PASSPHRASE = 16;
/** One group of a made passphrase. */
const LAST_CHARACTERS = 5;

interface JoinOptions extends CommonOptions {
  readonly environment?: string;
  readonly keyFile?: string;
  readonly ownPassphrase?: boolean;
  readonly passphraseFile?: string;
  readonly pins?: string;
  readonly yes?: boolean;
}

/** `runbook join`: all that one person does, once, on their own machine. */
function joinCommand({ context }: CommandHost): Command {
  return newCommand('join', [
    'runbook join production/ada/KID:KEY',
    'runbook join production/ada/KID:KEY --own-passphrase   (asks for a passphrase instead of making one)',
  ])
    .argument('<line>', 'as "runbook init" printed it for you')
    .option('--key-file <file>', 'your key (default: RUNBOOKS_KEY_FILE, or NAME.key in your configuration folder)')
    .option('--own-passphrase', 'ask for the passphrase (default: make one, and print it once on standard error)')
    .option('--passphrase-file <file>', 'read the passphrase from a file')
    .option(...PINS_OPTION)
    .option('-y, --yes', "do not ask: the workers' fingerprint was compared already, and the passphrase is kept by you")
    .action(async (line: string, options: JoinOptions) => {
      const { environment, name, workers } = readJoinLine(line);
      const usual = personalKeyFile(context.env, name);
      const file = options.keyFile ?? usual;
      const pinning = { environment, ...(options.pins !== undefined && { pins: options.pins }) };
      await pinAfterComparing(context, pinning, formatPublicKey(workers), options.yes);
      const key = await ownKey(context, options, file);
      const send = `${name}/${formatPublicKey(key)}`;
      // Beside the key: what it signs for can be said without its passphrase.
      await writeFile(publicLineFile(file), `${send}\n`);
      const fingerprint = spokenFingerprint(key.kid);
      const variables = [
        shellLine('export', `RUNBOOKS_PERSON=${name}`),
        ...(file === usual ? [] : [shellLine('export', `RUNBOOKS_KEY_FILE=${file}`)]),
      ];
      printResult(context, options, { name, environment, file, kid: key.kid, line: send, fingerprint, variables }, [
        `Pinned for "${environment}": ${spokenFingerprint(workers.kid)}`,
        `Your key: ${file}`,
        'Send this line to the operators. Nothing in it is secret:',
        `  ${send}`,
        'They read its fingerprint to you. It is:',
        `  ${fingerprint}`,
        'Put this into the profile of your shell. Commands that a run shows then work as they stand:',
        ...variables.map((each) => `  ${each}`),
      ]);
    });
}

/** The key that is there, or a new one: who joins a second environment keeps their key. */
async function ownKey(context: CliContext, options: JoinOptions, keyFile: string): Promise<PublicKeyEntry> {
  if ((await stat(keyFile).catch(() => undefined)) !== undefined) {
    context.err(`You have a key already: ${keyFile}. It is opened to read its public line.`);
    const opened = await signingKey(context, { ...options, keyFile });
    if (opened !== undefined) return opened;
  }
  const { file, inventoryLine } = await createHolderKey(await newPassphrase(context, options), context.keyWorkFactor);
  await writeSecretFile(keyFile, file);
  const made = parsePublicKey(inventoryLine);
  if (made === undefined) throw new RunbookError('INTERNAL', 'A new key has no public line.');
  return made;
}

/** The passphrase of a new key: made and shown once, or from a file, or asked for. */
async function newPassphrase(context: CliContext, options: JoinOptions): Promise<Secret<'passphrase'>> {
  const { passphraseFile, ownPassphrase } = options;
  if (passphraseFile === undefined && ownPassphrase !== true) return madePassphrase(context, options);
  const asked = passphraseFile === undefined;
  const typed = asked
    ? await context.askHidden('Passphrase for the new key')
    : (await readTextFile(passphraseFile)).trim();
  const next = 'Run the command again; without --own-passphrase and --passphrase-file it makes a passphrase for you.';
  if (typed.length < SHORTEST_PASSPHRASE)
    throw new RunbookError('INVALID_INPUT', 'The passphrase is too short.', {
      needed: `at least ${SHORTEST_PASSPHRASE} characters, or one that is made for you`,
      next,
    });
  if (asked && (await context.askHidden('The passphrase again')) !== typed)
    throw new RunbookError('INVALID_INPUT', 'The two passphrases differ; no key was made.', {
      needed: 'the same passphrase twice',
      next,
    });
  return new Secret('passphrase', typed);
}

/** A passphrase is shown once; a person proves that they kept it before anything rests on it. */
async function madePassphrase(context: CliContext, { yes }: JoinOptions): Promise<Secret<'passphrase'>> {
  const passphrase = generatePassphrase();
  context.err(`Passphrase of your key (shown only now; keep it in a password store): ${passphrase.reveal()}`);
  if (yes === true || !context.interactive) return passphrase;
  const typed = await context.askHidden(`When it is kept, type its last ${LAST_CHARACTERS} characters`);
  if (typed === passphrase.reveal().slice(-LAST_CHARACTERS)) return passphrase;
  throw new RunbookError('INVALID_INPUT', 'These are not the last characters of the passphrase; no key was made.', {
    next: 'Run the command again: it makes another passphrase.',
  });
}
