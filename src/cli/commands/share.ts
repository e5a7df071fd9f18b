import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { RunbookError } from '../../errors';
import { createEnvelope } from '../../secrets';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import type { CliContext } from '../context';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import { checkInvitation, fetchInvitation, invitationLines, pinsPath } from '../invitation';
import type { CheckedInvitation } from '../invitation';
import { readTextFile } from '../run-input';
import { readShare } from '../secret-input';
import type { ShareOptions } from '../secret-input';

interface ShareCommandOptions extends GivingOptions, SigningOptions, ShareOptions {
  readonly holder: string;
  readonly invitationFile?: string;
  readonly pins?: string;
  readonly confirm?: string;
}

/** `runbook share`: checks the invitation, shows it, encrypts the holder's key share to it, and sends it. */
export function shareCommand(host: CommandHost): Command {
  const command = newCommand(
    'share',
    'give your key share to a run that asks for it; it leaves this machine encrypted only',
    [
      'runbook share deployment:payments --holder ada',
      'runbook share deployment:payments --holder ada --key-file ~/ada.key   (signed, where the inventory lists your key)',
      'runbook share deployment:payments --holder ada --print   (prints one line to paste as signal "share" in the Web UI)',
      'runbook share deployment:payments --holder ada --share-file share.txt --confirm west   (for scripts)',
    ],
  )
    .argument('<workflowId>', 'the run that asks, for example deployment:payments')
    .requiredOption('--holder <name>', 'your name as the inventory lists it')
    .option('--key-file <file>', 'your signing key ("runbook keys init")')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option('--share-file <file>', 'read the key share from a file (default: hidden prompt)')
    .option('--share-stdin', 'read the key share from standard input')
    .option('--invitation-file <file>', 'an invitation that somebody gave you, instead of asking the run')
    .option('--pins <file>', "pinned workers' keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)")
    .option('--confirm <cluster>', 'the name of the first target cluster, instead of typing it when asked')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: ShareCommandOptions) => {
    const { context } = host;
    if (options.print === true && options.invitationFile !== undefined) {
      const checked = await readAndConfirm(context, options, await readTextFile(options.invitationFile), undefined);
      context.out(JSON.stringify(await envelopeFor(context, options, checked)));
      return;
    }
    await withSession(context, options, async ({ client, namespace }) => {
      const jws =
        options.invitationFile === undefined
          ? await fetchInvitation(client, { workflowId })
          : await readTextFile(options.invitationFile);
      const checked = await readAndConfirm(context, options, jws, { namespace, workflowId });
      const input = await envelopeFor(context, options, checked);
      // To the very run that invited: a run that came after it must not get the share.
      const run = { workflowId, runId: checked.invitation.rid };
      await giveSignal(host, options, client, run, SIGNALS.share, input);
    });
  });
}

async function readAndConfirm(
  context: CliContext,
  options: ShareCommandOptions,
  jws: string,
  expected: { readonly namespace: string; readonly workflowId: string } | undefined,
): Promise<CheckedInvitation> {
  const checked = await checkInvitation(jws.trim(), {
    pinsFile: pinsPath(context.env, options.pins),
    holder: options.holder,
    ...(expected === undefined ? {} : { expected }),
  });
  // To standard error: standard output stays clean for --print and --json.
  for (const line of invitationLines(checked)) context.err(line);
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
  return checked;
}

/** The input of the signal: `{document}` where it is signed, else the plain members of the envelope. */
async function envelopeFor(
  context: CliContext,
  options: ShareCommandOptions,
  checked: CheckedInvitation,
): Promise<object> {
  const key = await signingKey(context, options);
  const share = await readShare(context, options);
  const envelope = await createEnvelope({
    invitation: checked.invitation,
    invitationDigest: checked.digest,
    holder: options.holder,
    // The highest counts: a later envelope of the same holder replaces an earlier one.
    seq: Date.now(),
    share,
    ...(key === undefined ? {} : { signingKey: key }),
  });
  return typeof envelope === 'string' ? { document: envelope } : envelope;
}
