import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Progress } from '../cli/render-status';
import { readRunView } from '../cli/run';
import type { RunView, TemporalSession } from '../cli/run';
import { deploymentWorkflowId } from '../contracts/names';
import type { GateName } from '../contracts/plan';
import type { RunStatus, Waiting } from '../contracts/run-status';
import { createHolderKey, formatPublicKey, generatePassphrase } from '../keys';
import type { Stage } from './stage';

/** The name of the simulated deployment. */
export const DEPLOYMENT = 'payments';

/** A person of the demonstration: where the files are that a real person keeps on a machine of their own. */
export interface DemoPerson {
  readonly name: string;
  readonly groups: readonly string[];
  /** `<kid>:<x>`, for the inventory. */
  readonly publicKey: string;
  readonly keyFile: string;
  readonly passphraseFile: string;
  /** Of the key holders. */
  readonly shareFile?: string;
}

/** Key holders, in the order in which they get the key shares. */
const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'] as const;
const APPROVERS = ['grace', 'henry'] as const;
/** Who asks for the switchover. */
export const OPERATOR = 'olga';

/** Cheap to open: these passphrases are random and live as long as the demonstration. */
const SCRYPT_WORK_FACTOR = 10;

/** Makes everybody's signing key, and gives each holder one key share, in files of mode 0600. */
export async function makePeople(
  directory: string,
  keyShares: readonly string[],
): Promise<ReadonlyMap<string, DemoPerson>> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const groupsOf = (name: string): string[] => {
    if (name === OPERATOR) return ['operators'];
    return APPROVERS.some((approver) => approver === name) ? ['approvers'] : ['holders'];
  };
  const people = await Promise.all(
    [...HOLDERS, ...APPROVERS, OPERATOR].map(async (name, index): Promise<[string, DemoPerson]> => {
      const passphrase = generatePassphrase();
      const { file, key } = await createHolderKey(passphrase, SCRYPT_WORK_FACTOR);
      const keyFile = join(directory, `${name}.key`);
      const passphraseFile = join(directory, `${name}.passphrase`);
      await writeFile(keyFile, file, { mode: 0o600 });
      await writeFile(passphraseFile, `${passphrase.reveal()}\n`, { mode: 0o600 });
      const share = index < HOLDERS.length ? keyShares[index] : undefined;
      const shareFile = join(directory, `${name}.share`);
      if (share !== undefined) await writeFile(shareFile, `${share}\n`, { mode: 0o600 });
      const person = { name, groups: groupsOf(name), publicKey: formatPublicKey(key), keyFile, passphraseFile };
      return [name, share === undefined ? person : { ...person, shareFile }];
    }),
  );
  return new Map(people);
}

/** Options with which a person signs. */
function signingWords({ keyFile, passphraseFile }: DemoPerson): string[] {
  return ['--key-file', keyFile, '--passphrase-file', passphraseFile];
}

/** The words after `runbook` with which a holder answers an invitation without being asked anything. */
export function shareWords(
  { shareFile = '', ...holder }: DemoPerson,
  workflowId = deploymentWorkflowId(DEPLOYMENT),
  confirmed = 'west',
): string[] {
  const words = ['share', workflowId, '--holder', holder.name, ...signingWords(holder)];
  return [...words, '--confirm', confirmed, '--share-file', shareFile];
}

/** The words after `runbook` with which an approver approves a gate; where the plan is named, without being asked anything. */
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
  readonly #acted = new Set<string>();

  constructor(
    private readonly stage: Stage,
    private readonly say: (line: string) => void,
    private readonly showAll: boolean,
  ) {}

  /** What the run waits for is done by those whom it concerns, once. */
  answer(status: RunStatus): void {
    for (const waiting of status.waiting) this.#answer(status, waiting);
  }

  #answer({ workflowId, runId, invitation }: RunStatus, waiting: Waiting): void {
    if (waiting.for === 'shares') {
      const holders = [...this.stage.payments.people.values()].filter(({ shareFile }) => shareFile !== undefined);
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
    } else if (waiting.for === 'approval') {
      for (const name of ['grace', 'henry'].slice(0, waiting.gate === 'force' ? 2 : 1)) {
        const approver = this.stage.payments.people.get(name);
        const words = approver && approveWords(approver, waiting.gate, workflowId, waiting.planDigest);
        if (words)
          this.#act(
            `approve ${runId} ${waiting.gate} ${waiting.planDigest} ${name}`,
            approver,
            words,
            waiting.gate !== 'go',
          );
      }
    }
  }

  /** Runs `runbook` as this person and gives its exit code. What is hidden otherwise is shown where it did not end well. */
  async play(name: string, words: readonly string[], showAll = true): Promise<number | string> {
    const hidden: string[] = [];
    const { ended } = this.stage.runbook(words, (line, stream) => {
      const said = `      ${name}> ${line}`;
      if (this.showAll && (showAll || stream === 'out')) this.say(said);
      else hidden.push(said);
    });
    const code = await ended;
    if (code === 0) return code;
    for (const line of hidden) this.say(line);
    this.say(`      ${name}> ended with ${code}`);
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
