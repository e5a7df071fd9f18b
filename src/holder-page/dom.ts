import { isRunbookError } from '../errors';

/** The element of the page with this ID, of the class that the caller needs. */
export function byId<T extends HTMLElement>(id: string, kind: new () => T): T {
  const found = document.getElementById(id);
  if (found instanceof kind) return found;
  throw new Error(`The page has no ${kind.name} "${id}".`);
}

/** A new element with text and classes. Text never becomes markup. */
export function element(name: string, text = '', classes = ''): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  if (classes !== '') made.className = classes;
  return made;
}

/** Writes `text` into every element of a class. */
export function fillAll(className: string, text: string): void {
  for (const each of document.querySelectorAll(`.${className}`)) each.textContent = text;
}

/** A box with paragraphs; the first one is what must be read. */
export function box(tone: 'good' | 'warn' | 'bad', lines: readonly string[]): HTMLElement {
  const made = element('div', '', `box ${tone}`);
  lines.forEach((line, index) => {
    const paragraph = element('p');
    paragraph.append(index === 0 ? element('b', line) : line);
    made.append(paragraph);
  });
  return made;
}

/** What an error says to a person: never a text that the page did not write itself. */
export function linesOf(error: unknown): readonly string[] {
  if (!isRunbookError(error)) return ['Something went wrong on this page. Start again, or use the terminal.'];
  const { message, observed, needed, next } = error;
  return [
    message,
    ...(observed === undefined ? [] : [`Here: ${observed}.`]),
    ...(needed === undefined ? [] : [`Needed: ${needed}.`]),
    ...(next === undefined ? [] : [next]),
  ];
}

/**
 * Empties a field so that neither its value nor its undo history is left: a new field takes its place.
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
