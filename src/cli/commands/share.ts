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
import { gatewayOrigin } from '../../documents/signed-request';
import { RunbookError } from '../../errors';
import { publicKeyOf } from '../../keys';
import { newCommand, printResult, withRun, withServerOptions, collect, workflowIdOf } from '../command';
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { fetchInvitation, readAndConfirm } from '../invitation';
import type { ExpectedRun, HolderOptions } from '../invitation';
import { NAME_OPTION, withPersonOptions, withRuns } from '../run-session';
import type { RunOptions, RunSession } from '../run-session';
import { personOf, readSecret, readTextFile, signingKey } from '../secret-input';
import { HOLDER_OPTION, giveSignal, withStatementOptions } from '../signals';
import type { StatementOptions } from '../signals';
import type { CommandHost } from '../command-host';
import { jsonText, oneLine } from '../../contracts/words';

export const commands = (host: CommandHost): Command[] => [
  givingCommand(host, 'share'),
  givingCommand(host, 'provide-token'),
  invitationCommand(host),
  holderPageCommand(host),
  approverPageCommand(host),
];

interface ShareOptions extends StatementOptions, Partial<HolderOptions> {
  readonly tokenFile?: string;
  readonly invitationFile?: string;
  /** Send an envelope that was created elsewhere. */
  readonly envelopeFile?: string;
}

type GivenShare = ShareOptions & HolderOptions;

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
    .option('--envelope-file <file>', 'send an envelope that a holder created offline; does not prompt');
  return withStatementOptions(command).action(async (word: string, given: ShareOptions) => {
    const { context } = host;
    const { envelopeFile, invitationFile, print } = given;
    if (envelopeFile !== undefined) {
      const envelope = readEnvelopeText(await readTextFile(envelopeFile));
      return withRuns(context, { ...given, name: given.holder }, word, (session, workflowId) =>
        giveSignal(host, given, session, { workflowId }, SIGNALS.share, envelope),
      );
    }
    const holder = await personOf(context, given.holder, '--holder');
    const options = { ...given, holder, name: holder };
    const inFile = invitationFile === undefined ? undefined : await readTextFile(invitationFile);
    if (inFile !== undefined && print === true) {
      const key = () => signingKey(context, options, holder);
      const { input } = await answer(context, gives, options, inFile, { workflowId: workflowIdOf(word) }, key);
      return context.out(jsonText(input));
    }
    await withRuns(context, options, word, async (session, workflowId) => {
      const fetched = inFile === undefined ? await fetchInvitation(session, workflowId) : undefined;
      const expected = fetched ? { workflowId, namespace: fetched.namespace } : await session.newest(workflowId);
      const text = fetched?.invitation ?? inFile ?? '';
      const { request, input } = await answer(context, gives, options, text, expected, (name) => session.keyOf(name));
      // Only to the run that sent the invitation: a later run must not receive the share.
      const run = { workflowId, runId: request.invitation.rid };
      await giveSignal(host, options, session, run, SIGNALS.share, input);
    });
  });
}

/** The signal's input: `{document}` if it is signed, otherwise the plain members of the envelope. */
async function answer(
  context: CliContext,
  gives: Gives,
  options: GivenShare,
  text: string,
  run: ExpectedRun,
  keyOf: RunSession['keyOf'],
) {
  const { request, confirmed } = await readAndConfirm(context, options, gives, text, run);
  const { holder } = options;
  const key = await keyOf(holder);
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
  const command = withRun(newCommand('invitation', ['runbook invitation deployment:payments > invitation.txt']));
  command.option('--name <name>', `with --gateway: ${NAME_OPTION[1]}`);
  return withPersonOptions(withServerOptions(command)).action(async (given: string, options: RunOptions) => {
    const { invitation, workflowId } = await withRuns(context, options, given, async (session, workflowId) => ({
      ...(await fetchInvitation(session, workflowId)),
      workflowId,
    }));
    const signer = namedSigner(invitation);
    const fingerprint = signer === undefined ? undefined : spokenFingerprint(signer);
    printResult(context, options, 'invitation', { workflowId, invitation, fingerprint }, [invitation]);
  });
}

interface PageOptions extends CommonOptions {
  readonly output: string;
  readonly gateway?: string;
}

interface HolderPageOptions extends PageOptions {
  readonly key: readonly string[];
}

const GATEWAY = [
  '--gateway <url>',
  "the gateway's address: the only one that this copy may connect to, such as https://runbooks.example.org:8421",
] as const;

