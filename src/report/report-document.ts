import type { ReportStep } from '../contracts/report';
import type { Tone } from './report-words';

/*
 * What a report says and in which order, apart from how it looks: both renderings show the same sections.
 */

/** A text of a table or list. */
export interface Cell {
  readonly text: string;
  readonly tone?: Tone;
}

export type Block =
  | { readonly kind: 'paragraph'; readonly text: string }
  | {
      readonly kind: 'list';
      readonly items: readonly { readonly label?: Cell; readonly text: string; readonly below?: string }[];
    }
  | { readonly kind: 'facts'; readonly entries: readonly { readonly name: string; readonly value: Cell }[] }
  | {
      readonly kind: 'table';
      readonly caption: string;
      readonly columns: readonly string[];
      readonly rows: readonly (readonly Cell[])[];
    }
  | { readonly kind: 'timeline' };

export interface Section {
  /** Anchor in the page. */
  readonly id: string;
  readonly title: string;
  readonly blocks: readonly Block[];
}

/** A text without judgement. */
export const plain = (text: string): Cell => ({ text });
/** A text that is good or bad news. */
export const toned = (text: string, tone: Tone): Cell => ({ text, tone });

/** How the outcome of a step or an activity is shown. */
export function outcomeCell(
  outcome: ReportStep['outcome'] | ReportStep['activities'][number]['outcome'],
  ended: boolean,
): Cell {
  switch (outcome) {
    case 'done':
      return toned('done', 'good');
    case 'already':
      return toned('already so', 'good');
    case 'not-done':
      return toned('not done', 'warning');
    case 'skipped':
      return toned('skipped', 'warning');
    case 'failed':
      return toned('failed', 'bad');
    case 'cancelled':
      return toned('cancelled', 'bad');
    case 'running':
      return ended ? toned('was under way, outcome not recorded', 'bad') : toned('running', 'neutral');
    case 'not-ordered':
      return toned('not ordered', 'neutral');
  }
}
