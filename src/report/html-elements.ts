import { oneLine, pieces } from '../contracts/words';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Any text as HTML that shows it and nothing else, also inside a quoted attribute. Control characters are dropped. */
export function escapedHtml(text: string): string {
  return oneLine(text).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/** An element with escaped text. `className` is ours, never from a report. */
export function element(name: string, text: string, className?: string): string {
  const attribute = className === undefined || className === '' ? '' : ` class="${className}"`;
  return `<${name}${attribute}>${escapedHtml(text)}</${name}>`;
}

/** A text of ours with its commands as code, which one click marks whole. */
export function textHtml(text: string): string {
  return pieces(text)
    .map((piece) => (piece.code ? element('code', piece.text) : escapedHtml(piece.text)))
    .join('');
}