/** `runbook holder-page`: writes the holder's page, for a holder who has only a browser. */
function holderPageCommand({ context }: CommandHost): Command {
  return newCommand('holder-page', [
    'runbook holder-page --output holder-page.html --key KID:KEY   (trusts only workers with this key)',
    'runbook holder-page --output holder-page.html --key KID:KEY --gateway https://runbooks.example.org:8421',
  ])
    .requiredOption('--output <file>', 'the file to write')
    .requiredOption(
      '--key <key>',
      'the workers\' public key "<kid>:<x>" that the page trusts (repeat for several)',
      collect,
    )
    .option(...GATEWAY)
    .action(async (options: HolderPageOptions) => {
      const trusted = options.key.map(publicKeyOf);
      const hashes = await writeCopy('holder-page', options, { keys: trusted.map(formatPublicKey).join(' ') });
      const fingerprints = trusted.map(({ kid }) => spokenFingerprint(kid));
      printResult(context, options, 'holder-page', { file: options.output, ...hashes, fingerprints }, [
        `Holder's page: ${options.output}`,
        ...hashLines(hashes, 'without keys'),
        ...fingerprints.map((fingerprint) => `It trusts the workers' key ${fingerprint}`),
        'Give it to each holder beforehand. The holder compares hash and fingerprint with you by voice, and keeps the file.',
      ]);
    });
}

/** `runbook approver-page`: writes the approver's page, for people who approve and decide with only a browser. */
function approverPageCommand({ context }: CommandHost): Command {
  return newCommand('approver-page', [
    'runbook approver-page --output approver-page.html --gateway https://runbooks.example.org:8421',
  ])
    .requiredOption('--output <file>', 'the file to write')
    .option(...GATEWAY)
    .action(async (options: PageOptions) => {
      const hashes = await writeCopy('approver-page', options, {});
      printResult(context, options, 'approver-page', { file: options.output, ...hashes }, [
        `Approver's page: ${options.output}`,
        ...hashLines(hashes, 'for any gateway'),
        'Give it to each approver beforehand. The approver compares the hash with you by voice, and keeps the file.',
      ]);
    });
}

type Hashes = Readonly<Record<'sha256' | 'publishedSha256', string>>;

const hashLines = ({ sha256, publishedSha256 }: Hashes, published: string): string[] => [
  `SHA-256: ${sha256}`,
  `The same command produces the same file. SHA-256 of the page ${published}: ${publishedSha256}`,
];

async function writeCopy(
  name: PageName,
  { output, gateway }: PageOptions,
  filled: Omit<Filled, 'gateway'>,
): Promise<Hashes> {
  const published = await readPublished(name);
  const page = fillPage(published, { ...filled, gateway: gateway === undefined ? undefined : pageGateway(gateway) });
  await writeFile(output, page);
  return { sha256: hash('sha256', page), publishedSha256: hash('sha256', published) };
}

/** The origin of a gateway, in the letters that a content security policy may name. */
function pageGateway(given: string): string {
  const origin = gatewayOrigin(given);
  if (/^https?:\/\/[a-z0-9.-]+(:\d+)?$/.test(origin)) return origin;
  throw new RunbookError('INVALID_INPUT', 'A page cannot be made for this address.', {
    observed: oneLine(origin),
    needed: 'a host name of letters, digits and hyphens, or an IPv4 address',
    next: 'Give the gateway such a name.',
  });
}

type PageName = 'holder-page' | 'approver-page';

interface Filled {
  /** Lines of public keys: letters and a few signs. */
  readonly keys?: string;
  /** An origin of letters, digits and a few signs. */
  readonly gateway?: string | undefined;
}

/** Writes what a copy is made for into its `meta` elements. Script and style keep their hashes. */
export function fillPage(page: string, { keys, gateway }: Filled): string {
  const replaced = (text: string, pattern: RegExp, by: string) => {
    if (pattern.test(text)) return text.replace(pattern, by);
    throw new RunbookError('INTERNAL', 'The built page is damaged.', {
      next: 'Build it again: npm run build. If you installed a package, install it again.',
    });
  };
  const trusting =
    keys === undefined
      ? page
      : replaced(page, /<meta name="workers-keys" content="">/, `<meta name="workers-keys" content="${keys}">`);
  if (gateway === undefined) return trusting;
  const allowing = replaced(trusting, /connect-src [^;"]{1,100};/, `connect-src ${gateway};`);
  return replaced(allowing, /<meta name="gateway" content="">/, `<meta name="gateway" content="${gateway}">`);
}

async function readPublished(name: PageName): Promise<string> {
  const file = join(projectRoot(), 'dist', `${name}.html`);
  try {
    return await readFile(file, 'utf8');
  } catch {
    throw new RunbookError('NOT_FOUND', `The page is not built: ${file} is missing.`, {
      next: `Build it: npm run build. Or use the ${name}.html that is published with the release.`,
    });
  }
}
