import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { RunbookError } from '../../errors';
import {
  claimsRehearsal,
  createEnvelope,
  createRehearsalEnvelope,
  envelopeInput,
  findInvitation,
  formatPublicKey,
  namedSigner,
  parsePublicKey,
  readEnvelopeText,
  spokenFingerprint,
} from '../../holder';
import type { Invitation, PublicKeyEntry, VerifiedRehearsal } from '../../holder';
import { followPins, readPins } from '../../secrets';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import type { CliContext } from '../context';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import {
  checkInvitation,
  checkRehearsal,
  fetchInvitation,
  invitationLines,
  pinsPath,
  rehearsalLines,
} from '../invitation';
import type { CheckedInvitation } from '../invitation';
import { pinAfterComparing, USUAL_ENVIRONMENT } from '../pin-key';
import { readTextFile } from '../run-input';
import { readShare } from '../secret-input';
import type { ShareOptions } from '../secret-input';
import { shellLine, shellWord } from '../text';
import { programVersion } from '../program-version';
import { followedLines } from './signing-keys';

interface ShareCommandOptions extends GivingOptions, SigningOptions, ShareOptions {
  readonly holder?: string;
  readonly invitationFile?: string;
  readonly workersKey?: string;
  readonly environment: string;
  readonly pins?: string;
  readonly confirm?: string;
  /** Write the signal's input to this file instead of sending it. */
  readonly output?: string;
  /** Send an envelope that somebody made elsewhere. */
  readonly envelopeFile?: string;
}

/** What the holder was asked for, has read and confirmed. */
interface Confirmed {
  /** The run that invited. */
  readonly runId: string;
  /** Makes the input of the signal. Only a ceremony asks for a key share here. */
  readonly input: () => Promise<object>;
}

/** `runbook share`: checks the invitation, shows it, encrypts the holder's key share to it, and sends it. */
export function shareCommand(host: CommandHost): Command {
  const command: Command = newCommand(
    'share',
    'give your key share to a run that asks for it; it leaves this machine encrypted only',
    [
      'runbook share deployment:payments --holder ada',
      "runbook share deployment:payments --holder ada --workers-key KID:KEY   (the first time: pins the workers' key)",
      'runbook share deployment:payments --holder ada --key-file ~/ada.key   (signed, where the inventory lists your key)',
      'runbook share deployment:payments --holder ada --print   (prints one line to paste as signal "share" in the Web UI)',
      'runbook share deployment:payments --holder ada --share-file share.txt --confirm west   (for scripts)',
      'offline, without any connection, from what "runbook invitation" wrote:',
      'runbook share deployment:payments --holder ada --invitation-file invitation.txt --output ada.envelope',
      'and whoever has a connection sends it:',
      'runbook share deployment:payments --envelope-file ada.envelope',
    ],
  )
    .argument('<workflowId>', 'the run that asks, for example deployment:payments')
    .option('--holder <name>', 'your name as the inventory lists it')
    .option('--key-file <file>', 'your signing key ("runbook keys init")')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--share-file <file>', 'read the key share from a file (default: hidden prompt)')
    .option('--share-stdin', 'read the key share from standard input')
    .option('--invitation-file <file>', 'an invitation that somebody gave you, instead of asking the run')
    .option(
      '--workers-key <key>',
      'the workers\' public key "<kid>:<x>", to be pinned after you compared its fingerprint (once)',
    )
    .option('--environment <name>', 'what you call the environment of these workers', USUAL_ENVIRONMENT)
    .option('--pins <file>', "pinned workers' keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)")
    .option(
      '--confirm <cluster>',
      'the name of the first target cluster (in a rehearsal: of the deployment), instead of typing it when asked',
    )
    .option('--output <file>', "write the signal's input to a file instead of sending it")
    .option('--envelope-file <file>', 'send an envelope that a holder made offline; asks for nothing')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: ShareCommandOptions) => {
    const { context } = host;
    if (options.envelopeFile !== undefined) {
      const envelope = readEnvelopeText(await readTextFile(options.envelopeFile));
      await withSession(context, options, ({ client }) =>
        giveSignal(host, options, client, { workflowId }, SIGNALS.share, envelope),
      );
      return;
    }
    const { holder } = options;
    if (holder === undefined) command.error("error: required option '--holder <name>' not specified");
    const sends = options.print !== true && options.output === undefined;
    if (!sends && options.invitationFile !== undefined) {
      const text = await readTextFile(options.invitationFile);
      const confirmed = await readAndConfirm(context, holder, options, text, { workflowId });
      await keep(context, options, await confirmed.input());
      return;
    }
    await withSession(context, options, async ({ client, namespace }) => {
      const text =
        options.invitationFile === undefined
          ? await fetchInvitation(client, { workflowId })
          : await readTextFile(options.invitationFile);
      const confirmed = await readAndConfirm(context, holder, options, text, { namespace, workflowId });
      const input = await confirmed.input();
      if (!sends) return keep(context, options, input);
      // To the very run that invited: a run that came after it must not get the share.
      const run = { workflowId, runId: confirmed.runId };
      await giveSignal(host, options, client, run, SIGNALS.share, input);
    });
  });
}

