import type { RunStatus, Waiting } from '../contracts/run-status';
import { commandsFor } from './next-commands';
import { receiptLine, waitingHeadline } from './render-status';
import type { RunView } from './run-view';
import { clock, inWords } from './text';

/** What identifies a wait: it is announced once, and again where its contents change. */
function waitingKey(waiting: Waiting): string {
  switch (waiting.for) {
    case 'shares':
      return `shares ${waiting.epoch} ${waiting.held.join(',')} ${waiting.threshold}`;
    case 'approval':
      return `approval ${waiting.gate} ${waiting.planDigest} ${waiting.approved.map(({ name }) => name).join(',')}`;
    case 'decision':
      return `decision ${waiting.step} ${waiting.parkingNo}`;
    case 'resume':
      return `resume ${waiting.by}`;
  }
}

/** Turns looks at a run into lines that say what is new since the look before. */
export class Progress {
  readonly #steps = new Map<number, string>();
  readonly #said = new Set<string>();
  #phase: string | undefined;
  #silent = false;

  /** Lines for what is new in `view`. Without a worker's answer it says so, once. */
  lines(view: RunView, now = Date.now()): string[] {
    const { status } = view;
    if (status === undefined) {
      if (this.#silent || view.state !== 'running') return [];
      this.#silent = true;
      return [
        `${clock(now)} no worker answers; as of event ${view.asOfEvent}${view.memo?.waitingFor === undefined ? '' : `, waits for ${view.memo.waitingFor}`}`,
      ];
    }
    const back = this.#silent ? [`${clock(now)} a worker answers again`] : [];
    this.#silent = false;
    return [
      ...back,
      ...this.#phaseLines(status, now),
      ...this.#receiptLines(status, now),
      ...this.#stepLines(status),
      ...this.#findingLines(status, now),
      ...this.#waitingLines(status, now),
    ];
  }

  #phaseLines({ phase, outageSince, serviceBackAt }: RunStatus, now: number): string[] {
    const lines: string[] = [];
    if (phase !== this.#phase) {
      this.#phase = phase;
      lines.push(`${clock(now)} == ${PHASES[phase]}`);
    }
    if (outageSince !== undefined && serviceBackAt !== undefined && this.#once('service back')) {
      lines.push(`${clock(serviceBackAt)} == Service is back after ${inWords(serviceBackAt - outageSince)}`);
    }
    return lines;
  }

  #stepLines({ steps }: RunStatus): string[] {
    return steps.flatMap(({ number, name, state, attempt, startedAt, endedAt, note }) => {
      const key = `${state} ${attempt}`;
      if (this.#steps.get(number) === key) return [];
      this.#steps.set(number, key);
      if (state === 'running')
        return [`${clock(startedAt)} ${number}. ${name} ...${attempt > 1 ? ` (attempt ${attempt})` : ''}`];
      const took = endedAt === undefined ? '' : ` in ${inWords(endedAt - startedAt)}`;
      return [
        `${clock(endedAt ?? startedAt)} ${number}. ${name}: ${state}${took}${note === undefined ? '' : `. ${note}`}`,
      ];
    });
  }

  #receiptLines({ receipts }: RunStatus, now: number): string[] {
    // The run keeps the newest hundred: what came before the last one that was shown is not told again.
    const fresh = receipts.filter((receipt) =>
      this.#once(`receipt ${receipt.signal} ${receipt.arrival} ${receipt.code}`),
    );
    return fresh.map((receipt) => `${clock(now)}    ${receiptLine(receipt)}`);
  }

  #findingLines({ findings }: RunStatus, now: number): string[] {
    return findings
      .filter(({ code, text }) => this.#once(`finding ${code} ${text}`))
      .map(
        ({ severity, text, next }) =>
          `${clock(now)}    finding (${severity}): ${text}${next === undefined ? '' : ` Next: ${next}`}`,
      );
  }

  #waitingLines({ workflowId, waiting }: RunStatus, now: number): string[] {
    return waiting
      .filter((each) => this.#once(waitingKey(each)))
      .flatMap((each) => [
        `${clock(now)} -> ${waitingHeadline(each, now)}`,
        ...commandsFor(workflowId, each).map(
          ({ who, command, effect }) =>
            `            ${effect === undefined ? `${who}: ` : ''}${command}${effect === undefined ? '' : `  (${effect})`}`,
        ),
      ]);
  }

  #once(key: string): boolean {
    if (this.#said.has(key)) return false;
    this.#said.add(key);
    return true;
  }
}

const PHASES: Record<RunStatus['phase'], string> = {
  checking: 'Reads and checks; nothing is touched',
  'waiting-for-people': 'Waits for people; service is up',
  preparing: 'Last checks; service is up',
  outage: 'OUTAGE: no primary serves clients',
  're-protecting': 'Service is back; protection is being restored',
  finishing: 'Service is back; cleaning up',
  finished: 'Finished',
};
