import { stat, writeFile } from 'node:fs/promises';
import { Command } from 'commander';
import { RunbookError } from '../../errors';
import {
  addPin,
  formatPublicKey,
  newSealKey,
  newSigningKey,
  parseFingerprint,
  readPins,
  removePin,
  spokenFingerprint,
  createHolderKey,
  generatePassphrase,
  parsePublicKey,
  publicKeyOf,
} from '../../keys';
import type { PublicKeyEntry } from '../../keys';
import { Secret } from '../../secret';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { DEFAULT_ENVIRONMENT, pinsPath } from '../invitation';
import { confirmed, writeSecretFile, personalKeyFile, readTextFile, signingKey } from '../secret-input';
import { shellLine } from '../../contracts/next-commands';

export const commands = (host: CommandHost): Command[] => [keysCommand(host), joinCommand(host)];

/**
 * Pins a workers' key after the person compared its fingerprint, with an operator by voice or with their own note.
 *
 * @param line `<kid>:<x>`, from anywhere: what counts is the fingerprint.
 * @param compared the person has already said that it is the right one.
 * @throws RunbookError `INVALID_INPUT` where the line is no key, or the person does not confirm it.
 */
async function pinAfterComparing(
  context: CliContext,
  environment: string,
  line: string,
  { yes: compared = false }: TrustOptions,
) {
  const file = pinsPath(context.env);
  const key = publicKeyOf(line);
  const pinned = (await readPins(file)).filter((pin) => pin.environment === environment);
  // Nobody is called about a key that was compared before.
  if (!compared && !pinned.some(({ kid }) => kid === key.kid)) {
    for (const { kid } of pinned)
      context.err(`Pinned for "${environment}" so far: ${spokenFingerprint(kid)}. This is ANOTHER key.`);
    context.err(`Fingerprint of the workers' key: ${spokenFingerprint(key.kid)}`);
    await confirmed(
      context,
      'Compare it with an operator by voice, or with your own note. Type "yes" if it is the same',
      {
        refused: 'nothing was pinned',
        next: 'Is the fingerprint different from the one that you were told? Stop, and call the operators at a number that you know.',
      },
    );
  }
  return { pin: await addPin(file, environment, line), file };
}

/** `runbook keys ...`: keys of people, workers and sealed values. */
function keysCommand(host: CommandHost): Command {
  return new Command('keys')
    .description('keys of people and workers')
    .addCommand(trustCommand(host))
    .addCommand(distrustCommand(host))
    .addCommand(workersCommand(host))
    .addCommand(sealCommand(host));
}

interface TrustOptions extends CommonOptions {
  readonly yes?: boolean;
}

function trustCommand({ context }: CommandHost): Command {
  return newCommand(
    'trust',
    ['runbook keys trust production KID:KEY'],
    "pin the workers' public key on this machine, after comparing its fingerprint by voice",
  )
    .argument('<environment>', 'what you call the environment, for example production')
    .argument('<key>', 'the line that "runbook keys workers" printed: <kid>:<x>')
    .option('-y, --yes', 'do not ask: the fingerprint was compared already')
    .action(async (environment: string, line: string, options: TrustOptions) => {
      const { pin, file } = await pinAfterComparing(context, environment, line, options);
      const fingerprint = spokenFingerprint(pin.kid);
      const others = (await readPins(file)).filter((each) => each.kid !== pin.kid && each.environment === environment);
      printResult(context, options, { environment, kid: pin.kid, fingerprint, file }, [
        `Pinned for "${environment}" in ${file}: ${fingerprint}`,
        ...others.flatMap(({ kid }) => [
          `Still trusted for "${environment}": ${spokenFingerprint(kid)}`,
          `  Once the workers no longer sign with it: ${shellLine('runbook', 'keys', 'distrust', kid)}`,
        ]),
      ]);
    });
}

function distrustCommand({ context }: CommandHost): Command {
  return newCommand(
    'distrust',
    ['runbook keys distrust "1f0a 22c4 ..."'],
    "give up a pinned workers' key on this machine",
  )
    .argument('<fingerprint>', 'as "runbook keys trust" showed it; or the kid')
    .action(async (text: string, options: CommonOptions) => {
      const file = pinsPath(context.env);
      const kid = parseFingerprint(text);
      if (kid === undefined)
        throw new RunbookError('INVALID_INPUT', 'This is not the fingerprint of a key.', {
          needed: '64 hexadecimal digits, in groups or not',
          next: 'Copy it again, in quotes: it stands in the file of pinned keys as the part before the colon, too.',
        });
      const { environment } = await removePin(file, kid);
      const left = (await readPins(file)).filter((pin) => pin.environment === environment);
      const fingerprint = spokenFingerprint(kid);
      printResult(context, options, { environment, kid, fingerprint, file, left: left.map((pin) => pin.kid) }, [
        `Given up for "${environment}" in ${file}: ${fingerprint}`,
        ...(left.length > 0
          ? left.map((pin) => `Still trusted: ${spokenFingerprint(pin.kid)}`)
          : [`No key of "${environment}" is trusted now: compare the next one by voice ("runbook keys trust").`]),
      ]);
    });
}

