import type { RosterActivities } from '../../src/contracts/activities';
import { isUndecodable } from '../../src/contracts/signals';
import { isRunbookError } from '../../src/errors';
import { holdsPlainShare, verifyDecline } from '../../src/keys';
import type { PersonLookup, RunContext } from '../../src/keys';
import { ArrivedSignals } from './arrived-signals';
import { said } from '../../src/contracts/words';

type Verdict = Awaited<ReturnType<RosterActivities['checkDeclines']>>['verdicts'][number];
type AskedOf = Parameters<RosterActivities['checkDeclines']>[0]['ceremony'];

/**
 * Verifies declines of one ceremony, or of one rehearsal (protocol: "Decline").
 *
 * @param arrived numbers of the signals of this run.
 * @returns a verdict for each, with the time of the signal's event in milliseconds.
 */
export async function judgeDeclines(
  run: RunContext,
  person: PersonLookup,
  ceremony: AskedOf,
  arrived: readonly number[],
): Promise<readonly (Verdict & { readonly at: number })[]> {
  const verdicts: (Verdict & { readonly at: number })[] = [];
  for (const { arrival, eventId, content, principal, at } of await new ArrivedSignals(run).all('decline', arrived)) {
    const refuse = (code: string, text: string) => verdicts.push({ arrival, at, accepted: false, code, text });
    if (isUndecodable(content)) {
      refuse('undecodable', `the payload could not be read (encoding ${content.undecodable}); send JSON`);
      continue;
    }
    if (holdsPlainShare(saidFreely(content))) {
      const text = 'refused: it seems to hold a key share in plain text. Treat that share as exposed';
      verdicts.push({ arrival, at, accepted: false, code: 'plain-text-share', text, eventId });
      continue;
    }
    try {
      const { name, how, reason } = await verifyDecline(content, { run, person, principal, ceremony });
      const why = reason === '' ? 'no reason given' : reason;
      const text = `cannot give a share: ${said(why)}`;
      verdicts.push({ arrival, at, accepted: true, code: 'accepted', text, by: { name, how }, reason: why });
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      refuse('refused', error.message);
    }
  }
  return verdicts;
}

/** What a decline says beside names that are ours: long ones may look like a key share. A signed one is not looked into. */
function saidFreely(content: unknown): unknown {
  if (typeof content !== 'object' || content === null) return content;
  const ours = new Set(['ns', 'wid', 'rid', 'cid', 'name', 'document']);
  return Object.fromEntries(Object.entries(content).filter(([key]) => !ours.has(key)));
}
