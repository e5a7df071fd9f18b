import { mkdir, writeFile } from 'node:fs/promises';
import { dirname } from 'node:path';
import { Command } from 'commander';
import { RunbookError } from '../../errors';
import { Secret } from '../../secret';
import {
  addPin,
  createHolderKey,
  formatPublicKey,
  generatePassphrase,
  newSealKey,
  newSigningKey,
  spokenFingerprint,
} from '../../secrets';
import { errnoOf } from '../../secrets/errno';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { pinsPath } from '../invitation';
import { readTextFile } from '../run-input';

const SHORTEST_PASSPHRASE = 16;

/** `runbook keys ...`: keys of people, workers and sealed values. */
export function keysCommand(host: CommandHost): Command {
  return new Command('keys')
    .description('keys of people and workers')
    .addCommand(initCommand(host))
    .addCommand(trustCommand(host))
    .addCommand(workersCommand(host))
    .addCommand(sealCommand(host));
}

interface InitOptions extends CommonOptions {
  readonly output: string;
  readonly passphraseFile?: string;
  readonly generate?: boolean;
}

function initCommand({ context }: CommandHost): Command {
  return newCommand('init', "make a person's signing key; prints the line for the inventory", [
    'runbook keys init --output ~/ada.key',
    'runbook keys init --output ~/ada.key --generate   (prints a passphrase once, on standard error)',
  ])
    .requiredOption('--output <file>', 'the new key file (age, protected by a passphrase; never overwritten)')
    .option('--passphrase-file <file>', 'read the passphrase from a file (default: hidden prompt)')
    .option('--generate', 'make a passphrase and print it once on standard error')
    .action(async (options: InitOptions) => {
      const key = await createHolderKey(await newPassphrase(context, options), context.keyWorkFactor);
      await writeSecretFile(options.output, key.file);
      const fingerprint = spokenFingerprint(key.kid);
      printResult(context, options, { file: options.output, kid: key.kid, publicKey: key.inventoryLine, fingerprint }, [
        `Key file: ${options.output}`,
        'Give this line to the operators, for your "publicKeys" in the inventory:',
        `  ${key.inventoryLine}`,
        `Fingerprint, to compare by voice: ${fingerprint}`,
      ]);
    });
}

async function newPassphrase(context: CliContext, options: InitOptions): Promise<Secret<'passphrase'>> {
  if (options.generate === true) {
    const passphrase = generatePassphrase();
    context.err(`Passphrase (shown only now; keep it in a password store): ${passphrase.reveal()}`);
    return passphrase;
  }
  const typed =
    options.passphraseFile === undefined
      ? await context.askHidden('Passphrase for the new key')
      : (await readTextFile(options.passphraseFile)).trim();
  if (typed.length < SHORTEST_PASSPHRASE) {
    throw new RunbookError('INVALID_INPUT', 'The passphrase is too short.', {
      needed: `at least ${SHORTEST_PASSPHRASE} characters, or --generate`,
    });
  }
  if (options.passphraseFile === undefined && (await context.askHidden('The passphrase again')) !== typed) {
    throw new RunbookError('INVALID_INPUT', 'The two passphrases differ; no key was made.');
  }
  return new Secret('passphrase', typed);
}

interface TrustOptions extends CommonOptions {
  readonly pins?: string;
  readonly yes?: boolean;
}

function trustCommand({ context }: CommandHost): Command {
  return newCommand('trust', "pin the workers' public key on this machine, after comparing its fingerprint by voice", [
    'runbook keys trust production KID:KEY',
  ])
    .argument('<environment>', 'what you call the environment, for example production')
    .argument('<key>', 'the line that "runbook keys workers" printed: <kid>:<x>')
    .option('--pins <file>', 'file of pinned keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)')
    .option('-y, --yes', 'do not ask: the fingerprint was compared already')
    .action(async (environment: string, line: string, options: TrustOptions) => {
      const [kid = ''] = line.trim().split(':');
      const fingerprint = /^[A-Za-z0-9_-]{43}$/.test(kid) ? spokenFingerprint(kid) : 'not a key';
      if (options.yes !== true) {
        context.err(`Fingerprint: ${fingerprint}`);
        const answer = await context.ask('Compare it with an operator by voice. Type "yes" if it is the same');
        if (answer !== 'yes')
          throw new RunbookError('INVALID_INPUT', 'Not confirmed; nothing was pinned.', { needed: 'yes' });
      }
      const file = pinsPath(context.env, options.pins);
      const pin = await addPin(file, environment, line);
      printResult(context, options, { environment, kid: pin.kid, fingerprint, file }, [
        `Pinned for "${environment}" in ${file}: ${fingerprint}`,
      ]);
    });
}

function workersCommand({ context }: CommandHost): Command {
  return newCommand('workers', "make the workers' signing key file; prints the public key that holders pin", [
    'runbook keys workers --output /etc/replication-runbooks/workers.key',
  ])
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
        'Each holder pins the public key once:',
        `  runbook keys trust production ${publicKey}`,
        `Fingerprint, to compare by voice: ${fingerprint}`,
      ]);
    });
}

function sealCommand({ context }: CommandHost): Command {
  return newCommand('seal', 'make an entry for RUNBOOKS_SEAL_KEYS, written to a file and never printed', [
    'runbook keys seal --output /etc/replication-runbooks/seal-keys   (use it as RUNBOOKS_SEAL_KEYS_FILE)',
  ])
    .requiredOption('--output <file>', 'the new file (mode 0600; never overwritten)')
    .option('--kid <name>', 'name of the entry (default: random)')
    .action(async (options: CommonOptions & { readonly output: string; readonly kid?: string }) => {
      const entry = newSealKey(options.kid);
      await writeSecretFile(options.output, `${entry.reveal()}\n`);
      const kid = entry.reveal().split(':')[0] ?? '';
      printResult(context, options, { file: options.output, kid }, [
        `Entry "${kid}" in ${options.output}. Give every worker the same one: RUNBOOKS_SEAL_KEYS_FILE=${options.output}`,
        'To replace a key, put the new entry in front of the old one and keep both until the runs of the old one have ended.',
      ]);
    });
}

/** @throws RunbookError `INVALID_INPUT` where the file exists: a key is never overwritten. */
export async function writeSecretFile(path: string, content: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  try {
    await writeFile(path, content, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw error;
    throw new RunbookError('INVALID_INPUT', `The file ${path} exists; a key is never overwritten.`, {
      needed: 'the path of a new file',
    });
  }
}