function workersCommand({ context }: CommandHost): Command {
  return newCommand(
    'workers',
    ['runbook keys workers --output /etc/replication-runbooks/workers.key'],
    "make the workers' signing key file; prints the public key that holders pin",
  )
    .requiredOption(
      '--output <file>',
      'the new key file (mode 0600; never overwritten), for "workers.signingKey" in the inventory',
    )
    .action(async (options: CommonOptions & { readonly output: string }) => {
      const { key, jwk } = newSigningKey();
      await writeSecretFile(options.output, `${jwk.reveal()}\n`);
      const publicKey = formatPublicKey(key);
      const fingerprint = spokenFingerprint(key.kid);
      printResult(context, options, { file: options.output, kid: key.kid, publicKey, fingerprint }, [
        `Key file: ${options.output}`,
        'Each person who signs, with their own name in it:',
        `  runbook join ${DEFAULT_ENVIRONMENT}/NAME/${publicKey}`,
        'A holder who signs nothing pins the public key once:',
        `  runbook keys trust ${DEFAULT_ENVIRONMENT} ${publicKey}`,
        'For holders who have only a browser:',
        `  runbook holder-page --output holder-page.html --key ${publicKey}`,
        `Fingerprint, to compare by voice: ${fingerprint}`,
      ]);
    });
}

function sealCommand({ context }: CommandHost): Command {
  return newCommand(
    'seal',
    ['runbook keys seal --output /etc/replication-runbooks/seal-keys   (use it as RUNBOOKS_SEAL_KEYS_FILE)'],
    'make an entry for RUNBOOKS_SEAL_KEYS_FILE, written to a file and never printed',
  )
    .requiredOption('--output <file>', 'the new file (mode 0600; never overwritten)')
    .action(async (options: CommonOptions & { readonly output: string }) => {
      const entry = newSealKey();
      await writeSecretFile(options.output, `${entry.reveal()}\n`);
      const kid = entry.reveal().split(':')[0] ?? '';
      printResult(context, options, { file: options.output, kid }, [
        `Entry "${kid}" in ${options.output}. Give every worker the same one: RUNBOOKS_SEAL_KEYS_FILE=${options.output}`,
        'To replace a key, put the new entry behind the old one on every worker and restart them; then move it to the front, and restart again. Keep both until the runs of the old one have ended.',
      ]);
    });
}

/**
 * The line for one person: `<environment>/<name>/<kid>:<x>`, with the workers' public key. Nothing in it is secret, and
 * nothing in it is believed before a fingerprint was compared.
 */
export const joinLine = (environment: string, name: string, workers: PublicKeyEntry): string =>
  `${environment}/${name}/${formatPublicKey(workers)}`;

/** Where the line stands that a person sent back. */
export const publicLineFile = (keyFile: string): string => `${keyFile}.pub`;

/**
 * The names and the key of a line that people send each other: `<name>/.../<kid>:<x>`.
 *
 * @throws RunbookError `INVALID_INPUT`
 */
export function readKeyLine(text: string, madeBy: 'init' | 'join', named: readonly string[]) {
  const names = text.trim().split('/');
  const key = parsePublicKey(names.pop() ?? '');
  if (key !== undefined && names.length === named.length && names.every((name) => /^[a-z0-9-]+$/.test(name)))
    return { names, key };
  throw new RunbookError('INVALID_INPUT', `This is not a line that "runbook ${madeBy}" printed. Nothing was changed.`, {
    needed: [...named, 'KID:KEY'].join('/'),
    next: 'Copy the whole line again; a character may be missing.',
  });
}

const SHORTEST_PASSPHRASE = 16;
/** One group of a made passphrase. */
const LAST_CHARACTERS = 5;

interface JoinOptions extends TrustOptions {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/** `runbook join`: all that one person does, once, on their own machine. */
function joinCommand({ context }: CommandHost): Command {
  return newCommand('join', ['runbook join production/ada/KID:KEY'])
    .argument('<line>', 'as "runbook init" printed it for you')
    .option('--key-file <file>', 'your key (default: RUNBOOKS_KEY_FILE, or NAME.key in your configuration folder)')
    .option(
      '--passphrase-file <file>',
      'read the passphrase from a file (default: make one, and print it once on standard error)',
    )
    .option('-y, --yes', "do not ask: the workers' fingerprint was compared already, and the passphrase is kept by you")
    .action(async (line: string, options: JoinOptions) => {
      const { names, key: workers } = readKeyLine(line, 'init', ['ENVIRONMENT', 'NAME']);
      const [environment = '', name = ''] = names;
      const usual = personalKeyFile(context.env, name);
      const file = options.keyFile ?? usual;
      await pinAfterComparing(context, environment, formatPublicKey(workers), options);
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
        'When they call you, compare its fingerprint by voice:',
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
  const { file, key } = await createHolderKey(await newPassphrase(context, options), context.keyWorkFactor);
  await writeSecretFile(keyFile, file);
  return key;
}

/** The passphrase of a new key: made and shown once, or from a file. */
async function newPassphrase(context: CliContext, options: JoinOptions): Promise<Secret<'passphrase'>> {
  const { passphraseFile } = options;
  if (passphraseFile === undefined) return madePassphrase(context, options);
  const passphrase = new Secret('passphrase', (await readTextFile(passphraseFile)).trim());
  if (passphrase.reveal().length >= SHORTEST_PASSPHRASE) return passphrase;
  throw new RunbookError('INVALID_INPUT', 'The passphrase is too short.', {
    needed: `at least ${SHORTEST_PASSPHRASE} characters, or one that is made for you`,
    next: 'Run the command again; without --passphrase-file it makes a passphrase for you.',
  });
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
