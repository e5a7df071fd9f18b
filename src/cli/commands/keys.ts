import { mkdir, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Command } from 'commander';
import { gatewayOrigin } from '../../documents/signed-request';
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
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { DEFAULT_ENVIRONMENT, pinsPath } from '../invitation';
import {
  personalSettingsFile,
  readPersonalSettings,
  settingsToStore,
  storePersonalSettings,
  withPersonalSettings,
} from '../personal-settings';
import { confirmed, writeSecretFile, personalFolder, personalKeyFile, readTextFile, signingKey } from '../secret-input';
import type { CommandHost } from '../command-host';
import { shellLine } from '../../contracts/next-commands';
import { oneLine } from '../../contracts/words';

export const commands = (host: CommandHost): Command[] => [keysCommand(host), joinCommand(host)];

/**
 * Pins a workers' key after the person compared its fingerprint, with an operator by voice or with their own note.
 *
 * @param line - `<kid>:<x>`, from any source: only the fingerprint counts
 * @param compared - whether the person has already compared the fingerprint
 * @throws RunbookError `INVALID_INPUT` if the line is not a key, or the person does not confirm it
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
  // A key that was compared before needs no second call.
  if (!compared && !pinned.some(({ kid }) => kid === key.kid)) {
    for (const { kid } of pinned)
      context.err(`Already pinned for "${environment}": ${spokenFingerprint(kid)}. The new key is DIFFERENT.`);
    context.err(`Fingerprint of the workers' key: ${spokenFingerprint(key.kid)}`);
    await confirmed(context, 'Compare it with an operator by voice, or with your own note. Type "yes" if it matches', {
      refused: 'nothing was pinned',
      next: 'If the fingerprint differs from the one that you were told, stop and call the operators at a number that you know.',
    });
  }
  return { pin: await addPin(file, environment, line), file };
}

/** `runbook keys ...`: keys of people and workers, and keys that seal stored values. */
function keysCommand(host: CommandHost): Command {
  return new Command('keys')
    .description('manage the keys of people and workers')
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
    .argument('<environment>', 'name of the environment, for example production')
    .argument('<key>', 'the line that "runbook keys workers" printed: <kid>:<x>')
    .option('-y, --yes', 'do not ask: the fingerprint was already compared')
    .action(async (environment: string, line: string, options: TrustOptions) => {
      const { pin, file } = await pinAfterComparing(context, environment, line, options);
      const fingerprint = spokenFingerprint(pin.kid);
      const others = (await readPins(file)).filter((each) => each.kid !== pin.kid && each.environment === environment);
      printResult(context, options, 'key-trusted', { environment, kid: pin.kid, fingerprint, file }, [
        `Pinned for "${environment}" in ${file}: ${fingerprint}`,
        ...others.flatMap(({ kid }) => [
          `Still trusted for "${environment}": ${spokenFingerprint(kid)}`,
          `  When the workers no longer sign with it: ${shellLine('runbook', 'keys', 'distrust', kid)}`,
        ]),
      ]);
    });
}

function distrustCommand({ context }: CommandHost): Command {
  return newCommand(
    'distrust',
    ['runbook keys distrust "1f0a 22c4 ..."'],
    "stop trusting a pinned workers' key on this machine",
  )
    .argument('<fingerprint>', 'as "runbook keys trust" showed it; or the kid')
    .action(async (text: string, options: CommonOptions) => {
      const file = pinsPath(context.env);
      const kid = parseFingerprint(text);
      if (kid === undefined)
        throw new RunbookError('INVALID_INPUT', 'This is not the fingerprint of a key.', {
          needed: '64 hexadecimal digits, grouped or not',
          next: 'Copy it again, in quotes. The file of pinned keys also contains it, before the colon.',
        });
      const { environment } = await removePin(file, kid);
      const left = (await readPins(file)).filter((pin) => pin.environment === environment);
      const fingerprint = spokenFingerprint(kid);
      printResult(
        context,
        options,
        'key-untrusted',
        { environment, kid, fingerprint, file, left: left.map((pin) => pin.kid) },
        [
          `No longer trusted for "${environment}" in ${file}: ${fingerprint}`,
          ...(left.length > 0
            ? left.map((pin) => `Still trusted: ${spokenFingerprint(pin.kid)}`)
            : [`No key of "${environment}" is trusted now. Compare the next one by voice ("runbook keys trust").`]),
        ],
      );
    });
}

