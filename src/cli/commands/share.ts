import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { isRunbookError } from '../../errors';
import {
  answerRequest,
  answerWithToken,
  envelopeInput,
  formatPublicKey,
  namedSigner,
  readEnvelopeText,
  spokenFingerprint,
} from '../../documents';
import type { CeremonyRequest } from '../../documents';
import { readAndConfirm } from '../ceremony-request';
import { readPins } from '../../keys';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import type { CliContext } from '../context';
import { fetchInvitation, PINS_OPTION, pinsPath, USUAL_ENVIRONMENT, withPinningOptions } from '../invitation';
import { programVersion } from '../program-version';
import { readOperationToken, readShare, readTextFile, signingKey } from '../secret-input';
import type { ShareOptions, TokenOptions } from '../secret-input';
import { PRINT_OPTION, giveSignal } from '../signals';
import type { StatementOptions } from '../signals';
import { jsonText, shellLine } from '../text';

export const commands = (host: CommandHost): Command[] => [
  shareCommand(host),
  provideTokenCommand(host),
  invitationCommand(host),
];

interface ShareCommandOptions extends StatementOptions, ShareOptions, TokenOptions {
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

type Gives = 'share' | 'provide-token';

/** `runbook share`: checks the invitation, shows it, encrypts the holder's key share to it, and sends it. */
function shareCommand(host: CommandHost): Command {
  const command = newCommand('share', [
    'runbook share deployment:payments --holder ada',
    "runbook share deployment:payments --holder ada --workers-key KID:KEY   (the first time: pins the workers' key)",
    'runbook share deployment:payments --holder ada --key-file ~/ada.key   (signed, where the inventory lists your key)',
    'runbook share deployment:payments --holder ada --print   (prints one line to paste as signal "share" in the Web UI)',
    'runbook share deployment:payments --holder ada --share-file share.txt --confirm west   (for scripts)',
    'offline, without any connection, from what "runbook invitation" wrote:',
    'runbook share deployment:payments --holder ada --invitation-file invitation.txt --output ada.envelope',
    'and whoever has a connection sends it:',
    'runbook share deployment:payments --envelope-file ada.envelope',
  ])
    .option('--share-file <file>', 'read the key share from a file (default: hidden prompt)')
    .option('--share-stdin', 'read the key share from standard input');
  return givingCommand(host, command, 'share');
}

/** `runbook provide-token`: as `share`, for an operation token that people generated with the service's command line. */
function provideTokenCommand(host: CommandHost): Command {
  const command = newCommand('provide-token', [
    'runbook provide-token deployment:payments --holder ada   (asks for the cluster and, hidden, for the token)',
    'runbook provide-token deployment:payments --holder ada --key-file ~/ada.key   (signed, where the inventory lists your key)',
    'runbook provide-token deployment:payments --holder ada --token-file token.txt --confirm west   (for scripts)',
    'runbook provide-token deployment:payments --holder ada --print   (one line to paste as signal "share" in the Web UI)',
  ])
    .option('--token-file <file>', 'read the token from a file (default: hidden prompt)')
    .option('--token-stdin', 'read the token from standard input');
  return givingCommand(host, command, 'provide-token');
}

function givingCommand(host: CommandHost, command: Command, gives: Gives): Command {
  command
    .argument('<workflowId>', 'the run that asks, for example deployment:payments')
    .option('--holder <name>', 'your name as the inventory lists it')
    .option('--key-file <file>', 'your signing key ("runbook keys init"), else RUNBOOKS_KEY_FILE')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--invitation-file <file>', 'an invitation that somebody gave you, instead of asking the run')
    .option(
      '--confirm <cluster>',
      gives === 'share'
        ? 'the name of the first target cluster (in a rehearsal: of the deployment), instead of typing it when asked'
        : 'the name of the cluster on which the token was generated, instead of typing it when asked',
    )
    .option('--output <file>', "write the signal's input to a file instead of sending it")
    .option('--envelope-file <file>', 'send an envelope that a holder made offline; asks for nothing')
    .option(...PRINT_OPTION);
  withServerOptions(withPinningOptions(command));
  return command.action(async (workflowId: string, options: ShareCommandOptions) => {
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
    const given = { ...options, holder, ...(gives === 'provide-token' && ({ gives: 'token' } as const)) };
    if (!sends && options.invitationFile !== undefined) {
      const text = await readTextFile(options.invitationFile);
      const input = await sayingHowAgain(gives, workflowId, options, async () =>
        inputOf(context, given, await readAndConfirm(context, given, text, { workflowId })),
      );
      await keep(context, gives, options, workflowId, input);
      return;
    }
    await withSession(context, options, async ({ client, namespace }) => {
      const text =
        options.invitationFile === undefined
          ? await fetchInvitation(client, { workflowId })
          : await readTextFile(options.invitationFile);
      const { request, input } = await sayingHowAgain(gives, workflowId, options, async () => {
        const read = await readAndConfirm(context, given, text, { namespace, workflowId });
        return { request: read.request, input: await inputOf(context, given, read) };
      });
      if (!sends) return keep(context, gives, options, workflowId, input);
      // To the very run that invited: a run that came after it must not get it.
      const run = { workflowId, runId: request.invitation.rid };
      await giveSignal(host, options, client, run, SIGNALS.share, input);
    });
  });
}

/** The envelope for somebody else to send: one line, on standard output or in a file. Nothing in it is readable. */
async function keep(
  context: CliContext,
  gives: Gives,
  options: ShareCommandOptions,
  workflowId: string,
  input: object,
): Promise<void> {
  const line = jsonText(input);
  if (options.output === undefined) {
    context.out(line);
    return;
  }
  await writeFile(options.output, `${line}\n`, { mode: 0o600 });
  context.err(`Envelope: ${options.output}. It is encrypted: anybody may send it, by`);
  context.err(`  ${shellLine('runbook', gives, workflowId, '--envelope-file', options.output)}`);
  context.err('or by pasting its one line as input of signal "share" in the Web UI.');
}

/** The input of the signal: `{document}` where it is signed, else the plain members of the envelope. */
async function inputOf(
  context: CliContext,
  options: ShareCommandOptions & { readonly holder: string; readonly gives?: 'token' },
  { request, confirmed }: { readonly request: CeremonyRequest; readonly confirmed: string },
): Promise<object> {
  const { holder } = options;
  const key = await signingKey(context, options);
  if (options.gives === 'token') {
    const token = await readOperationToken(context, options, confirmed);
    return envelopeInput(await answerWithToken(request, { holder, signingKey: key, cluster: confirmed, token }));
  }
  const tool = `runbook ${programVersion()}`;
  const share = () => readShare(context, options);
  const envelope = await answerRequest(request, { holder, tool, signingKey: key, share });
  if (request.kind === 'rehearsal')
    context.err('REHEARSAL: a value that means nothing was made and encrypted. Your key share was not asked for.');
  return envelopeInput(envelope);
}

/** What is refused here ends with the command that this very person gives next. */
async function sayingHowAgain<T>(
  gives: Gives,
  workflowId: string,
  options: ShareCommandOptions,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!isRunbookError(error) || error.next === undefined || error.next.includes('runbook status')) throw error;
    throw error.with({ next: `${error.next} When that is settled: ${again(gives, workflowId, options)}` });
  }
}

