import { escapeMarkdown, escapeUntrusted } from './words';

/** The server refuses longer ones: 400 and 20,000 bytes. What people wrote may take up to four bytes a character. */
const MOST_SUMMARY = 95;
const MOST_TEXT = 1_000;

/** Members of an input that say what a run is about: between which clusters, or on which one. */
const DIRECTION = [
  ['from', 'from'],
  ['primary', 'primary'],
  ['to', 'to'],
  ['secondary', 'secondary'],
  ['cluster', 'cluster'],
] as const;

/**
 * What Temporal's Web UI shows of a run before a worker has picked it up, and beside what the run itself says later. Whoever
 * starts a run chooses these words: nothing relies on them.
 *
 * @param more - another fact, such as who started it
 */
export function startMetadata(runbook: string, input: object, more?: string) {
  const given = input as Readonly<Record<string, unknown>>;
  const textOf = (name: string) => {
    const value = given[name];
    return typeof value === 'string' && value.trim() !== '' ? value.slice(0, MOST_TEXT) : undefined;
  };
  const direction = DIRECTION.flatMap(([name, word]) => {
    const cluster = textOf(name);
    return cluster === undefined ? [] : [`${word} ${cluster}`];
  }).join(', ');
  const of = textOf('deployment');
  const summary = [runbook, of && `of ${of}`, direction && `(${direction})`, more && `, ${more}`];
  const requester = textOf('requestedBy');
  const facts = [
    ['Reason', textOf('reason')],
    ['Requested by', requester === undefined ? undefined : `${requester}, as claimed at the start; unverified`],
    ['Direction', direction === '' ? undefined : direction],
    ['Ticket', textOf('ticket')],
    ['Started', more],
    ['Only a plan', given['dryRun'] === true ? 'changes no cluster' : undefined],
  ] as const;
  return {
    staticSummary: escapeUntrusted(summary.filter(Boolean).join(' ').replace(' ,', ',')).slice(0, MOST_SUMMARY).trim(),
    staticDetails: facts
      .flatMap(([name, value]) => (value === undefined ? [] : [`**${name}**: ${escapeMarkdown(value)}`]))
      .join('\n\n'),
  };
}
