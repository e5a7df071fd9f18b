import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { RunbookError } from '../../errors';
import { newCommand, withServerOptions, withSession } from '../command';
import type { CommandHost } from '../command';
import type { CliContext } from '../context';
import { PRINT_OPTION, giveSignal } from '../give-signal';
import type { GivingOptions } from '../give-signal';
import { readTextFile } from '../run-input';
import { jsonText } from '../text';

interface SubmitOptions extends GivingOptions {
  readonly cluster: string;
  readonly tokenFile?: string;
}

const PLAIN_TOKEN = /(?<![A-Za-z0-9+/_-])(?:hv[sbr]|[sbr])\.[A-Za-z0-9_-]{16,}/;
/** A token for a one-time password is at most as long as a token; a message to a key is far longer. */
const SHORTEST_MESSAGE = 100;

/** `runbook submit-token`: whoever was shown the encoded token hands it to the run whose key opens it. */
export function submitTokenCommand(host: CommandHost): Command {
  const command = newCommand(
    'submit-token',
    'hand an encoded token to the run that waits for it; it is encrypted, and no secret',
    [
      'runbook submit-token deployment:payments --cluster west   (asks; paste the value of "Encoded Token")',
      'runbook submit-token deployment:payments --cluster west --token-file answer.json   (the answer of the service will do)',
      'pbpaste | runbook submit-token deployment:payments --cluster west --token-file -',
      'runbook submit-token deployment:payments --cluster west --print   (one line to paste as signal "submitEncodedToken" in the Web UI)',
    ],
  )
    .argument('<workflowId>', 'the run that waits for it, for example deployment:payments')
    .requiredOption('--cluster <name>', 'the cluster on which it was generated')
    .option('--token-file <file>', 'a file that holds it, or - for standard input (default: asks)')
    .option(...PRINT_OPTION);
  return withServerOptions(command).action(async (workflowId: string, options: SubmitOptions) => {
    const input = { cluster: options.cluster, encodedToken: encodedTokenIn(await given(host.context, options)) };
    if (options.print === true) {
      host.context.out(jsonText(input));
      return;
    }
    await withSession(host.context, options, ({ client }) =>
      giveSignal(host, options, client, { workflowId }, SIGNALS.submitEncodedToken, input),
    );
  });
}

function given(context: CliContext, { tokenFile }: SubmitOptions): Promise<string> {
  if (tokenFile === '-') return context.readInput();
  return tokenFile === undefined ? context.ask('The encoded token') : readTextFile(tokenFile);
}

/**
 * The encoded token in what somebody pasted: alone, in the service's JSON answer, or as the official command line prints
 * it. Nothing of it is repeated where it is refused.
 *
 * @throws RunbookError `INVALID_INPUT`
 */
export function encodedTokenIn(text: string): string {
  if (PLAIN_TOKEN.test(text)) {
    throw new RunbookError('INVALID_INPUT', 'This is a token in PLAIN TEXT. It was not sent.', {
      needed: 'the encoded token, which is encrypted',
      next: 'Only the recipient decodes a token. End this one where it is not meant to be used, and close this terminal.',
    });
  }
  const found =
    /"encoded_token"\s*:\s*"([^"]+)"/.exec(text)?.[1] ?? /^\s*Encoded Token\s+(\S+)\s*$/im.exec(text)?.[1] ?? text;
  const encoded = found.replace(/\s+/g, '');
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(encoded)) {
    throw new RunbookError('INVALID_INPUT', 'No encoded token was found in it. Nothing was sent.', {
      needed: 'the value of "Encoded Token" (encoded_token): letters, digits, +, / and = at the end',
      next: 'Copy it again from the answer of the service, whole; the whole answer will do, too.',
    });
  }
  if (encoded.length < SHORTEST_MESSAGE) {
    throw new RunbookError(
      'INVALID_INPUT',
      'This is too short for a token that is encrypted to a key. Nothing was sent.',
      {
        observed: `${encoded.length} characters`,
        needed: 'a token of an attempt with the PGP key of this run',
        next: 'A token for a one-time password comes from an attempt that somebody else started: ask who did.',
      },
    );
  }
  return encoded;
}
