import { hash } from 'node:crypto';
import { writeFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { programVersion, projectRoot } from '../../dev-server/locations';
import {
  answerRequest,
  answerWithToken,
  asksForRecoveryShare,
  demandSigningKey,
} from '../../documents/ceremony-request';
import { envelopeInput, readEnvelopeText } from '../../documents/envelope';
import { formatPublicKey, spokenFingerprint } from '../../documents/public-keys';
import { namedSigner } from '../../documents/invitation';
import { parseOperationToken, parseShare } from '../../documents/key-shares';
import { RunbookError } from '../../errors';
import { publicKeyOf } from '../../keys';
import { newCommand, printResult, withRun, withRunSession, withServerOptions, collect, workflowIdOf } from '../command';
import type { ServerOptions, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { fetchInvitation, readAndConfirm } from '../invitation';
import type { ExpectedRun, HolderOptions } from '../invitation';
import { describe } from '../run';
import { readSecret, readTextFile, signingKey } from '../secret-input';
import { HOLDER_OPTION, giveSignal, personOf, withStatementOptions } from '../signals';
import type { StatementOptions } from '../signals';
import type { CommandHost } from '../command-host';
import { jsonText } from '../../contracts/words';

export const commands = (host: CommandHost): Command[] => [
  givingCommand(host, 'share'),
  givingCommand(host, 'provide-token'),
  invitationCommand(host),
  holderPageCommand(host),
];

interface ShareOptions extends StatementOptions, HolderOptions {
  readonly tokenFile?: string;
  readonly invitationFile?: string;
  /** Send an envelope that was created elsewhere. */
  readonly envelopeFile?: string;
}

/** What a holder can give: the option that reads it from a file, and what they confirm first. */
const GIVES = {
  share: {
    examples: [
      'runbook share deployment:payments --holder ada',
      'runbook share deployment:payments --holder ada --key-file ~/ada.key   (signed, if the inventory lists your key)',
      'runbook share deployment:payments --holder ada --print   (prints one line to paste as signal "share" in the Web UI)',
      'runbook share deployment:payments --holder ada --share-file share.txt --confirm west   (for scripts)',
      'offline, without a connection, from the output of "runbook invitation":',
      'runbook share deployment:payments --holder ada --invitation-file invitation.txt --print > ada.envelope',
      'then anybody with a connection sends it:',
      'runbook share deployment:payments --envelope-file ada.envelope',
    ],
    file: ['--share-file <file>', 'read the key share from a file, or - for standard input (default: hidden prompt)'],
    confirmed: 'the name of the first target cluster (in a rehearsal: of the deployment)',
  },
  'provide-token': {
    examples: [
      'runbook provide-token deployment:payments --holder ada   (prompts for the cluster, and hidden for the token)',
      'runbook provide-token deployment:payments --holder ada --token-file token.txt --confirm west   (for scripts)',
    ],
    file: ['--token-file <file>', 'read the token from a file, or - for standard input (default: hidden prompt)'],
    confirmed: 'the name of the cluster on which the token was generated',
  },
} as const;
type Gives = keyof typeof GIVES;

/**
 * `runbook share`: checks the invitation, shows it, encrypts the holder's key share for it, and sends it. `provide-token`
 * does the same for an operation token that people generated with the service's command line.
 */
function givingCommand(host: CommandHost, gives: Gives): Command {
  const { examples, file, confirmed } = GIVES[gives];
  const [flags, description] = file;
  const command = newCommand(gives, examples)
    .option(flags, description)
    .option(...HOLDER_OPTION)
    .option('--invitation-file <file>', 'an invitation that somebody gave you, instead of one from the run')
    .option('--confirm <cluster>', `${confirmed}, instead of typing it when asked`)
    .option('--envelope-file <file>', 'send an envelope that a holder created offline; asks for nothing');
  return withStatementOptions(command).action(async (word: string, given: ShareOptions) => {
    const { context } = host;
    const { envelopeFile, invitationFile, print } = given;
    if (envelopeFile !== undefined) {
      const envelope = readEnvelopeText(await readTextFile(envelopeFile));
      return withRunSession(context, given, word, (session, workflowId) =>
        giveSignal(host, given, session, { workflowId }, SIGNALS.share, envelope),
      );
    }
    const options = { ...given, holder: await personOf(context, given.holder, '--holder') };
    const inFile = invitationFile === undefined ? undefined : await readTextFile(invitationFile);
    if (inFile !== undefined && print === true) {
      const { input } = await answer(context, gives, options, inFile, { workflowId: workflowIdOf(word) });
      return context.out(jsonText(input));
    }
    await withRunSession(context, options, word, async (session, workflowId) => {
      const { client, namespace } = session;
      const text = inFile ?? (await fetchInvitation(session, workflowId)).invitation;
      const runId = inFile === undefined ? undefined : (await describe(client, { workflowId })).runId;
      const { request, input } = await answer(context, gives, options, text, { namespace, workflowId, runId });
      // Only to the run that sent the invitation: a later run must not receive the share.
      const run = { workflowId, runId: request.invitation.rid };
      await giveSignal(host, options, session, run, SIGNALS.share, input);
    });
  });
}

/** The signal's input: `{document}` if it is signed, otherwise the plain members of the envelope. */
async function answer(context: CliContext, gives: Gives, options: ShareOptions, text: string, run: ExpectedRun) {
  const { request, confirmed } = await readAndConfirm(context, options, gives, text, run);
  const { holder } = options;
  const key = await signingKey(context, options, holder);
  demandSigningKey(request, holder, key !== undefined);
  if (gives === 'provide-token') {
    const source = { file: options.tokenFile, question: `The operation token of ${confirmed}` };
    const token = await readSecret(context, source, parseOperationToken);
    const envelope = await answerWithToken(request, { holder, signingKey: key, cluster: confirmed, token });
    return { request, input: envelopeInput(envelope) };
  }
  const tool = `runbook ${programVersion()}`;
  const question = asksForRecoveryShare(request) ? 'Your recovery key share' : 'Your key share';
  const share = () => readSecret(context, { file: options.shareFile, question }, parseShare);
  const envelope = await answerRequest(request, { holder, tool, signingKey: key, share });
  if (request.kind === 'rehearsal')
    context.err('REHEARSAL: a meaningless value was generated and encrypted. You were not asked for your key share.');
  return { request, input: envelopeInput(envelope) };
}

/**
 * `runbook invitation`: the invitation of a run as text to pass on, for holders who work offline or have only a browser. It
 * contains no secret.
 */
function invitationCommand({ context }: CommandHost): Command {
  const command = newCommand('invitation', ['runbook invitation deployment:payments > invitation.txt']);
  return withServerOptions(withRun(command)).action(async (given: string, options: ServerOptions) => {
    const { invitation, workflowId } = await withRunSession(context, options, given, async (session, workflowId) => ({
      ...(await fetchInvitation(session, workflowId)),
      workflowId,
    }));
    const signer = namedSigner(invitation);
    const fingerprint = signer === undefined ? undefined : spokenFingerprint(signer);
    printResult(context, options, { workflowId, invitation, fingerprint }, [invitation]);
  });
}

/** The path of the built page, relative to the project's root. */
const BUILT_PAGE = join('dist', 'holder-page.html');

interface PageOptions extends CommonOptions {
  readonly output: string;
  readonly key: readonly string[];
}

/** `runbook holder-page`: writes the holder's page, for a holder who has only a browser. */
function holderPageCommand({ context }: CommandHost): Command {
  return newCommand('holder-page', [
    'runbook holder-page --output holder-page.html --key KID:KEY   (trusts only workers with this key)',
  ])
    .requiredOption('--output <file>', 'the file to write')
    .requiredOption(
      '--key <key>',
      'the workers\' public key "<kid>:<x>" that the page trusts (repeat for several)',
      collect,
    )
    .action(async (options: PageOptions) => {
      const published = await readPublished();
      const trusted = options.key.map(publicKeyOf);
      const page = fillPage(published, trusted.map(formatPublicKey).join(' '));
      await writeFile(options.output, page);
      const fingerprints = trusted.map(({ kid }) => spokenFingerprint(kid));
      const hashes = { sha256: hash('sha256', page), publishedSha256: hash('sha256', published) };
      printResult(context, options, { file: options.output, ...hashes, fingerprints }, [
        `Holder's page: ${options.output}`,
        `SHA-256: ${hashes.sha256}`,
        `The same command produces the same file. SHA-256 of the page without keys: ${hashes.publishedSha256}`,
        ...fingerprints.map((fingerprint) => `It trusts the workers' key ${fingerprint}`),
        'Give it to each holder beforehand. The holder compares hash and fingerprint with you by voice, and keeps the file.',
      ]);
    });
}

/** Writes the keys (letters and a few signs) into the page's `meta` element. Script and style keep their hashes. */
export function fillPage(page: string, keys: string): string {
  const empty = '<meta name="workers-keys" content="">';
  if (page.includes(empty)) return page.replace(empty, `<meta name="workers-keys" content="${keys}">`);
  throw new RunbookError('INTERNAL', "The built holder's page is damaged.", {
    next: 'Build it again: npm run build. If you installed a package, install it again.',
  });
}

async function readPublished(): Promise<string> {
  const file = join(projectRoot(), BUILT_PAGE);
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new RunbookError('NOT_FOUND', `The holder's page is not built: ${file} is missing.`, {
      next: 'Build it: npm run build. Or use the holder-page.html that is published with the release.',
    });
  }
}
