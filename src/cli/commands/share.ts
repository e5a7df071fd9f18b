import { createHash } from 'node:crypto';
import { writeFile, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Command } from 'commander';
import { SIGNALS } from '../../contracts/signals';
import { programVersion, projectRoot } from '../../dev-server/locations';
import { answerRequest, answerWithToken, asksForRecoveryShare } from '../../documents/ceremony-request';
import { envelopeInput, readEnvelopeText } from '../../documents/envelope';
import { formatPublicKey, spokenFingerprint } from '../../documents/public-keys';
import { namedSigner } from '../../documents/invitation';
import { parseOperationToken, parseShare } from '../../documents/key-shares';
import { RunbookError } from '../../errors';
import { publicKeyOf } from '../../keys';
import { newCommand, printResult, withRun, withServerOptions, withSession, collect } from '../command';
import type { CommandHost, ServerOptions, CommonOptions } from '../command';
import type { CliContext } from '../context';
import { fetchInvitation, readAndConfirm } from '../invitation';
import type { ExpectedRun, HolderOptions } from '../invitation';
import { describe } from '../run';
import { readSecret, readTextFile, signingKey } from '../secret-input';
import { HOLDER_OPTION, giveSignal, personOf, withStatementOptions } from '../signals';
import type { StatementOptions } from '../signals';
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
  /** Send an envelope that somebody made elsewhere. */
  readonly envelopeFile?: string;
}

/** What a holder gives, with the option that reads it from a file, and what they confirm before. */
const GIVES = {
  share: {
    examples: [
      'runbook share deployment:payments --holder ada',
      'runbook share deployment:payments --holder ada --key-file ~/ada.key   (signed, where the inventory lists your key)',
      'runbook share deployment:payments --holder ada --print   (prints one line to paste as signal "share" in the Web UI)',
      'runbook share deployment:payments --holder ada --share-file share.txt --confirm west   (for scripts)',
      'offline, without any connection, from what "runbook invitation" wrote:',
      'runbook share deployment:payments --holder ada --invitation-file invitation.txt --print > ada.envelope',
      'and anybody who has a connection sends it:',
      'runbook share deployment:payments --envelope-file ada.envelope',
    ],
    file: ['--share-file <file>', 'read the key share from a file, or - for standard input (default: hidden prompt)'],
    confirmed: 'the name of the first target cluster (in a rehearsal: of the deployment)',
  },
  'provide-token': {
    examples: [
      'runbook provide-token deployment:payments --holder ada   (asks for the cluster and, hidden, for the token)',
      'runbook provide-token deployment:payments --holder ada --token-file token.txt --confirm west   (for scripts)',
    ],
    file: ['--token-file <file>', 'read the token from a file, or - for standard input (default: hidden prompt)'],
    confirmed: 'the name of the cluster on which the token was generated',
  },
} as const;
type Gives = keyof typeof GIVES;

/**
 * `runbook share`: checks the invitation, shows it, encrypts the holder's key share to it, and sends it. `provide-token`: the
 * same for an operation token that people generated with the service's command line.
 */
function givingCommand(host: CommandHost, gives: Gives): Command {
  const { examples, file, confirmed } = GIVES[gives];
  const [flags, description] = file;
  const command = newCommand(gives, examples)
    .option(flags, description)
    .option(...HOLDER_OPTION)
    .option('--invitation-file <file>', 'an invitation that somebody gave you, instead of asking the run')
    .option('--confirm <cluster>', `${confirmed}, instead of typing it when asked`)
    .option('--envelope-file <file>', 'send an envelope that a holder made offline; asks for nothing');
  return withStatementOptions(command).action(async (workflowId: string, given: ShareOptions) => {
    const { context } = host;
    const { envelopeFile, invitationFile, print } = given;
    if (envelopeFile !== undefined) {
      const envelope = readEnvelopeText(await readTextFile(envelopeFile));
      return withSession(context, given, (session) =>
        giveSignal(host, given, session, { workflowId }, SIGNALS.share, envelope),
      );
    }
    const options = { ...given, holder: await personOf(context, given.holder, '--holder') };
    const inFile = invitationFile === undefined ? undefined : await readTextFile(invitationFile);
    if (inFile !== undefined && print === true) {
      const { input } = await answer(context, gives, options, inFile, { workflowId });
      return context.out(jsonText(input));
    }
    await withSession(context, options, async (session) => {
      const { client, namespace } = session;
      const text = inFile ?? (await fetchInvitation(session, workflowId)).invitation;
      const runId = inFile === undefined ? undefined : (await describe(client, { workflowId })).runId;
      const { request, input } = await answer(context, gives, options, text, { namespace, workflowId, runId });
      // To the very run that invited: a later run must not get it.
      const run = { workflowId, runId: request.invitation.rid };
      await giveSignal(host, options, session, run, SIGNALS.share, input);
    });
  });
}

