import { backAgain, Progress, receiptLines, stepNews } from '../render-status';
import type { News } from '../render-status';
import type { RunView } from '../run';
import type { RunStatus, TimelineStep } from '../../contracts/run-status';
import { findingText, waitedFor } from '../../words/status';

/** Ended steps that the lines about people and about the outage tell already, or that are told once. */
const TOLD_ELSEWHERE =
  /^(Invite the key holders|Read and check again|Direct clients|Probe the clients' address|Release clients|Write the report)/;
/** Once clients are served again, only these say something new. */
const TOLD_AFTERWARDS = /^(Wait until .* streams|Delete the operation tokens)/;

/** A run that was just started has no answer for a moment. */
const LOOKS_UNANSWERED = 4;

/** A run in few lines: who did what, what the run did, outage and return, and everything that did not go well. */
export class Story extends Progress {
  #outage = false;
  #unanswered = 0;

  protected override happened(status: RunStatus): News[] {
    const { steps, receipts, waiting, findings } = status;
    const bad = findings.filter(({ severity }) => severity !== 'info').map(findingText);
    return [
      ...this.#outageNews(status),
      ...backAgain(status),
      ...steps.filter((step) => isTold(step, status)).map(stepNews),
      ...receipts.map((receipt) => ({ at: receipt.at, lines: personsLines(receipt) })),
      ...waiting.map((each) => ({
        lines: [`Waiting ${each.for === 'action' ? 'until' : 'for'} ${waitedFor(each)}`],
      })),
      ...bad.map(({ title, text }) => ({ lines: [`${title}${text}`] })),
    ];
  }

  /** The phases are told by what happens in them; only that no worker answers is news, once that lasts. */
  protected override headings(view: RunView): News[] {
    this.#unanswered = view.status === undefined ? this.#unanswered + 1 : 0;
    return this.#unanswered > LOOKS_UNANSWERED ? super.headings(view) : [];
  }

  /** Its beginning is corrected once the demotion was answered: it is told once. */
  #outageNews({ outageSince }: RunStatus): News[] {
    if (outageSince === undefined || this.#outage) return [];
    this.#outage = true;
    return [{ lines: ['== OUTAGE: no primary serves clients'] }];
  }
}

function isTold({ name, state, startedAt }: TimelineStep, { serviceBackAt }: RunStatus): boolean {
  if (state === 'running') return false;
  if (state !== 'done' && state !== 'already') return true;
  return serviceBackAt !== undefined && startedAt >= serviceBackAt
    ? TOLD_AFTERWARDS.test(name)
    : !TOLD_ELSEWHERE.test(name);
}

/** What a person did, and with which command. */
function personsLines(receipt: RunStatus['receipts'][number]): string[] {
  const { signal, verdict, from, text } = receipt;
  if (verdict !== 'accepted' || from === undefined) return receiptLines(receipt);
  const did = signal === 'share' ? 'gives a key share' : text.replace(/^accepted: /, '');
  return [`${from.name} ${did} (runbook ${signal})`];
}