function workersCommand({ context }: CommandHost): Command {
  return newCommand(
    'workers',
    ['runbook keys workers --output /etc/replication-runbooks/workers.key'],
    "create the workers' signing key file; prints the public key that holders pin",
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
      printResult(context, options, 'key-made', { file: options.output, kid: key.kid, publicKey, fingerprint }, [
        `Key file: ${options.output}`,
        'Each person who signs runs this with their own name:',
        `  runbook join ${DEFAULT_ENVIRONMENT}/NAME/${publicKey}`,
        'A holder who does not sign pins the public key once:',
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
    'create an entry for RUNBOOKS_SEAL_KEYS_FILE; writes it to a file, never prints it',
  )
    .requiredOption('--output <file>', 'the new file (mode 0600; never overwritten)')
    .action(async (options: CommonOptions & { readonly output: string }) => {
      const entry = newSealKey();
      await writeSecretFile(options.output, `${entry.reveal()}\n`);
      const kid = entry.reveal().split(':')[0] ?? '';
      printResult(context, options, 'seal-key', { file: options.output, kid }, [
        `Entry "${kid}" in ${options.output}. Give every worker the same entry: RUNBOOKS_SEAL_KEYS_FILE=${options.output}`,
        'To replace a key, add the new entry after the old one on every worker, and restart them. Then move it to the front, and restart again. Keep both until all runs that used the old one have ended.',
      ]);
    });
}

/**
 * The line for one person: `<environment>/<name>/<kid>:<x>`, with the workers' public key. It contains no secret, and is
 * not trusted until a fingerprint was compared.
 */
export const joinLine = (environment: string, name: string, workers: PublicKeyEntry): string =>
  `${environment}/${name}/${formatPublicKey(workers)}`;

/** The file with the line that a person sends back. */
export const publicLineFile = (keyFile: string): string => `${keyFile}.pub`;

/**
 * Parses a line that people send each other: `<name>/.../<kid>:<x>`.
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
    next: 'Copy the complete line again; a character may be missing.',
  });
}

const SHORTEST_PASSPHRASE = 16;
/** One group of a generated passphrase. */
const LAST_CHARACTERS = 5;

/** The options of `join` that say how runs are reached, each with its variable; for Temporal named as in the `temporal` CLI. */
const SERVER_FLAGS = {
  gateway: ['--gateway <url>', 'RUNBOOKS_GATEWAY', 'the gateway that you will use, without access to Temporal'],
  gatewayCa: ['--gateway-ca <file>', 'RUNBOOKS_GATEWAY_CA_FILE', "PEM file of the CA of the gateway's certificate"],
  address: ['--address <host:port>', 'TEMPORAL_ADDRESS', 'the Temporal server that you will use'],
  namespace: ['--namespace <name>', 'TEMPORAL_NAMESPACE', 'its namespace'],
  tlsCaPath: ['--tls-ca-path <file>', 'TEMPORAL_TLS_SERVER_CA_CERT_PATH', "PEM file of the server's CA"],
  tlsCertPath: ['--tls-cert-path <file>', 'TEMPORAL_TLS_CLIENT_CERT_PATH', 'PEM file of your client certificate'],
  tlsKeyPath: ['--tls-key-path <file>', 'TEMPORAL_TLS_CLIENT_KEY_PATH', 'PEM file of its key'],
  tlsServerName: ['--tls-server-name <name>', 'TEMPORAL_TLS_SERVER_NAME', "name in the server's certificate"],
} as const satisfies Readonly<Record<string, readonly [flags: string, variable: string, description: string]>>;
type ServerFlag = keyof typeof SERVER_FLAGS;

interface JoinOptions extends TrustOptions, Readonly<Partial<Record<ServerFlag, string>>> {
  readonly keyFile?: string;
  readonly passphraseFile?: string;
}

/** `runbook join`: everything that a person does once, on their own machine. */
function joinCommand({ context }: CommandHost): Command {
  const command = newCommand('join', [
    'runbook join production/ada/KID:KEY --address temporal.example:7233 --namespace runbooks',
    'runbook join production/ada/KID:KEY --gateway https://runbooks.example:8421   (without access to Temporal)',
  ])
    .argument('<line>', 'the line that "runbook init" printed for you')
    .option('--key-file <file>', 'your key (default: RUNBOOKS_KEY_FILE, or NAME.key in your configuration folder)')
    .option(
      '--passphrase-file <file>',
      'read the passphrase from a file (default: generate one, and print it once on standard error)',
    )
    .option('-y, --yes', "do not ask: you already compared the workers' fingerprint, and you store the passphrase");
  for (const [flags, variable, description] of Object.values(SERVER_FLAGS))
    command.option(flags, `${description} (default: ${variable})`);
  return command.action(async (line: string, options: JoinOptions) => {
    const { names, key: workers } = readKeyLine(line, 'init', ['ENVIRONMENT', 'NAME']);
    const [environment = '', name = ''] = names;
    const env = await joinedEnvironment(context.env, name, options);
    const file = options.keyFile ?? personalKeyFile(env, name);
    await mkdir(personalFolder(env), { recursive: true, mode: 0o700 });
    await pinAfterComparing({ ...context, env }, environment, formatPublicKey(workers), options);
    const key = await ownKey(context, options, file);
    const send = `${name}/${formatPublicKey(key)}`;
    // Beside the key: reading the public line needs no passphrase.
    await writeFile(publicLineFile(file), `${send}\n`);
    const fingerprint = spokenFingerprint(key.kid);
    const usual = join(personalFolder(env), `${name}.key`);
    const { RUNBOOKS_PERSON: before } = readPersonalSettings(env);
    const settings = settingsToStore({ ...env, RUNBOOKS_KEY_FILE: file === usual ? undefined : file });
    await storePersonalSettings(env, settings);
    printResult(
      context,
      options,
      'joined',
      { name, environment, file, kid: key.kid, line: send, fingerprint, settings },
      [
        `Pinned for "${environment}": ${spokenFingerprint(workers.kid)}`,
        `Your key: ${file}`,
        'Send this line to the operators. It contains no secret:',
        `  ${send}`,
        'When they call you, compare its fingerprint by voice:',
        `  ${fingerprint}`,
        ...storedLines(env, settings, before),
      ],
    );
  });
}

/**
 * The environment with the options, and with what an earlier `join` stored.
 *
 * @throws RunbookError `NOT_FOUND` if it names a file that cannot be read
 */
async function joinedEnvironment(
  given: NodeJS.ProcessEnv,
  name: string,
  options: JoinOptions,
): Promise<NodeJS.ProcessEnv> {
  const named = (Object.keys(SERVER_FLAGS) as ServerFlag[]).flatMap((flag) => {
    const value = options[flag];
    return value === undefined ? [] : [[SERVER_FLAGS[flag][1], value] as const];
  });
  const variables: NodeJS.ProcessEnv = Object.fromEntries(named);
  if (options.gateway !== undefined) variables['RUNBOOKS_GATEWAY'] = gatewayOrigin(options.gateway);
  const env = withPersonalSettings({ ...given, ...variables, RUNBOOKS_PERSON: name });
  for (const variable of Object.keys(settingsToStore(env)).filter((each) => /_(PATH|CA_FILE)$/.test(each)))
    await readTextFile(env[variable] ?? '');
  return env;
}

function storedLines(env: NodeJS.ProcessEnv, settings: Readonly<Record<string, string>>, before?: string): string[] {
  const was = before === undefined || before === settings['RUNBOOKS_PERSON'] ? '' : ` (until now: ${before})`;
  const serverIsKnown = Object.keys(settings).some((each) =>
    /^(TEMPORAL_(ADDRESS|PROFILE|CONFIG_FILE)|RUNBOOKS_GATEWAY)$/.test(each),
  );
  return [
    `Stored in ${personalSettingsFile(env)}, for every command of yours. Variables of your shell override it:`,
    ...Object.entries(settings).map(
      ([variable, value]) => `  ${oneLine(`${variable}=${value}`)}${variable === 'RUNBOOKS_PERSON' ? was : ''}`,
    ),
    ...(serverIsKnown
      ? []
      : ['No Temporal server is stored. Run the same command with --address and --namespace, or with --gateway.']),
    ...(env['TEMPORAL_API_KEY'] ? ['TEMPORAL_API_KEY is not stored: set it in each shell.'] : []),
  ];
}

/** The existing key, or a new one: a person who joins a second environment keeps their key. */
async function ownKey(context: CliContext, options: JoinOptions, keyFile: string): Promise<PublicKeyEntry> {
  if ((await stat(keyFile).catch(() => undefined)) !== undefined) {
    context.err(`You already have a key: ${keyFile}. It is opened to read its public line.`);
    const opened = await signingKey(context, { ...options, keyFile });
    if (opened !== undefined) return opened;
  }
  const { file, key } = await createHolderKey(await newPassphrase(context, options), context.keyWorkFactor);
  await writeSecretFile(keyFile, file);
  return key;
}

/** The passphrase of a new key: generated and shown once, or read from a file. */
async function newPassphrase(context: CliContext, options: JoinOptions): Promise<Secret<'passphrase'>> {
  const { passphraseFile } = options;
  if (passphraseFile === undefined) return generatedPassphrase(context, options);
  const passphrase = new Secret('passphrase', (await readTextFile(passphraseFile)).trim());
  if (passphrase.reveal().length >= SHORTEST_PASSPHRASE) return passphrase;
  throw new RunbookError('INVALID_INPUT', 'The passphrase is too short.', {
    needed: `at least ${SHORTEST_PASSPHRASE} characters, or a generated passphrase`,
    next: 'Run the command again. Without --passphrase-file it generates a passphrase for you.',
  });
}

/** Shows a new passphrase once. The person proves that they stored it before the key is created. */
async function generatedPassphrase(context: CliContext, { yes }: JoinOptions): Promise<Secret<'passphrase'>> {
  const passphrase = generatePassphrase();
  context.err(`Passphrase of your key (shown only now; store it in a password manager): ${passphrase.reveal()}`);
  if (yes === true || !context.interactive) return passphrase;
  const typed = await context.askHidden(`When you have stored it, type its last ${LAST_CHARACTERS} characters`);
  if (typed === passphrase.reveal().slice(-LAST_CHARACTERS)) return passphrase;
  throw new RunbookError('INVALID_INPUT', 'These are not the last characters of the passphrase; no key was created.', {
    next: 'Run the command again: it generates a new passphrase.',
  });
}
