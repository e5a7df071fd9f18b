import { readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { readReport } from '../cli/commands/watch';
import { activityResults, fetchEvents } from '../cli/history';
import { Progress } from '../cli/progress';
import { summaryLines } from '../cli/render-report';
import { readRunView } from '../cli/run-view';
import { connectTemporal } from '../cli/temporal';
import type { TemporalSession } from '../cli/temporal';
import { runLink } from '../cli/web-ui';
import { deploymentWorkflowId } from '../contracts/names';
import type { Waiting } from '../contracts/run-status';
import { approveWords, shareWords, SWITCHOVER } from './guide';
import { DEPLOYMENT } from './payments';
import type { Payments } from './payments';
import type { DemoPerson } from './people';
import { runbookCommand } from './programs';
import type { Stage } from './stage';
import { slotPath, writerState } from './writer';

const WORKFLOW_ID = deploymentWorkflowId(DEPLOYMENT);
const POLL_MS = 250;
/** The run itself waits for hours; a demonstration that has not ended by then has failed. */
const DEADLINE_MS = 180_000;

/** Plays all the parts of a switchover, each person as a process of its own. Gives whether all went well. */
export async function rehearse(stage: Stage, say: (line: string) => void, stop: AbortSignal): Promise<boolean> {
  const people = new Cast(stage, say);
  say('');
  if ((await people.play('olga', ['start', 'drSwitchover', '--input', JSON.stringify(SWITCHOVER)])) !== 0) return false;
  const session = await connectTemporal({}, stage.environment);
  try {
    const { runId } = await follow(session, people, say, stop);
    const report = await readReport(session, { workflowId: WORKFLOW_ID, runId });
    for (const line of summaryLines(report)) say(line);
    const kept = await clientsSawEverything(stage, say);
    const files = await reportFiles(session, runId);
    for (const file of files) say(`  Report: ${file}`);
    say(
      `  Web UI: ${runLink(stage.environment, session.namespace, { workflowId: WORKFLOW_ID, runId }) ?? stage.server.uiAddress}`,
    );
    return report.outcome === 'completed' && kept && files.length > 0;
  } finally {
    await session.close();
  }
}

/** Shows the run's progress and lets each person act when the run waits for that person. */
async function follow(
  session: TemporalSession,
  people: Cast,
  say: (line: string) => void,
  stop: AbortSignal,
): Promise<{ runId: string }> {
  const progress = new Progress();
  const deadline = Date.now() + DEADLINE_MS;
  for (;;) {
    const view = await readRunView(session, { workflowId: WORKFLOW_ID });
    for (const line of progress.lines(view)) say(line);
    if (view.state !== 'running') return view;
    if (stop.aborted || Date.now() > deadline)
      throw new Error(stop.aborted ? 'stopped' : `the run did not end within ${DEADLINE_MS / 1000} s`);
    for (const waiting of view.status?.waiting ?? []) people.answer(waiting);
    await delay(POLL_MS);
  }
}

/** The people of the demonstration. Each act is a process of its own, as on a machine of its own. */
class Cast {
  readonly #stage: Stage;
  readonly #say: (line: string) => void;
  readonly #acted = new Set<string>();

  constructor(stage: Stage, say: (line: string) => void) {
    this.#stage = stage;
    this.#say = say;
  }

  /** What the run waits for is done by those whom it concerns, once. */
  answer(waiting: Waiting): void {
    if (waiting.for === 'shares') {
      const holders = [...this.#stage.payments.people.values()].filter(({ shareFile }) => shareFile !== undefined);
      // The first holder shows what a holder gets to see.
      holders
        .slice(0, waiting.threshold)
        .forEach((holder, index) =>
          this.#act(`share ${holder.name} ${waiting.epoch}`, holder, shareWords(holder), index === 0),
        );
    } else if (waiting.for === 'approval' && (waiting.gate === 'plan' || waiting.gate === 'go')) {
      const approver = this.#stage.payments.people.get('grace');
      if (approver)
        this.#act(
          `approve ${waiting.gate} ${waiting.planDigest}`,
          approver,
          approveWords(approver, waiting.gate),
          waiting.gate === 'plan',
        );
    }
  }

  /** Runs `runbook` as this person and gives its exit code. */
  async play(name: string, words: readonly string[], showAll = true): Promise<number | string> {
    const [program, ...args] = runbookCommand();
    const child = this.#stage.children.start(name, [program, ...args, ...words], {
      env: this.#stage.environment,
      onLine: (line, stream) => {
        if (showAll || stream === 'out') this.#say(`      ${name}> ${line}`);
      },
    });
    const code = await child.ended;
    if (code !== 0) this.#say(`      ${name}> ended with ${code}`);
    return code;
  }

  #act(key: string, person: DemoPerson, words: readonly string[], showAll: boolean): void {
    if (this.#acted.has(key)) return;
    this.#acted.add(key);
    void this.play(person.name, words, showAll);
  }
}

/** Compares what clients were told with what the new primary has. */
async function clientsSawEverything({ payments, children }: Stage, say: (line: string) => void): Promise<boolean> {
  await children.stop('writer');
  const seen = writerState.parse(JSON.parse(await readFile(payments.clientsFiles.writer, 'utf8')));
  const primary = primaryOf(payments);
  const lost = Object.entries(seen.slots).filter(
    ([slot, acknowledged]) => Number(primary?.read(slotPath(slot))?.['sequence'] ?? 0) < acknowledged,
  );
  say(
    `  Clients: ${seen.acknowledged} writes acknowledged, ${seen.failed} refused, longest pause ${(seen.longestGapMs / 1000).toFixed(1)} s`,
  );
  say(
    `  On ${primary?.name ?? 'no primary'}: ${lost.length === 0 ? 'every acknowledged write is there' : `${lost.length} acknowledged writes are MISSING`}`,
  );
  return primary !== undefined && lost.length === 0;
}

function primaryOf({ service }: Payments) {
  return [service.cluster('east'), service.cluster('west'), service.cluster('north')].find(
    (cluster) => cluster.snapshotState().dr.mode === 'primary',
  );
}

/** Paths of the report's files, as the run's last activity gave them. */
async function reportFiles({ client }: TemporalSession, runId: string): Promise<string[]> {
  const last: unknown = activityResults(
    await fetchEvents(client, { workflowId: WORKFLOW_ID, runId }),
    'composeReport',
  ).at(-1);
  const files: unknown = typeof last === 'object' && last !== null && 'files' in last ? last.files : undefined;
  return Array.isArray(files) ? files.filter((file): file is string => typeof file === 'string') : [];
}