/** The same command again, as far as it says who gives what to which run, by which server and which pins. */
function again(gives: Gives, workflowId: string, options: ShareCommandOptions): string {
  const { environment, print } = options;
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [name, value]);
  return shellLine(
    ...['runbook', gives, workflowId, ...option('--holder', options.holder), ...option('--key-file', options.keyFile)],
    ...[...option('--invitation-file', options.invitationFile), ...option('--workers-key', options.workersKey)],
    ...option('--environment', environment === USUAL_ENVIRONMENT ? undefined : environment),
    ...[...option('--pins', options.pins), ...option('--address', options.address)],
    ...[...option('--namespace', options.namespace), ...option('--profile', options.profile)],
    ...option('--output', options.output),
    ...(print === true ? ['--print'] : []),
  );
}

interface InvitationOptions extends ServerOptions {
  readonly output?: string;
  readonly pins?: string;
}

/**
 * `runbook invitation`: the invitation of a run as a text to hand on, for holders who work offline or have only a browser.
 * Nothing in it is secret. Where this machine has the signer's key pinned, its public key goes along: a holder who has
 * only noted the fingerprint needs it.
 */
function invitationCommand(host: CommandHost): Command {
  const command = newCommand('invitation', [
    'runbook invitation deployment:payments',
    'runbook invitation deployment:payments --output invitation.txt',
  ])
    .argument('<workflowId>', 'the run that asks for key shares')
    .option('--output <file>', 'write it to a file instead of printing it')
    .option(...PINS_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: InvitationOptions) => {
    const { context } = host;
    await withSession(context, options, async ({ client }) => {
      const invitation = await fetchInvitation(client, { workflowId });
      const signer = namedSigner(invitation);
      const key = (await readPins(pinsPath(context.env, options.pins))).find(({ kid }) => kid === signer);
      const text = [invitation, ...(key === undefined ? [] : [formatPublicKey(key)])];
      if (options.output !== undefined) await writeFile(options.output, `${text.join('\n')}\n`);
      const result = {
        workflowId,
        invitation,
        ...(signer === undefined ? {} : { fingerprint: spokenFingerprint(signer) }),
        ...(key === undefined ? {} : { workersKey: formatPublicKey(key) }),
        ...(options.output === undefined ? {} : { file: options.output }),
      };
      printResult(context, options, result, options.output === undefined ? text : [`Invitation: ${options.output}`]);
    });
  });
}