/** The envelope for somebody else to send: one line, on standard output or in a file. Nothing in it is readable. */
async function keep(context: CliContext, options: ShareCommandOptions, input: object): Promise<void> {
  const line = JSON.stringify(input);
  if (options.output === undefined) {
    context.out(line);
    return;
  }
  await writeFile(options.output, `${line}\n`, { mode: 0o600 });
  context.err(`Envelope: ${options.output}. It is encrypted: anybody may send it, by`);
  context.err(`  runbook share <workflowId> --envelope-file ${shellWord(options.output)}`);
  context.err('or by pasting its one line as input of signal "share" in the Web UI.');
}

async function readAndConfirm(
  context: CliContext,
  holder: string,
  options: ShareCommandOptions,
  text: string,
  expected: { readonly namespace?: string; readonly workflowId: string },
): Promise<Confirmed> {
  const { jws, keys, statements } = findInvitation(text);
  const pinsFile = pinsPath(context.env, options.pins);
  await followSigner(context, pinsFile, statements);
  await pinSigner(context, options, { pinsFile, signer: namedSigner(jws), keys });
  if (claimsRehearsal(jws)) {
    const rehearsal = await checkRehearsal(jws, { pinsFile, holder, expected });
    await confirmRehearsal(context, options, rehearsal);
    return { runId: rehearsal.rehearsal.rid, input: () => answerFor(context, holder, options, rehearsal) };
  }
  const checked = await checkInvitation(jws, { pinsFile, holder, expected });
  // To standard error: standard output stays clean for --print and --json.
  for (const line of invitationLines(checked)) context.err(line);
  if (checked.invitation.shares === 'direct') throw enteredDirectly(checked.invitation, expected.workflowId);
  const [target] = checked.invitation.targets;
  const wanted = target?.cluster ?? '';
  const typed = options.confirm ?? (await context.ask(`To go on, type the name of the first target cluster`));
  if (typed !== wanted) {
    throw new RunbookError(
      'INVALID_INPUT',
      'The name does not match the first target cluster. Your share was not asked for.',
      {
        needed: wanted,
      },
    );
  }
  return { runId: checked.invitation.rid, input: () => envelopeFor(context, holder, options, checked) };
}

/** The holders of this run give their shares to the service themselves: what is signed was shown, and nothing is asked for. */
function enteredDirectly({ pgp }: Invitation, workflowId: string): RunbookError {
  return new RunbookError(
    'INVALID_INPUT',
    'This run takes no key shares: you enter yours in the service yourself. Your share was not asked for.',
    {
      needed: `an attempt with OpenPGP key ${(pgp.match(/.{1,4}/g) ?? []).join(' ')}: compare it before you enter your share`,
      next: `Nonce and exact command: ${shellLine('runbook', 'status', workflowId)}`,
    },
  );
}

