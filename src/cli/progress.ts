import type { RunStatus, Waiting } from '../contracts/run-status';
import { PHASE_WORDS, findingText, phaseText, stepText } from '../words/status';
import { receiptLines, statementLines, waitingLines } from './render-status';
import type { RunView } from './run-view';
import { clock, inLines, inWords, unmarked } from './text';

/** What identifies a wait: it is announced once, and again where its contents change. */
function waitingKey(waiting: Waiting): string {
  switch (waiting.for) {
    case 'shares':
      return `shares ${waiting.epoch} ${waiting.held.join(',')} ${waiting.threshold} ${waiting.missingHolders.join(',')} ${waiting.declined?.length ?? 0}`;
    case 'approval':
      return `approval ${waiting.gate} ${waiting.planDigest} ${waiting.again ?? ''} ${waiting.approved.map(({ name }) => name).join(',')}`;
    case 'rehearsal':
      return `rehearsal ${waiting.epoch} ${waiting.answered.join(',')} ${waiting.declined?.length ?? 0}`;
    case 'decision':
      return `decision ${waiting.step} ${waiting.parkingNo}`;
    case 'resume':
      return `resume ${waiting.by}`;
    case 'window':
      return `window ${waiting.until}`;
    case 'action':
      return `action ${waiting.what}`;
  }
}

/** News with its time, so that what one look brings is told in the order in which it happened. */
interface News {
  readonly at: number;
  readonly text: string;
  /** Lines below it, without a time of their own. */
  readonly below?: readonly string[];
}

/** Under the text of a line, which stands beside its time. */
const BELOW = ' '.repeat(12);

function news(at: number, before: string, [first = '', ...others]: readonly string[]): News {
  return { at, text: `${before}${first}`, below: others.map((line) => `${BELOW}${line}`) };
}

/** Turns looks at a run into lines that say what is new since the look before. */
export class Progress {
  readonly #steps = new Map<number, string>();
  readonly #said = new Set<string>();
  #phase: string | undefined;
  #silent = false;

  /** Lines for what is new in `view`. Without a worker's answer it says so, once. */
  lines(given: RunView, now = Date.now()): string[] {
    const view = inLines(given);
    const { status } = view;
    if (status === undefined) {
      if (this.#silent || view.state !== 'running') return [];
      this.#silent = true;
      const waits = view.memo?.waitingFor === undefined ? '' : `, waits for ${view.memo.waitingFor}`;
      return [`${clock(now, now)} no worker answers; as of event ${view.asOfEvent}${waits}`];
    }
    const back: News[] = this.#silent ? [{ at: now, text: 'a worker answers again' }] : [];
    this.#silent = false;
    const happened = [...back, ...this.#phases(status, now), ...this.#stepNews(status)].sort((a, b) => a.at - b.at);
    // Receipts, findings and waits carry no time: they are told as of this look.
    const seen = [...this.#receipts(status, now), ...this.#findings(status, now), ...this.#waits(status, now)];
    return [...happened, ...seen].flatMap(({ at, text, below }) => [`${clock(at, now)} ${text}`, ...(below ?? [])]);
  }

  #phases(status: RunStatus, now: number): News[] {
    const { phase, outageSince, serviceBackAt, steps } = status;
    const news: News[] = [];
    // One that was not begun after all may be followed by one that is.
    if (outageSince !== undefined && this.#once(`outage ${outageSince}`))
      news.push({ at: outageSince, text: `== ${PHASE_WORDS.outage}` });
    if (outageSince !== undefined && serviceBackAt !== undefined && this.#once(`service back ${serviceBackAt}`)) {
      news.push({ at: serviceBackAt, text: `== Service is back after ${inWords(serviceBackAt - outageSince)}` });
    }
    if (phase !== this.#phase) {
      this.#phase = phase;
      const last = steps.at(-1);
      const at = phase === 're-protecting' ? (serviceBackAt ?? now) : (last?.endedAt ?? last?.startedAt ?? now);
      // The outage was told above, with the time at which it began.
      if (phase !== 'outage') news.push({ at, text: `== ${phaseText(status)}` });
    }
    return news;
  }

  #stepNews({ steps }: RunStatus): News[] {
    return steps.flatMap((step): News[] => {
      const { number, name, state, attempt, startedAt, endedAt } = step;
      const key = `${state} ${attempt}`;
      if (this.#steps.get(number) === key) return [];
      this.#steps.set(number, key);
      const began = `${number}. ${name} ...${attempt > 1 ? ` (attempt ${attempt})` : ''}`;
      const { title, text } = stepText(step);
      return [{ at: endedAt ?? startedAt, text: state === 'running' ? began : `${number}. ${title}${unmarked(text)}` }];
    });
  }

  #receipts({ receipts }: RunStatus, now: number): News[] {
    return receipts
      .filter((receipt) => this.#once(`receipt ${receipt.signal} ${receipt.arrival} ${receipt.code}`))
      .map((receipt) => news(now, '   ', receiptLines(receipt)));
  }

  #findings({ findings }: RunStatus, now: number): News[] {
    return findings
      .filter(({ code, text }) => this.#once(`finding ${code} ${text}`))
      .map((finding) => news(now, '   finding, ', statementLines(findingText(finding))));
  }

  #waits({ workflowId, waiting }: RunStatus, now: number): News[] {
    return waiting
      .filter((each) => this.#once(waitingKey(each)))
      .map((each) => {
        const [first = '', ...below] = waitingLines(workflowId, each, now, BELOW);
        return { at: now, text: `-> ${first}`, below };
      });
  }

  #once(key: string): boolean {
    if (this.#said.has(key)) return false;
    this.#said.add(key);
    return true;
  }
}
