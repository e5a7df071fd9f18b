/** The holder's page: four steps, shown one at a time. All decisions about documents are made in `src/documents`. */
import './without-eval';
import { isRunbookError, RunbookError } from '../errors';
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
import { readHolderKey } from '../documents/signing-keys';
import { findInvitation, namedSigner } from '../documents/invitation';
import { parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import type { CeremonyRequest } from '../documents/ceremony-request';
import type { SigningKey } from '../documents/signing-keys';
import { Secret } from '../secret';

interface Session {
  readonly request: CeremonyRequest;
  readonly holder: string;
}

const TITLE = 'Answer an invitation';
const written = (name: string) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content') ?? '';
/**
 * What was written into this copy of the page when it was created. All of it is public. The page ignores its own URL.
 */
const madeFor = {
  /** The workers' keys that this page trusts. */
  keys: written('workers-keys')
    .split(' ')
    .flatMap((line) => parsePublicKey(line) ?? []),
  version: written('version'),
};
/** The button that Enter presses in each field. */
const ENTER: Readonly<Record<string, string>> = {
  holder: 'check',
  cluster: 'agree',
  share: 'encrypt',
  passphrase: 'encrypt',
};
let session: Session | undefined;

const input = (id: string) => byId(id, HTMLInputElement);
const area = (id: string) => byId(id, HTMLTextAreaElement);
const button = (id: string) => byId(id, HTMLButtonElement);
const part = (id: string) => byId(id, HTMLElement);

function show(step: number): void {
  for (const each of [1, 2, 3, 4]) part(`step-${each}`).hidden = each !== step;
  for (const each of [1, 2, 3]) part(`error-${each}`).replaceChildren();
  const heading = part(`step-${step}`).querySelector('h2');
  heading?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

/** Runs `work` when a button is pressed, and shows its error below the button. */
function whenPressed(id: string, step: number, work: () => Promise<void>): void {
  const pressed = button(id);
  const messages = part(`error-${step}`);
  pressed.addEventListener('click', () => {
    messages.replaceChildren();
    pressed.disabled = true;
    // Let the browser draw the disabled button before the work blocks it.
    requestAnimationFrame(() =>
      setTimeout(() => {
        work()
          .catch((error: unknown) => {
            messages.replaceChildren(box('bad', linesOf(error)));
            messages.scrollIntoView({ block: 'nearest' });
          })
          .finally(() => (pressed.disabled = false));
      }),
    );
  });
}

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
  if (holder === '')
    throw new RunbookError('INVALID_INPUT', 'Your name is missing.', {
      needed: 'your name, exactly as the operators list it',
      next: 'Type your name, then press "Check the invitation" again.',
    });
  const pins = madeFor.keys.map((key) => ({ environment: '', ...key }));
  return verifyRequest(jws, { pins, now: Date.now(), holder });
}

function showRequest(request: CeremonyRequest): void {
  const rows = requestFacts(request, Date.now()).map(({ label, lines, warning }) => {
    const row = element('div', '', warning ? 'warn' : '');
    row.append(element('dt', warning ? `! ${label}` : label));
    lines.forEach((line, index) => row.append(element('dd', line, index === 0 ? 'first' : 'more')));
    return row;
  });
  part('facts').replaceChildren(...rows);
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
  part('must-sign').hidden = !needed;
  byId('signing', HTMLDetailsElement).open = needed;
  part('signing-hint').textContent = needed
    ? 'Required: the operators list a public key for you.'
    : 'Needed only if the operators have listed a public key for you. Otherwise, skip this.';
}

/** Sets the title: what the holder must know at first sight, whatever else they read. */
function setTitle(title: string, warning: boolean): void {
  document.title = title;
  part('title').textContent = title;
  part('title').className = warning ? 'box warn' : '';
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
  demandSigningKey(request, holder, input('key-file').files?.length === 1);
  if (request.kind === 'ceremony') readShare();
  const envelope = await answerRequest(request, {
    ...{ holder, share: readShare, tool: `holder page ${madeFor.version}`.trim() },
    signingKey: await signingKey(),
  });
  clearSecrets();
  area('envelope').value = JSON.stringify(envelopeInput(envelope));
  show(4);
}

const readShare = (): Secret<'key-share'> => parseShare(input('share').value);

async function signingKey(): Promise<SigningKey | undefined> {
  const [file] = input('key-file').files ?? [];
  const passphrase = input('passphrase').value.trim();
  if (file !== undefined && passphrase !== '')
    return readHolderKey(await file.text(), new Secret('passphrase', passphrase));
  if (file === undefined && passphrase === '') return undefined;
  throw new RunbookError('INVALID_INPUT', `The ${file ? 'passphrase' : 'file'} of the signing key is missing.`, {
    next: 'Give both the file and the passphrase. If the operators list no public key for you, give neither.',
  });
}

/** Replaces every secret field with an empty one, so that neither its value nor its undo history is left. */
function clearSecrets(): void {
  for (const id of ['share', 'passphrase', 'key-file']) emptied(input(id));
  reveal(false);
}

function clearAll(): void {
  session = undefined;
  for (const field of document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea'))
    emptied(field);
  reveal(false);
  for (const id of ['who', 'facts', 'copied', 'workflow', 'namespace', 'run']) part(id).replaceChildren();
  setTitle(TITLE, false);
  for (const each of document.querySelectorAll('.summary')) each.replaceChildren();
}

async function copy(): Promise<void> {
  const envelope = area('envelope');
  const showResult = (tone: 'good' | 'bad', text: string) => part('copied').replaceChildren(box(tone, [text]));
  try {
    await navigator.clipboard.writeText(envelope.value);
  } catch {
    envelope.select();
    showResult('bad', 'This browser does not let the page copy. The complete text is selected: copy it manually.');
    return;
  }
  emptied(area('invitation'));
  showResult('good', 'Copied. Your secrets are cleared from this page.');
}

function reveal(shown: boolean): void {
  input('share').type = shown ? 'text' : 'password';
  button('reveal').textContent = shown ? 'Hide' : 'Show';
  button('reveal').setAttribute('aria-pressed', String(shown));
}

/** Why the page must not be used here; undefined if it may be used. */
async function whyUnusable(): Promise<readonly string[] | undefined> {
  if (window.top !== window)
    return ['This page is shown inside another page. Do not use it here.', 'Open the saved file directly.'];
  // The server's operator, or anybody in between, could change the page and read the share.
  if (/^https?:$/.test(location.protocol))
    return [
      `This page came from a server, ${location.host}, which can change it at any time. Do not use it here.`,
      'Save the file, compare its SHA-256 with the published value, then open the saved file.',
    ];
  if (madeFor.keys.length === 0)
    return [
      'This page trusts no key, so it cannot verify an invitation.',
      'Ask the operators for your copy. They create it with: runbook holder-page --output FILE --key KID:KEY',
    ];
  try {
    await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    return undefined;
  } catch {
    return [
      'This browser is too old: it cannot verify signatures (Ed25519).',
      'Use Chrome or Edge 137, Firefox 130, Safari 17, or newer. Or use the terminal: runbook share.',
    ];
  }
}

async function begin(): Promise<void> {
  const unusable = await whyUnusable();
  if (unusable) {
    part('warnings').append(box('bad', unusable));
    return;
  }
  clearAll();
  part('trusted').append(...madeFor.keys.map(({ kid }) => element('p', spokenFingerprint(kid), 'fingerprint code')));
  whenPressed('check', 1, check);
  whenPressed('agree', 2, agree);
  whenPressed('encrypt', 3, encrypt);
  button('copy').addEventListener('click', () => void copy());
  button('reveal').addEventListener('click', () => reveal(input('share').type === 'password'));
  for (const each of document.querySelectorAll('.again')) {
    each.addEventListener('click', () => {
      clearAll();
      show(1);
    });
  }
  document.addEventListener('keydown', ({ key, target }) => {
    const pressed = key === 'Enter' && target instanceof HTMLElement ? ENTER[target.id] : undefined;
    if (pressed !== undefined) button(pressed).click();
  });
  // The browser's back button must not bring anything back for the next person.
  window.addEventListener('pagehide', clearAll);
  part('step-1').hidden = false;
}

/* The elements of the page. */

/** The element with this ID, checked to be of the class that the caller needs. */
function byId<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (found instanceof kind) return found;
  throw new Error(`The page has no ${kind.name} "${id}".`);
}

/** A new element with text and classes. Text never becomes markup. */
function element(name: string, text = '', classes = ''): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  if (classes !== '') made.className = classes;
  return made;
}

/** A box with paragraphs; the first one is emphasized. */
function box(tone: 'good' | 'warn' | 'bad', lines: readonly string[]): HTMLElement {
  const made = element('div', '', `box ${tone}`);
  lines.forEach((line, index) => {
    const paragraph = element('p');
    paragraph.append(index === 0 ? element('b', line) : line);
    made.append(paragraph);
  });
  return made;
}

/** An error as lines for a person. Never shows a text that the page did not write itself. */
function linesOf(error: unknown): readonly string[] {
  if (!isRunbookError(error)) return ['Something went wrong on this page. Start again, or use the terminal.'];
  const { message, observed, needed, next } = error;
  return [
    message,
    ...(observed === undefined ? [] : [`Found: ${observed}.`]),
    ...(needed === undefined ? [] : [`Needed: ${needed}.`]),
    ...(next === undefined ? [] : [next]),
  ];
}

/**
 * Replaces a field with a new, empty one, so that neither its value nor its undo history is left.
 *
 * @returns the new field.
 */
function emptied<T extends HTMLInputElement | HTMLTextAreaElement>(field: T): T {
  field.value = '';
  const fresh = field.cloneNode(false) as T;
  fresh.value = '';
  field.replaceWith(fresh);
  return fresh;
}

void begin();
