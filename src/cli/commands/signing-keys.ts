import { appendFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { RunbookError } from '../../errors';
import { Secret } from '../../secret';
import {
  followPins,
  formatPublicKey,
  newSigningKey,
  parseFingerprint,
  parseSigningKey,
  readPins,
  retirePin,
  signKeyStatement,
  spokenFingerprint,
  statementsIn,
} from '../../secrets';
import type { FollowedPin } from '../../secrets';
import { newCommand, printResult } from '../command';
import type { CommandHost, CommonOptions } from '../command';
import { pinsPath } from '../invitation';
import { readTextFile } from '../run-input';
import { writeSecretFile } from '../secret-file';

const DAY_SECONDS = 24 * 3600;

interface RotateOptions extends CommonOptions {
  readonly key: string;
  readonly output: string;
  readonly statements: string;
  readonly retireAfter: string;
  readonly validFor: string;
}

/** `runbook keys rotate`: a new signing key of the workers, and the old one's word for it. */
export function rotateCommand({ context }: CommandHost): Command {
  return newCommand('rotate', "make the workers' next signing key; the present one vouches for it to the holders", [
    'runbook keys rotate --key /etc/replication-runbooks/workers.key --output /etc/replication-runbooks/workers-2.key \\',
    '  --statements /etc/replication-runbooks/workers.statements',
  ])
    .requiredOption('--key <file>', "the workers' present signing key")
    .requiredOption('--output <file>', 'the new key file (mode 0600; never overwritten)')
    .requiredOption(
      '--statements <file>',
      'where the statement is added: public, for the holders and for the inventory',
    )
    .option('--retire-after <days>', 'when the old key stops counting for a holder who took the statement', '14')
    .option('--valid-for <days>', 'how long holders may take the statement, at most 400', '90')
    .action(async (options: RotateOptions) => {
      const present = parseSigningKey(new Secret('private-key', (await readTextFile(options.key)).trim()));
      const { key, jwk } = newSigningKey();
      const iat = Math.floor(Date.now() / 1000);
      const retire = iat + days(options.retireAfter, '--retire-after') * DAY_SECONDS;
      const exp = iat + days(options.validFor, '--valid-for') * DAY_SECONDS;
      const statement = await signKeyStatement(present, key, { iat, exp, retire });
      await writeSecretFile(options.output, `${jwk.reveal()}\n`);
      await appendFile(options.statements, `${statement}\n`, { mode: 0o644 });
      const [from, to] = [spokenFingerprint(present.kid), spokenFingerprint(key.kid)];
      printResult(
        context,
        options,
        {
          file: options.output,
          statements: options.statements,
          previous: present.kid,
          kid: key.kid,
          publicKey: formatPublicKey(key),
          fingerprint: to,
          retire: date(retire),
          exp: date(exp),
        },
        [
          `New key file: ${options.output}`,
          `Statement of the old key for the new one: added to ${options.statements}`,
          `  old key  ${from}`,
          `           stops counting on ${date(retire)}, for each holder who took the statement`,
          `  new key  ${to}`,
          `           holders take it by the statement until ${date(exp)}; after that they compare it by voice`,
          'Now, in this order:',
          '  1. Wait until no ceremony is open: its invitation is signed with the old key.',
          `  2. In the inventory: workers: { signingKey: { file: ${options.output} }, statements: ${options.statements} }; restart every worker.`,
          '  3. Holders: "runbook share" takes the statement with the next invitation. Or each takes the file before:',
          `       runbook keys trust --statement ${options.statements}`,
          `     The page takes it with the invitation, too; give its holders a page made for the new key before ${date(exp)}: then the statement expires.`,
          '  4. Destroy the old key file, and its copies in backups, when every holder has the new key.',
        ],
      );
    });
}

/** `runbook keys distrust`: a pinned key counts no more on this machine. */
export function distrustCommand({ context }: CommandHost): Command {
  return newCommand(
    'distrust',
    "give up a pinned workers' key on this machine: it counts no more, and vouches for nothing",
    ['runbook keys distrust "1f0a 22c4 ..."'],
  )
    .argument('<fingerprint>', 'as "runbook keys trust" showed it; or the kid')
    .option('--pins <file>', 'file of pinned keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)')
    .action(async (text: string, options: CommonOptions & { readonly pins?: string }) => {
      const file = pinsPath(context.env, options.pins);
      const kid = /^[A-Za-z0-9_-]{43}$/.test(text.trim()) ? text.trim() : parseFingerprint(text);
      if (kid === undefined)
        throw new RunbookError('INVALID_INPUT', 'This is not the fingerprint of a key.', {
          needed: '64 hexadecimal digits, in groups or not',
          next: 'Copy it again, in quotes: it stands in the file of pinned keys as the part before the colon, too.',
        });
      const { environment } = await retirePin(file, kid);
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

/** Takes the statements of a file, for `runbook keys trust --statement`. */
export async function trustStatements(
  { context }: CommandHost,
  options: CommonOptions & { readonly pins?: string; readonly statement: string },
): Promise<void> {
  const file = pinsPath(context.env, options.pins);
  const followed = await followPins(file, statementsIn(await readTextFile(options.statement)));
  const pinned = followed.map(({ environment, previous, key, until }) => ({
    environment,
    previous,
    kid: key.kid,
    fingerprint: spokenFingerprint(key.kid),
    previousUntil: until.toISOString(),
  }));
  printResult(
    context,
    options,
    { file, pinned },
    followed.length === 0 ? [`Nothing new: ${file} has these keys already.`] : followed.flatMap(followedLines),
  );
}

/** What a person reads when a key was pinned because a pinned one vouched for it. */
export function followedLines({ environment, previous, key, until }: FollowedPin): string[] {
  return [
    `The workers of "${environment}" have a new signing key; the one that you pinned vouches for it.`,
    `  old key  ${spokenFingerprint(previous)}`,
    `           counts until ${date(until.getTime() / 1000)}`,
    `  new key  ${spokenFingerprint(key.kid)}   (pinned)`,
  ];
}

function days(text: string, option: string): number {
  const number = Number(text);
  if (Number.isInteger(number) && number >= 0 && number <= 400) return number;
  throw new RunbookError('INVALID_INPUT', `${option} is not a number of days.`, {
    needed: 'a whole number, at most 400',
    next: `Give the same command with a number there, or without ${option}.`,
  });
}

function date(seconds: number): string {
  return `${new Date(seconds * 1000).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}