/** Says that nothing is asked for, and lets the holder compare as in a ceremony. */
async function confirmRehearsal(
  context: CliContext,
  options: ShareCommandOptions,
  checked: VerifiedRehearsal,
): Promise<void> {
  if (options.shareFile !== undefined || options.shareStdin === true) {
    throw new RunbookError('INVALID_INPUT', 'This is a REHEARSAL: it asks for no key share, and none was read.', {
      needed: 'the same command without --share-file and --share-stdin',
      next: 'Never give your key share to a rehearsal: this command makes a value that means nothing.',
    });
  }
  context.err('REHEARSAL: no key share is asked for. Keep yours where it is.');
  for (const line of rehearsalLines(checked)) context.err(line);
  const wanted = checked.rehearsal.deployment;
  const typed = options.confirm ?? (await context.ask('To go on with the REHEARSAL, type the name of the deployment'));
  if (typed !== wanted) {
    throw new RunbookError('INVALID_INPUT', 'The name does not match the deployment. Nothing was sent.', {
      needed: wanted,
    });
  }
}

/** A signer that is not pinned yet is pinned where a pinned key vouches for it: statements come with the invitation. */
async function followSigner(context: CliContext, pinsFile: string, statements: readonly string[]): Promise<void> {
  if (statements.length === 0) return;
  // One that no pinned key signed is left alone: whoever may write to the run could put it there.
  const followed = await followPins(pinsFile, statements, { mayCountNothing: true });
  for (const line of followed.flatMap(followedLines)) context.err(line);
}

/** A signer that is not pinned yet is pinned where its key is at hand and the holder compared the fingerprint. */
async function pinSigner(
  context: CliContext,
  options: ShareCommandOptions,
  found: {
    readonly pinsFile: string;
    readonly signer: string | undefined;
    readonly keys: readonly PublicKeyEntry[];
  },
): Promise<void> {
  const { pinsFile, signer } = found;
  if ((await readPins(pinsFile)).some(({ kid }) => kid === signer)) return;
  const given = options.workersKey === undefined ? undefined : parsePublicKey(options.workersKey.trim());
  if (options.workersKey !== undefined && given?.kid !== signer) {
    throw new RunbookError('DOCUMENT_INVALID', 'The invitation is not signed with the key that you gave.', {
      observed: signer === undefined ? 'no readable signer' : `key ${spokenFingerprint(signer)}`,
      needed: given === undefined ? 'a public key of the form "<kid>:<x>"' : `key ${spokenFingerprint(given.kid)}`,
      next: 'Your share was not asked for. Call the operators, at a number that you know.',
    });
  }
  const key = given ?? found.keys.find(({ kid }) => kid === signer);
  // Where there is no key, or nobody to compare it, the check of the invitation says what to do.
  if (key === undefined || !context.interactive) return;
  await pinAfterComparing(context, { pinsFile, environment: options.environment, line: formatPublicKey(key) });
}

/** The input of the signal: `{document}` where it is signed, else the plain members of the envelope. */
async function envelopeFor(
  context: CliContext,
  holder: string,
  options: ShareCommandOptions,
  checked: CheckedInvitation,
): Promise<object> {
  const key = await signingKey(context, options);
  const share = await readShare(context, options);
  const envelope = await createEnvelope({
    invitation: checked.invitation,
    invitationDigest: checked.digest,
    holder,
    // The highest counts: a later envelope of the same holder replaces an earlier one.
    seq: Date.now(),
    share,
    ...(key === undefined ? {} : { signingKey: key }),
  });
  return envelopeInput(envelope);
}

/** The answer to a rehearsal. Its value is made by the tool: nobody is asked for a share, and none can be handed in. */
async function answerFor(
  context: CliContext,
  holder: string,
  options: ShareCommandOptions,
  { rehearsal, digest }: VerifiedRehearsal,
): Promise<object> {
  const key = await signingKey(context, options);
  const envelope = await createRehearsalEnvelope({
    rehearsal,
    rehearsalDigest: digest,
    holder,
    seq: Date.now(),
    tool: `runbook ${programVersion()}`,
    ...(key === undefined ? {} : { signingKey: key }),
  });
  context.err('REHEARSAL: a value that means nothing was made and encrypted. Your key share was not asked for.');
  return envelopeInput(envelope);
}
