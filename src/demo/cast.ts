import { setTimeout as delay } from 'node:timers/promises';
import { Progress } from '../cli/render-status';
import { readRunView } from '../cli/run';
import type { RunView } from '../cli/run';
import type { TemporalSession } from '../cli/temporal';
import type { RunStatus, Waiting } from '../contracts/run-status';
import { approveWords, rehearsalWords, shareWords } from './guide';
import type { DemoPerson } from './people';
import type { Stage } from './stage';

const POLL_MS = 250;
/** The run itself waits for hours; a demonstration that has not ended by then has failed. */
const DEADLINE_MS = 180_000;

/** Shows a run's progress and lets each person act when the run waits for that person. */
export async function follow(
  session: TemporalSession,
  workflowId: string,
  people: Cast,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<RunView> {
  const progress = new Progress();
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const view = await readRunView(session, { workflowId });
    for (const line of progress.lines(view)) say(line);
    if (view.state !== 'running') return view;
    if (stop.aborted || Date.now() > deadline)
      throw new Error(stop.aborted ? 'stopped' : `the run did not end within ${DEADLINE_MS / 1000} s`);
    if (view.status) people.answer(view.status);
    await delay(POLL_MS);
  }
}

/** The people of the demonstration. Each act is a process of its own, as on a machine of its own. */
export class Cast {
  readonly #stage: Stage;
  readonly #say: (line: string) => void;
  readonly #showAll: boolean;
  readonly #acted = new Set<string>();
  /** What people do outside of a run while it waits for them. */
  readonly onAction: (what: string) => void;

  constructor(
    stage: Stage,
    say: (line: string) => void,
    { showAll = true, onAction = () => undefined }: { showAll?: boolean; onAction?: (what: string) => void } = {},
  ) {
    this.#stage = stage;
    this.#say = say;
    this.#showAll = showAll;
    this.onAction = onAction;
  }

  /** What the run waits for is done by those whom it concerns, once. */
  answer(status: RunStatus): void {
    for (const waiting of status.waiting) this.#answer(status, waiting);
  }

  #answer({ workflowId, runId, invitation }: RunStatus, waiting: Waiting): void {
    if (waiting.for === 'shares') {
      const holders = [...this.#stage.payments.people.values()].filter(({ shareFile }) => shareFile !== undefined);
      // The first holder shows what a holder gets to see.
      holders
        .slice(0, waiting.threshold)
        .forEach((holder, index) =>
          this.#act(
            `share ${runId} ${holder.name} ${waiting.epoch}`,
            holder,
            shareWords(holder, workflowId, firstTarget(invitation)),
            index === 0,
          ),
        );
    } else if (waiting.for === 'rehearsal') {
      waiting.missing.forEach((name, index) => {
        const holder = this.#stage.payments.people.get(name);
        if (holder !== undefined)
          this.#act(
            `rehearse ${runId} ${name} ${waiting.epoch}`,
            holder,
            rehearsalWords(holder, workflowId),
            index === 0,
          );
      });
    } else if (waiting.for === 'approval') {
      for (const name of ['grace', 'henry'].slice(0, waiting.gate === 'force' ? 2 : 1)) {
        const approver = this.#stage.payments.people.get(name);
        const words = approver && approveWords(approver, waiting.gate, workflowId, waiting.planDigest);
        if (words)
          this.#act(
            `approve ${runId} ${waiting.gate} ${waiting.planDigest} ${name}`,
            approver,
            words,
            waiting.gate !== 'go',
          );
      }
    } else if (waiting.for === 'action') this.onAction(waiting.what);
  }

  /** Runs `runbook` as this person and gives its exit code. */
  async play(name: string, words: readonly string[], showAll = true): Promise<number | string> {
    const { ended } = this.#stage.runbook(words, (line, stream) => {
      if (this.#showAll && (showAll || stream === 'out')) this.#say(`      ${name}> ${line}`);
    });
    const code = await ended;
    if (code !== 0) this.#say(`      ${name}> ended with ${code}`);
    return code;
  }

  #act(key: string, person: DemoPerson, words: readonly string[], showAll: boolean): void {
    if (this.#acted.has(key)) return;
    this.#acted.add(key);
    void this.play(person.name, words, showAll);
  }
}

/** The cluster whose name a holder types: the first one that the invitation names. */
function firstTarget(invitation: string | undefined): string | undefined {
  const payload = invitation?.split('.')[1];
  if (payload === undefined) return undefined;
  const said = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')) as {
    readonly targets?: readonly { readonly cluster?: string }[];
  };
  return said.targets?.[0]?.cluster;
}
