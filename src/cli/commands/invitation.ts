import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { formatPublicKey, namedSigner, spokenFingerprint } from '../../documents';
import { readPins } from '../../keys';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { fetchInvitation, pinsPath } from '../invitation';

interface InvitationOptions extends ServerOptions {
  readonly output?: string;
  readonly pins?: string;
}

/**
 * `runbook invitation`: the invitation of a run as a text to hand on, for holders who work offline or have only a browser.
 * Nothing in it is secret. Where this machine has the signer's key pinned, its public key goes along: a holder who has
 * only noted the fingerprint needs it.
 */
export function invitationCommand(host: CommandHost): Command {
  const command = newCommand('invitation', 'print the invitation of a run, to hand to holders who work offline', [
    'runbook invitation deployment:payments',
    'runbook invitation deployment:payments --output invitation.txt',
  ])
    .argument('<workflowId>', 'the run that asks for key shares')
    .option('--output <file>', 'write it to a file instead of printing it')
    .option('--pins <file>', "pinned workers' keys (default: RUNBOOKS_PINS, ~/.config/replication-runbooks/pins.json)");
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
