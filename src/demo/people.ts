import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { Progress } from '../cli/render-status';
import { readRunView } from '../cli/run';
import type { RunView, TemporalSession } from '../cli/run';
import { deploymentWorkflowId } from '../contracts/names';
import type { RunStatus } from '../contracts/run-status';
import type { GateName } from '../contracts/gates';
import { createHolderKey, formatPublicKey, generatePassphrase } from '../keys';
import type { Stage } from './stage';

/** The name of the simulated deployment. */
export const DEPLOYMENT = 'payments';

/** The people and their groups; key holders are in the order of their key shares. */
const GROUPS = {
  ...{ ada: 'holders', bert: 'holders', cleo: 'holders', dora: 'holders', emil: 'holders' },
  ...{ grace: 'approvers', henry: 'approvers', olga: 'operators' },
} as const;
/** The operator who requests the runs. */
export const OPERATOR = 'olga';

/** Low, so that key files open quickly: these passphrases are random and are discarded after the demonstration. */
const SCRYPT_WORK_FACTOR = 10;

/** Creates everyone's signing key and gives each holder one key share, in files of mode 0600. */
export async function makePeople(
  directory: string,
  keyShares: readonly string[],
): Promise<ReadonlyMap<string, DemoPerson>> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const names = Object.entries(GROUPS);
  const people = names.map(([name, group], index) =>
    makePerson(directory, name, group, group === 'holders' ? keyShares[index] : undefined),
  );
  return new Map((await Promise.all(people)).map((person) => [person.name, person]));
}

async function makePerson(directory: string, name: string, group: string, share: string | undefined) {
  const passphrase = generatePassphrase();
  const made = await createHolderKey(passphrase, SCRYPT_WORK_FACTOR);
  const write = async (kind: string, content: string): Promise<string> => {
    const file = join(directory, `${name}.${kind}`);
    await writeFile(file, content, { mode: 0o600 });
    return file;
  };
  return {
    ...{ name, groups: [group] },
    /** `<kid>:<x>`, as the inventory lists it. */
    publicKey: formatPublicKey(made.key),
    keyFile: await write('key', made.file),
    passphraseFile: await write('passphrase', `${passphrase.reveal()}\n`),
    /** Key holders only. */
    shareFile: share === undefined ? undefined : await write('share', `${share}\n`),
  };
}

/** A person in the demonstration, with the paths of the files that a real person keeps on their own machine. */
type DemoPerson = Readonly<Awaited<ReturnType<typeof makePerson>>>;

/** Command-line options that name a person's signing key. */
function signingWords({ keyFile, passphraseFile }: DemoPerson): string[] {
  return ['--key-file', keyFile, '--passphrase-file', passphraseFile];
}

/** Arguments of `runbook` with which a holder answers an invitation without prompts. */
export function shareWords(
  holder: DemoPerson,
  workflowId = deploymentWorkflowId(DEPLOYMENT),
  confirmed = 'west',
): string[] {
  const words = ['share', workflowId, '--holder', holder.name, ...signingWords(holder)];
  return [...words, '--confirm', confirmed, '--share-file', holder.shareFile ?? ''];
}

/** Arguments of `runbook` with which an approver approves a gate; without prompts if `planDigest` is given. */
export function approveWords(
  approver: DemoPerson,
  gate: GateName,
  workflowId = deploymentWorkflowId(DEPLOYMENT),
  planDigest?: string,
): string[] {
  const named = planDigest === undefined ? [] : ['--yes', '--plan-digest', planDigest];
  return ['approve', workflowId, '--gate', gate, '--name', approver.name, ...signingWords(approver), ...named];
}

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
  progress: Progress,
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
