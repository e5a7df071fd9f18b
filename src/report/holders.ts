import type { Report } from '../contracts/report';
import type { RunFacts } from './facts';
import { isoTime } from './history-values';

type ReportHolder = NonNullable<Report['holders']>[number];
type Receipt = RunFacts['receipts'][number];

/** Who was asked for a key share and when, who declined, who gave: one line for each holder and epoch. */
export function holdersOf({ holdersAsked, receipts }: RunFacts): { readonly holders?: readonly ReportHolder[] } {
  const epochs = [...new Set(holdersAsked.map(({ epoch }) => epoch))];
  const holders = epochs.flatMap((epoch) => {
    const asked = holdersAsked.filter((fact) => fact.epoch === epoch);
    const began = Math.min(...asked.map(({ at }) => at));
    const next = holdersAsked.find((fact) => fact.epoch > epoch);
    const within = receipts.filter(({ at }) => at >= began && (next === undefined || at < next.at));
    const accepted = (signal: Receipt['signal'], name: string) =>
      within.findLast((each) => each.signal === signal && each.verdict === 'accepted' && each.from?.name === name);
    const named = asked.flatMap((fact) => fact.names.map((name) => ({ name, fact })));
    const early = within
      .flatMap(({ from, verdict, signal }) =>
        from && verdict === 'accepted' && (signal === 'share' || signal === 'decline') ? [from.name] : [],
      )
      .filter((name, index, all) => all.indexOf(name) === index && !named.some((each) => each.name === name));
    return [...named, ...early.map((name) => ({ name, fact: undefined }))].map(({ name, fact }): ReportHolder => {
      const gave = accepted('share', name);
      const declined = accepted('decline', name);
      return {
        name,
        epoch,
        // Who answered without being asked was invited, and stood by.
        as: fact?.as ?? 'stand-by',
        ...(fact && { askedAt: isoTime(fact.at), why: fact.why }),
        ...(declined?.from && { declined: { at: isoTime(declined.at), how: declined.from.how, text: declined.text } }),
        ...(gave?.from && { gave: { at: isoTime(gave.at), how: gave.from.how } }),
      };
    });
  });
  return holders.length === 0 ? {} : { holders };
}
