import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '../render-status';
import { readRunView } from '../run';
import type { RunView, TemporalSession } from '../run';
import type { RunStatus } from '../../contracts/run-status';
import type { Stage } from './stage';
import { shareWords, approveWords } from './people';
import type { DemoPerson } from './people';

const POLL_MS = 250;

/** A run may wait for people for hours; a demonstration that takes longer than this has failed. */
const DEADLINE_MS = 180_000;

/** Shows the progress of a run until it ends, and lets people act when the run waits for them. */
export async function follow(
  session: TemporalSession,
  workflowId: string,
  people: Cast,
  say: (line: string) => void,
  stop: AbortSignal,
  progress: Pick<Progress, 'lines'>,
): Promise<RunView> {
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const view = await readRunView(session, { workflowId });
    for (const line of progress.lines(view)) say(line);
    if (view.state !== 'running') return view;
    if (stop.aborted || Date.now() > deadline)
      throw new Error(stop.aborted ? 'stopped' : `The run did not end within ${DEADLINE_MS / 1000} s.`);
    if (view.status) people.answer(view.status);
    await delay(POLL_MS);
  }
}

/** The people in the demonstration. Each action runs in its own process, as it would on the person's own machine. */
export class Cast {
  readonly #acted = new Set<string>();

  constructor(
    private readonly stage: Stage,
    private readonly say: (line: string) => void,
    private readonly showAll: boolean,
  ) {}

  /** Lets the people that the run waits for act, each only once. */
  answer({ workflowId, runId, asked, waiting }: RunStatus): void {
    const people = [...this.stage.payments.people.values()];
    for (const each of waiting)
      if (each.for === 'shares') {
        const holders = people.filter(({ shareFile }) => shareFile !== undefined).slice(0, each.threshold);
        // Show the complete output of the first holder only: it is the same for all.
        for (const [index, holder] of holders.entries()) {
          const words = shareWords(holder, workflowId, asked?.targets[0]?.cluster);
          this.#act(`share ${runId} ${each.epoch}`, holder, words, index === 0);
        }
      } else if (each.for === 'approval') {
        const approvers = people.filter(({ groups }) => groups.includes('approvers'));
        for (const approver of approvers.slice(0, each.gate === 'force' ? 2 : 1)) {
          const words = approveWords(approver, each.gate, workflowId, each.planDigest);
          this.#act(`approve ${runId} ${each.gate} ${each.planDigest}`, approver, words, each.gate !== 'go');
        }
      }
  }

  /** Runs `runbook` as this person and returns its exit code. If it fails, output that is otherwise hidden is shown too. */
  async play(name: string, words: readonly string[], showAll = true): Promise<number | string> {
    const hidden: string[] = [];
    const { ended } = this.stage.runbook(words, (line, stream) => {
      const shown = `      ${name}> ${line}`;
      if (this.showAll && (showAll || stream === 'out')) this.say(shown);
      else hidden.push(shown);
    });
    const code = await ended;
    if (code === 0) return code;
    for (const line of hidden) this.say(line);
    this.say(`      ${name}> exited with ${code}`);
    return code;
  }

  #act(action: string, { name }: DemoPerson, words: readonly string[], showAll: boolean): void {
    const key = `${action} ${name}`;
    if (this.#acted.has(key)) return;
    this.#acted.add(key);
    void this.play(name, words, showAll);
  }
}
