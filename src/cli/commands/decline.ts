import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { nextCommandOf } from '../../contracts/next-commands';
import { SIGNALS } from '../../contracts/signals';
import { declinePayload } from '../../contracts/payloads';
import { RunbookError } from '../../errors';
import { redact, signDecline } from '../../keys';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import { signingKey } from '../holder-key';
import type { SigningOptions } from '../holder-key';
import { fetchInvitation } from '../invitation';
import { shellLine } from '../text';

interface DeclineOptions extends GivingOptions, SigningOptions {
  readonly holder: string;
  readonly reason: string;
}

/** `runbook decline`: a key holder says that he cannot give his share now, so that others are asked at once. */
export function declineCommand(host: CommandHost): Command {
  const command = newCommand('decline', 'say that you cannot give your key share now; who stands by is asked at once', [
    'runbook decline deployment:payments --holder ada --reason "on a plane until the evening"',
    'runbook decline deployment:payments --holder ada --reason ill --key-file ~/ada.key   (signed)',
    'runbook decline deployment:payments --holder ada --reason ill --print   (one line to paste as signal "decline" in the Web UI)',
  ])
    .argument('<workflowId>', 'the run that asks, for example deployment:payments')
    .requiredOption('--holder <name>', 'your name as the inventory lists it')
    .requiredOption('--reason <text>', 'why; shown to everybody and in the report. Never a key share')
    .option(
      '--key-file <file>',
      'your signing key ("runbook keys init"), else RUNBOOKS_KEY_FILE; without one the decline is a claim',
    )
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: DeclineOptions) => {
    const { context } = host;
    await withSession(context, options, async ({ client, namespace }) => {
      const asked = await whoIsAsked(client, workflowId);
      if (!asked.holders.includes(options.holder)) {
        throw new RunbookError('INVALID_INPUT', 'This run does not ask you for a key share. Nothing was sent.', {
          observed: options.holder,
          needed: `one of: ${asked.holders.join(', ')}`,
          next: `If one of them is you, give your name exactly so. If none is, you are not asked. Who is: ${shellLine('runbook', 'status', workflowId)}`,
        });
      }
      if (redact(options.reason) !== options.reason) {
        throw new RunbookError('INVALID_INPUT', 'The reason seems to hold a secret. Nothing was sent.', {
          needed: 'a few words; everybody can read them',
          next: `Give other words: ${nextCommandOf.decline(workflowId, options.holder)}. Was it your key share? It stands in the history of your shell now: remove it there.`,
        });
      }
      const { holders: _holders, ...about } = asked;
      const parsed = declinePayload.safeParse({
        ns: namespace,
        wid: workflowId,
        ...about,
        reason: options.reason,
        name: options.holder,
        iat: Math.floor(Date.now() / 1000),
      });
      if (!parsed.success) {
        const mistakes = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ');
        throw new RunbookError('INVALID_INPUT', `The decline is refused: ${mistakes}. Nothing was sent.`, {
          needed: 'a reason of one to 500 characters',
          next: `Correct it: ${nextCommandOf.decline(workflowId, options.holder)}`,
        });
      }
      const key = await signingKey(context, options);
      const input = key === undefined ? parsed.data : { document: await signDecline(parsed.data, key) };
      // To the very run that invited: a run that came after it asks anew.
      await giveSignal(host, options, client, { workflowId, runId: about.rid }, SIGNALS.decline, input);
      if (options.print !== true)
        context.err(`You may give it all the same: ${nextCommandOf.share(workflowId, options.holder)}`);
    });
  });
}

interface Asked {
  readonly rid: string;
  readonly cid: string;
  readonly epoch: number;
  readonly holders: readonly string[];
}

/**
 * What the newest invitation of the run says. Its signature is not looked at: a decline gives nothing away, and the run
 * checks that it names its own ceremony.
 */
async function whoIsAsked(client: Client, workflowId: string): Promise<Asked> {
  const jws = await fetchInvitation(client, { workflowId });
  const said = claimsOf(jws);
  const { rid, cid, epoch, holders } = said;
  if (
    typeof rid === 'string' &&
    typeof cid === 'string' &&
    typeof epoch === 'number' &&
    Array.isArray(holders) &&
    holders.every((name) => typeof name === 'string')
  )
    return { rid, cid, epoch, holders };
  throw new RunbookError('DOCUMENT_INVALID', 'The run shows an invitation that is none. Nothing was sent.', {
    needed: 'an invitation that the workers made',
    next: `Tell the operators, by voice, that you cannot give your share. What the run says: ${shellLine('runbook', 'status', workflowId)}`,
  });
}

function claimsOf(jws: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = JSON.parse(Buffer.from(jws.split('.')[1] ?? '', 'base64url').toString('utf8'));
    return typeof parsed === 'object' && parsed !== null ? { ...parsed } : {};
  } catch {
    return {};
  }
}
