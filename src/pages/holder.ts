/** The holder's page: four steps, shown one at a time. All decisions about documents are made in `src/documents`. */
import './without-eval';
import { RunbookError } from '../errors';
import {
  answerRequest,
  asksForRecoveryShare,
  asksForToken,
  confirmationOf,
  demandSigningKey,
  mustSign,
  requestFacts,
  requestSummary,
  verifyRequest,
} from '../documents/ceremony-request';
import { envelopeInput, noShareWanted } from '../documents/envelope';
import { parseShare } from '../documents/key-shares';
import { findInvitation, namedSigner } from '../documents/invitation';
import { parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import type { CeremonyRequest } from '../documents/ceremony-request';
import type { SigningKey } from '../documents/signing-keys';
import type { MailboxAccess } from '../documents/mailbox';
import { gatewayOrigin } from '../documents/signed-request';
import type { Secret } from '../secret';
import { receiptText } from '../words/status';
import {
  area,
  behave,
  box,
  button,
  byId,
  copyFrom,
  copyResult,
  element,
  emptied,
  emptyAll,
  fact,
  input,
  linesOf,
  openKey,
  part,
  setTitle,
  show,
  whenPressed,
  whyUnusable,
  written,
} from './elements';
import { askWaiting, isInvitation, sendDocument } from './gateway';

interface Session {
  readonly request: CeremonyRequest;
  readonly holder: string;
}

const TITLE = 'Answer an invitation';
/** All of it is public. */
const madeFor = {
  /** The workers' keys that this page trusts. */
  keys: written('workers-keys')
    .split(' ')
    .flatMap((line) => parsePublicKey(line) ?? []),
  version: written('version'),
  /** The origin of the one gateway that the policy of this copy allows; empty if there is none. */
  gateway: written('gateway'),
};
/** The button that Enter presses in each field. */
const ENTER: Readonly<Record<string, string>> = {
  holder: 'check',
  cluster: 'agree',
  share: 'encrypt',
  passphrase: 'encrypt',
  'fetch-passphrase': 'fetch',
};
let session: Session | undefined;
/** The holder's own key, once they opened it. */
let ownKey: SigningKey | undefined;
/** The envelope, while it can be sent. */
let made: string | undefined;

function current(): Session {
  if (session === undefined) {
    throw new RunbookError('INVALID_INPUT', 'The page was cleared.', { next: 'Press "Start again".' });
  }
  if (Date.now() < session.request.invitation.exp * 1000) return session;
  throw new RunbookError('DOCUMENT_INVALID', 'The invitation has expired.', {
    needed: 'the current invitation',
    next: 'Get the current invitation from the run, then press "Start again".',
  });
}

async function check(): Promise<void> {
  const holder = input('holder').value.trim();
  const request = await verifyPasted(area('invitation').value, holder);
  session = { request, holder };
  emptied(area('invitation'));
  part('who').textContent = holder;
  showRequest(request);
  showSigning(mustSign(request, holder));
  show(2);
}

/**
 * Verifies the invitation with the keys that this page trusts.
 *
 * @throws RunbookError `INVALID_INPUT` if something is missing, `DOCUMENT_INVALID` if the holder must stop.
 */
async function verifyPasted(text: string, holder: string): Promise<CeremonyRequest> {
  const jws = findInvitation(text);
  const signer = namedSigner(jws);
  if (!madeFor.keys.some(({ kid }) => kid === signer))
    throw new RunbookError(
      'DOCUMENT_INVALID',
      'STOP. Do not type your key share. This invitation is not signed with the key that you trust.',
      {
        observed: signer === undefined ? 'no readable signer' : `signed with ${spokenFingerprint(signer)}`,
        needed: `signed with ${madeFor.keys.map(({ kid }) => spokenFingerprint(kid)).join(', or ')}`,
        next: 'Call the operators at a number that you already know. Do not call the sender of the invitation. Only if the operators tell you that the workers have a new key: compare its fingerprint by voice, write it down, and use a page made for that key.',
      },
    );
  if (holder === '') throw nameMissing();
  const pins = madeFor.keys.map((key) => ({ environment: '', ...key }));
  return verifyRequest(jws, { pins, now: Date.now(), holder });
}

function nameMissing(): RunbookError {
  return new RunbookError('INVALID_INPUT', 'Your name is missing.', {
    needed: 'your name, exactly as the operators list it',
    next: 'Type your name, then press the button again.',
  });
}

/** Asks the gateway what waits for the holder. One invitation is checked at once; of several they choose one. */
async function fetchInvitation(): Promise<void> {
  const name = input('holder').value.trim();
  if (name === '') throw nameMissing();
  const key = await openKey(input('fetch-key-file'), input('fetch-passphrase'));
  if (key === undefined)
    throw new RunbookError('INVALID_INPUT', 'The gateway answers only who signs: your key is missing.', {
      needed: 'the key file that "runbook join" created for you, and its passphrase',
      next: 'Give both. Without a key, paste the invitation that the operators sent you.',
    });
  const { items, warnings } = await askWaiting({ origin: madeFor.gateway, name, key });
  const invited = items.filter(isInvitation);
  if (invited.length === 0)
    throw new RunbookError('NOT_FOUND', 'You are not asked for anything now.', {
      next: 'If a message says that you are asked, call the operators, at a number that you already know.',
    });
  ownKey = key;
  for (const id of ['fetch-passphrase', 'fetch-key-file']) emptied(input(id));
  part('warnings').replaceChildren(...warnings.map((text) => box('warn', [text])));
  const answer = async (invitation: string) => {
    area('invitation').value = invitation;
    await check();
  };
  const [only, another] = invited;
  if (only !== undefined && another === undefined) return answer(only.invitation);
  const choices = invited.map(({ deployment, runbook, reason = '', invitation }) => {
    const choice = element('button', `${deployment}: ${runbook}. ${reason}`) as HTMLButtonElement;
    choice.type = 'button';
    whenPressed(choice, part('error-fetch'), () => answer(invitation));
    return choice;
  });
  part('found').replaceChildren(element('p', 'You are asked more than once. Choose one:'), ...choices);
}

function showRequest(request: CeremonyRequest): void {
  const facts = requestFacts(request, Date.now());
  const rows = (technical: boolean) =>
    facts
      .filter((each) => (each.technical === true) === technical)
      .map(({ label, lines, warning }) => fact(label, lines, { warning }));
  part('facts').replaceChildren(...rows(false));
  part('more-facts').replaceChildren(...rows(true));
  part('cluster-label').textContent = `To continue, type ${confirmationOf(request).what}`;
  for (const each of document.querySelectorAll('.summary'))
    each.replaceChildren(...requestSummary(request).map((line) => element('p', line)));
  const { wid, ns, rid } = request.invitation;
  part('workflow').textContent = wid;
  part('namespace').textContent = ns;
  part('run').textContent = rid;
  const rehearsal = request.kind === 'rehearsal';
  const token = asksForToken(request);
  const mine = asksForRecoveryShare(request) ? 'recovery key share' : 'key share';
  const title = token ? 'Do not type your key share here' : `Give your ${mine}`;
  part('share-label').textContent = `Your ${mine}`;
  setTitle(rehearsal ? 'REHEARSAL: do not type your key share' : title, rehearsal || token);
  part('confirm').hidden = token;
  if (token) part('facts').prepend(box('warn', linesOf(noShareWanted())));
  for (const each of document.querySelectorAll<HTMLElement>('.ceremony')) each.hidden = rehearsal;
  for (const each of document.querySelectorAll<HTMLElement>('.rehearsal')) each.hidden = !rehearsal;
}

/** What a holder with only this browser must know before they type a share that would not count. */
function showSigning(needed: boolean): void {
  part('must-sign').hidden = !needed || ownKey !== undefined;
  part('signing').hidden = ownKey !== undefined;
  part('signed').hidden = ownKey === undefined;
  byId('signing', HTMLDetailsElement).open = needed;
  part('signing-hint').textContent = needed
    ? 'Required: the operators list a public key for you.'
    : 'Needed only if the operators have listed a public key for you. Otherwise, skip this.';
}

async function agree(): Promise<void> {
  const { request } = current();
  if (!confirmationOf(request).wanted.includes(input('cluster').value.trim())) {
    throw new RunbookError('INVALID_INPUT', 'The name does not match the invitation.', {
      next: 'Read the name above and type exactly that. If you expected another name, stop and call the operators.',
    });
  }
  show(3);
  if (request.kind === 'ceremony') input('share').focus({ preventScroll: true });
}

async function encrypt(): Promise<void> {
  const { request, holder } = current();
  demandSigningKey(request, holder, ownKey !== undefined || input('key-file').files?.length === 1);
  if (request.kind === 'ceremony') readShare();
  ownKey ??= await openKey(input('key-file'), input('passphrase'));
  const envelope = await answerRequest(request, {
    ...{ holder, share: readShare, tool: `holder page ${madeFor.version}`.trim() },
    signingKey: ownKey,
  });
  clearSecrets();
  area('envelope').value = JSON.stringify(envelopeInput(envelope));
  made = typeof envelope === 'string' ? envelope : undefined;
  const sendable = madeFor.gateway !== '' && made !== undefined;
  part('send-part').hidden = !sendable;
  byId('copy-part', HTMLDetailsElement).open = !sendable;
  part('last').textContent = sendable ? 'Send the envelope' : 'Copy the envelope';
  show(4);
}

/** Sends the envelope through the gateway, and shows the run's receipt. */
async function send(): Promise<void> {
  const { request, holder } = current();
  const { ns: namespace, wid: workflowId, rid: runId } = request.invitation;
  if (ownKey === undefined || made === undefined) return;
  const access: MailboxAccess = { origin: madeFor.gateway, name: holder, key: ownKey };
  const receipt = await sendDocument(access, { namespace, workflowId, runId }, 'share', made);
  const text = receipt && receiptText(receipt);
  const lines = text
    ? [`${text.title}${text.text}`]
    : ['Sent. The run has not answered yet.', 'Press the button again in a minute: the same envelope counts once.'];
  part('receipt').replaceChildren(box(!receipt ? 'warn' : receipt.verdict === 'accepted' ? 'good' : 'bad', lines));
}

const readShare = (): Secret<'key-share'> => parseShare(input('share').value);

/** Replaces every secret field with an empty one, so that neither its value nor its undo history is left. */
function clearSecrets(): void {
  for (const id of ['share', 'passphrase', 'key-file']) emptied(input(id));
  reveal(false);
}

function clearAll(): void {
  session = ownKey = made = undefined;
  emptyAll();
  reveal(false);
  for (const id of ['who', 'facts', 'more-facts', 'copied', 'receipt', 'found', 'workflow', 'namespace', 'run'])
    part(id).replaceChildren();
  byId('technical', HTMLDetailsElement).open = false;
  setTitle(TITLE, false);
  for (const each of document.querySelectorAll('.summary')) each.replaceChildren();
}

async function copy(): Promise<void> {
  const copied = await copyFrom(area('envelope'));
  if (copied) emptied(area('invitation'));
  part('copied').replaceChildren(copyResult(copied, ' Your secrets are cleared from this page.'));
}

function reveal(shown: boolean): void {
  input('share').type = shown ? 'text' : 'password';
  button('reveal').textContent = shown ? 'Hide' : 'Show';
  button('reveal').setAttribute('aria-pressed', String(shown));
}

const NO_KEY = [
  'This page trusts no key, so it cannot verify an invitation.',
  'Ask the operators for your copy. They create it with: runbook holder-page --output FILE --key KID:KEY',
];

async function begin(): Promise<void> {
  const unusable = (await whyUnusable('runbook share')) ?? (madeFor.keys.length === 0 ? NO_KEY : undefined);
  if (unusable) {
    part('warnings').append(box('bad', unusable));
    return;
  }
  clearAll();
  part('trusted').append(...madeFor.keys.map(({ kid }) => element('p', spokenFingerprint(kid), 'fingerprint code')));
  if (madeFor.gateway !== '') namesGateway(gatewayOrigin(madeFor.gateway));
  whenPressed(button('check'), part('error-1'), check);
  whenPressed(button('fetch'), part('error-fetch'), fetchInvitation);
  whenPressed(button('agree'), part('error-2'), agree);
  whenPressed(button('encrypt'), part('error-3'), encrypt);
  whenPressed(button('send'), part('error-4'), send);
  button('copy').addEventListener('click', () => void copy());
  button('reveal').addEventListener('click', () => reveal(input('share').type === 'password'));
  behave(ENTER, clearAll);
  part('step-1').hidden = false;
}

/** What a page says that was made for a gateway. */
function namesGateway(origin: string): void {
  part('fetch-part').hidden = false;
  part('first').textContent = 'Get or paste the invitation';
  part('progress').textContent =
    `Your key share leaves this device only encrypted. This page can send to ${origin} and nowhere else.`;
  part('network').textContent = `It can reach ${origin} and nothing else.`;
  for (const each of document.querySelectorAll('.gateway')) each.textContent = origin;
}

void begin();
