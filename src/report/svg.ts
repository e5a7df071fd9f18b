import { oneLine } from '../contracts/words';

/*
 * Drawings as text: elements of inline SVG. Every text is escaped, and shortened to the width that it has. Widths are those of a
 * wide font (DejaVu Sans), because the browser of the reader chooses the font: in any other one there is room left.
 */

/** Any text as HTML that shows only that text, also inside a quoted attribute. Control characters are dropped. */
export function escapedHtml(text: string): string {
  return oneLine(text).replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

type Attributes = Readonly<Record<string, string | number>>;

const round = (value: number) => Math.round(value * 10) / 10;

/** An element. Names of elements and attributes are constants, never text from a report. */
export function tag(name: string, attributes: Attributes, ...content: readonly string[]): string {
  const written = Object.entries(attributes)
    .map(([key, value]) => ` ${key}="${typeof value === 'number' ? round(value) : escapedHtml(value)}"`)
    .join('');
  return content.length === 0 ? `<${name}${written}/>` : `<${name}${written}>${content.join('')}</${name}>`;
}

/** Characters by their width in thousandths of the font size. */
const WIDTHS: readonly (readonly [width: number, characters: string])[] = [
  [300, 'ijlI|'],
  [340, " .,:;'’!/\\·"],
  [400, 'ft()[]{}-"'],
  [430, 'r`*“”'],
  [560, 'sczJ_L?F'],
  [820, 'w+=<>~#^ABCDGHKNOPQRUVX&'],
  [1_000, 'mM@%W…→'],
];
const WIDTH_OF: ReadonlyMap<string, number> = new Map(
  WIDTHS.flatMap(([width, characters]) => [...characters].map((each) => [each, width] as const)),
);
const OTHER_LETTER = 670;
/** Ideographs, emoji and whatever else may be as wide as high, or a bit wider. */
const WIDE = 1_350;

/** How wide a text may be, in the unit of its size. */
export function widthOf(text: string, size: number, bold = false): number {
  let thousandths = 0;
  for (const character of text) thousandths += WIDTH_OF.get(character) ?? otherWidth(character);
  return (thousandths / 1_000) * size * (bold ? 1.12 : 1);
}

function otherWidth(character: string): number {
  if (/^[\u0020-\u024f]$/.test(character)) return OTHER_LETTER;
  return /\p{M}/u.test(character) ? 0 : WIDE;
}

/** The text, or its beginning with an ellipsis, so that it is never wider than this. */
export function fitted(given: string, width: number, size: number, bold = false): string {
  const text = oneLine(given).trim();
  if (widthOf(text, size, bold) <= width) return text;
  const kept: string[] = [];
  let used = widthOf('…', size, bold);
  for (const character of text) {
    used += widthOf(character, size, bold);
    if (used > width) break;
    kept.push(character);
  }
  return `${kept.join('').trimEnd()}…`;
}

interface Label {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly size: number;
  readonly bold?: boolean;
  readonly anchor?: 'start' | 'middle' | 'end';
  /** Constants of the page's style, never text from a report. */
  readonly className?: string;
}

/** A line of text that stays within its width. What was cut off is shown when it is pointed at. */
export function label(text: string, { x, y, width, size, bold = false, anchor, className = '' }: Label): string {
  const shown = fitted(text, width, size, bold);
  const complete = shown === oneLine(text).trim() ? [] : [tag('title', {}, escapedHtml(text))];
  const attributes = {
    ...{ x, y, 'font-size': size, class: className },
    ...(bold && { 'font-weight': 650 }),
    ...(anchor !== undefined && { 'text-anchor': anchor }),
  };
  return tag('text', attributes, ...complete, escapedHtml(shown));
}

interface Drawing {
  /** Unique in its page. */
  readonly id: string;
  readonly title: string;
  /** All that the drawing says, as sentences, for people who do not see it. */
  readonly description: string;
  readonly width: number;
  readonly height: number;
  readonly className: string;
}

/** A drawing as one picture with a name and a description. */
export function drawing({ id, title, description, width, height, className }: Drawing, ...content: string[]): string {
  return tag(
    'svg',
    {
      ...{ viewBox: `0 0 ${round(width)} ${round(height)}`, class: className, role: 'img' },
      'aria-labelledby': `${id}-title ${id}-text`,
    },
    tag('title', { id: `${id}-title` }, escapedHtml(title)),
    tag('desc', { id: `${id}-text` }, escapedHtml(description)),
    ...content,
  );
}
