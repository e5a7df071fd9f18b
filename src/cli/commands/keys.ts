import { Command } from 'commander';
import { RunbookError } from '../../errors';
import {
  formatPublicKey,
  newSealKey,
  newSigningKey,
  parseFingerprint,
  readPins,
  removePin,
  spokenFingerprint,
} from '../../keys';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import { DEFAULT_ENVIRONMENT, pinAfterComparing, PINS_OPTION, pinsPath } from '../invitation';
import { writeSecretFile } from '../secret-input';
import { shellLine } from '../text';

export const commands = (host: CommandHost): Command[] => [keysCommand(host)];

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
  readonly pins?: string;
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
    .option(...PINS_OPTION)
    .option('-y, --yes', 'do not ask: the fingerprint was compared already')
    .action(async (environment: string, line: string, options: TrustOptions) => {
      const { pin, file } = await pinAfterComparing(context, { ...options, environment }, line, options.yes);
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
    .option(...PINS_OPTION)
    .action(async (text: string, options: CommonOptions & { readonly pins?: string }) => {
      const file = pinsPath(context.env, options.pins);
      const kid = /^[A-Za-z0-9_-]{43}$/.test(text.trim()) ? text.trim() : parseFingerprint(text);
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
    'make an entry for RUNBOOKS_SEAL_KEYS, written to a file and never printed',
  )
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
