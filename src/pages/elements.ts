/** The elements of the pages: what both pages show, and how. Text never becomes markup. */
import { pieces } from '../contracts/words';
import { isRunbookError, RunbookError } from '../errors';
import { readHolderKey } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import { Secret } from '../secret';

export const input = (id: string) => byId(id, HTMLInputElement);
export const area = (id: string) => byId(id, HTMLTextAreaElement);
export const button = (id: string) => byId(id, HTMLButtonElement);
export const part = (id: string) => byId(id, HTMLElement);

/** What was written into this copy of the page when it was created. All of it is public. The page ignores its own URL. */
export const written = (name: string) => document.querySelector(`meta[name="${name}"]`)?.getAttribute('content') ?? '';

/** The element with this ID, checked to be of the class that the caller needs. */
export function byId<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (found instanceof kind) return found;
  throw new Error(`The page has no ${kind.name} "${id}".`);
}

/** A new element with text and classes. */
export function element(name: string, text = '', classes = ''): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  if (classes !== '') made.className = classes;
  return made;
}

/** A new element with a text of ours, in which commands are in backticks. */
export function prose(name: string, text: string, classes = ''): HTMLElement {
  const made = element(name, '', classes);
  made.append(...pieces(text).map((piece) => (piece.code ? element('code', piece.text) : piece.text)));
  return made;
}

/** A box with paragraphs; the first one is emphasized. */
export function box(tone: 'good' | 'warn' | 'bad', lines: readonly string[]): HTMLElement {
  const made = element('div', '', `box ${tone}`);
  lines.forEach((line, index) => {
    const paragraph = element('p');
    paragraph.append(index === 0 ? prose('b', line) : prose('span', line));
    made.append(paragraph);
  });
  return made;
}

/** A fact of a list of facts. The first line is the fact and the others explain it, unless all are `even`. */
export function fact(
  label: string,
  lines: readonly string[],
  { warning = false, even = false }: { readonly warning?: boolean | undefined; readonly even?: boolean } = {},
): HTMLElement {
  const row = element('div', '', warning ? 'warn' : '');
  row.append(element('dt', warning ? `! ${label}` : label));
  row.append(...lines.map((line, index) => element('dd', line, index === 0 || even ? 'first' : 'more')));
  return row;
}

export function factList(facts: readonly HTMLElement[]): HTMLElement {
  const list = element('dl');
  list.append(...facts);
  return list;
}

/** Facts that are shown on demand. */
export function folded(summary: string, facts: readonly HTMLElement[]): HTMLElement {
  const details = element('details');
  details.append(element('summary', summary), factList(facts));
  return details;
}

/** An error as lines for a person. Never shows a text that the page did not write itself, or a gateway's error. */
export function linesOf(error: unknown): readonly string[] {
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
export function emptied<T extends HTMLInputElement | HTMLTextAreaElement>(field: T): T {
  field.value = '';
  const fresh = field.cloneNode(false) as T;
  fresh.value = '';
  field.replaceWith(fresh);
  return fresh;
}

/** Replaces every field of the page with an empty one. */
export function emptyAll(): void {
  for (const field of document.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea'))
    emptied(field);
}

/** Shows one of the four steps, and moves the focus to its heading. */
export function show(step: number): void {
  for (const each of [1, 2, 3, 4]) part(`step-${each}`).hidden = each !== step;
  for (const messages of document.querySelectorAll('.message')) messages.replaceChildren();
  const heading = part(`step-${step}`).querySelector('h2');
  heading?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

/** Runs `work` when a button is pressed, and shows its error in the element `messages`. */
export function whenPressed(pressed: HTMLButtonElement, messages: HTMLElement, work: () => Promise<void>): void {
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

/** Sets the title: what the person must know at first sight, whatever else they read. */
export function setTitle(title: string, warning: boolean): void {
  document.title = title;
  part('title').textContent = title;
  part('title').className = warning ? 'box warn' : '';
}

/** Copies the text of a field; if the browser does not let the page do it, selects the text. */
export async function copyFrom(field: HTMLTextAreaElement): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(field.value);
    return true;
  } catch {
    field.select();
    return false;
  }
}

/** A box that says whether {@link copyFrom} copied. */
export function copyResult(copied: boolean, also = ''): HTMLElement {
  return copied
    ? box('good', [`Copied.${also}`])
    : box('bad', ['This browser does not let the page copy. The complete text is selected: copy it manually.']);
}

/**
 * Opens the key of the person in front of the page, from a file and its passphrase.
 *
 * @param pasted content of the file, if it was pasted instead
 * @returns undefined if they gave neither file nor passphrase
 * @throws RunbookError `INVALID_INPUT` if one of the two is missing; see also {@link readHolderKey}
 */
export async function openKey(
  fileField: HTMLInputElement,
  passphraseField: HTMLInputElement,
  pasted = '',
): Promise<SigningKey | undefined> {
  const [file] = fileField.files ?? [];
  const passphrase = passphraseField.value.trim();
  const text = file === undefined ? pasted.trim() : await file.text();
  if (text !== '' && passphrase !== '') return readHolderKey(text, new Secret('passphrase', passphrase));
  if (text === '' && passphrase === '') return undefined;
  throw new RunbookError('INVALID_INPUT', `The ${text ? 'passphrase' : 'file'} of the signing key is missing.`, {
    next: 'Give both the file and the passphrase. If the operators list no public key for you, give neither.',
  });
}

/**
 * Why no page may be used here; undefined if it may be used.
 *
 * @param command that does the same in a terminal
 */
export async function whyUnusable(command: string): Promise<readonly string[] | undefined> {
  if (window.top !== window)
    return ['This page is shown inside another page. Do not use it here.', 'Open the saved file directly.'];
  // The server's operator, or anybody in between, could change the page and read what is typed.
  if (/^https?:$/.test(location.protocol))
    return [
      `This page came from a server, ${location.host}, which can change it at any time. Do not use it here.`,
      'Save the file, compare its SHA-256 with the published value, then open the saved file.',
    ];
  try {
    await crypto.subtle.generateKey('Ed25519', false, ['sign', 'verify']);
    return undefined;
  } catch {
    return [
      'This browser is too old: it cannot verify signatures (Ed25519).',
      `Use Chrome or Edge 137, Firefox 130, Safari 17, or newer. Or use the terminal: ${command}.`,
    ];
  }
}

/** Has Enter press a button in each field, all buttons of class `again` start over, and nothing come back with the page. */
export function behave(enter: Readonly<Record<string, string>>, startOver: () => void): void {
  for (const each of document.querySelectorAll('.again')) {
    each.addEventListener('click', () => {
      startOver();
      show(1);
    });
  }
  document.addEventListener('keydown', ({ key, target }) => {
    const pressed = key === 'Enter' && target instanceof HTMLElement ? enter[target.id] : undefined;
    if (pressed !== undefined) button(pressed).click();
  });
  // The browser's back button must not bring anything back for the next person.
  window.addEventListener('pagehide', startOver);
}