/** The signal's input: `{document}` where it is signed, else the plain members of the envelope. */
async function answer(context: CliContext, gives: Gives, options: ShareOptions, text: string, run: ExpectedRun) {
  const { request, confirmed } = await readAndConfirm(context, options, gives, text, run);
  const { holder } = options;
  const key = await signingKey(context, options, holder);
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
    context.err('REHEARSAL: a value that means nothing was made and encrypted. Your key share was not asked for.');
  return { request, input: envelopeInput(envelope) };
}

/**
 * `runbook invitation`: the invitation of a run as a text to hand on, for holders who work offline or have only a browser.
 * Nothing in it is secret.
 */
function invitationCommand({ context }: CommandHost): Command {
  const command = newCommand('invitation', ['runbook invitation deployment:payments > invitation.txt']);
  return withServerOptions(withRun(command)).action(async (workflowId: string, options: ServerOptions) => {
    const { invitation } = await withSession(context, options, (session) => fetchInvitation(session, workflowId));
    const signer = namedSigner(invitation);
    const fingerprint = signer === undefined ? undefined : spokenFingerprint(signer);
    printResult(context, options, { workflowId, invitation, fingerprint }, [invitation]);
  });
}

/** Where the build puts the page, from the project's root. */
const BUILT_PAGE = join('dist', 'holder-page.html');

interface PageOptions extends CommonOptions {
  readonly output: string;
  readonly key: readonly string[];
}

/** `runbook holder-page`: writes the holder's page, for a holder who has only a browser. */
function holderPageCommand({ context }: CommandHost): Command {
  return newCommand('holder-page', [
    'runbook holder-page --output holder-page.html --key KID:KEY   (trusts the workers with this key and no others)',
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
      const hashes = { sha256: sha256(page), publishedSha256: sha256(published) };
      printResult(context, options, { file: options.output, ...hashes, fingerprints }, [
        `Holder's page: ${options.output}`,
        `SHA-256: ${hashes.sha256}`,
        `The same command gives the same file. Without what was filled in: ${hashes.publishedSha256}`,
        ...fingerprints.map((fingerprint) => `It trusts the workers' key ${fingerprint}`),
        'Give it to each holder beforehand, who compares hash and fingerprint with you by voice, and keeps the file.',
      ]);
    });
}

/** Writes the keys, which are letters and a few signs, into the page's own `meta` element: script and style stay as their hashes say. */
export function fillPage(page: string, keys: string): string {
  const empty = '<meta name="workers-keys" content="">';
  if (page.includes(empty)) return page.replace(empty, `<meta name="workers-keys" content="${keys}">`);
  throw new RunbookError('INTERNAL', "The built holder's page is damaged.", {
    next: 'Build it again: npm run build. Installed from a package: install it again.',
  });
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

async function readPublished(): Promise<string> {
  const file = join(projectRoot(), BUILT_PAGE);
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new RunbookError('NOT_FOUND', `The holder's page is not built: ${file} is missing.`, {
      next: 'Build it: npm run build. Or take holder-page.html as it is published with the release.',
    });
  }
}
