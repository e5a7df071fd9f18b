import type { RehearsingPerson, RehearsalProof } from '../../activities/ceremony/rehearsal';
import type { RunbookFindings } from '../../src/contracts/report';
import type { Attestation } from '../../src/contracts/run-facts';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';
import type { CeremonyHandle } from '../../src/contracts/ceremony';
import type { StepCalls } from '../engine/activity-calls';
import { Collection } from '../procedures/collection';

/** One entry of the result, for each person who was asked. */
export interface RehearsedPerson {
  readonly name: string;
  readonly standBy: boolean;
  /** `missing`: no answer that verifies arrived in time. */
  readonly answered: 'yes' | 'missing';
  /** ISO time of the signal's event. */
  readonly at?: string;
  /** How it is known that this person answered. */
  readonly how?: Attestation;
  /** What the person's tool reports about itself. */
  readonly tool?: string;
  /** ISO time of the last success before this rehearsal. */
  readonly before?: string;
}

/** Every key holder goes through the complete ceremony once, with a value that means nothing. It calls no cluster. */
export const ceremonyRehearsal = runbook('ceremonyRehearsal', rehearse);

async function rehearse(run: Run, input: InputOf<'ceremonyRehearsal'>): Promise<Ending> {
  const { deployment, holders, collectFor, reason } = input;
  // 1. Read the roster from the inventory alone.
  const { site, people } = await run.step(
    'Read the roster',
    (call) => call.assessRehearsal({ deployment, ...(holders === undefined ? {} : { holders }) }),
    { onFailure: 'throw' },
  );
  run.state.learnSite(site);
  if (input.dryRun) return { outcome: 'planned', result: { ...resultOf(deployment, people, new Map()) } };

  // 2. Create a key for this rehearsal, and an invitation of a type of its own.
  const rehearsal = new Rehearsal(run, {
    deployment,
    reason,
    requestedBy: input.requestedBy ?? 'unknown',
    holders: people.map(({ name }) => name),
    collectFor,
  });
  run.onEnd(() => rehearsal.abandon());
  run.state.enterPhase('waiting-for-people');
  await rehearsal.invite();

  // 3. Wait until everybody has answered, or the time is over. Each success is recorded as it arrives.
  await rehearsal.collect();

  // 4. Destroy the key.
  run.state.enterPhase('finishing');
  await rehearsal.close();
  const result = resultOf(deployment, people, rehearsal.proofs);
  return { outcome: 'completed', result: { ...result }, leftToDo: result.people.flatMap(leftToDo) };
}

function resultOf(
  deployment: string,
  people: readonly RehearsingPerson[],
  proofs: Rehearsal['proofs'],
): RunbookFindings & { readonly people: readonly RehearsedPerson[] } {
  const rehearsed = people.map(({ name, standBy, before }): RehearsedPerson => {
    const proof = proofs.get(name);
    return {
      ...{ name, standBy },
      ...(proof ? { answered: 'yes', at: proof.at, how: proof.how, tool: proof.tool } : { answered: 'missing' }),
      ...(before === undefined ? {} : { before }),
    };
  });
  return {
    schema: 'replication-runbooks/rehearsal/v1',
    deployment,
    answered: proofs.size,
    asked: people.length,
    people: rehearsed,
  };
}

function leftToDo({ name, answered, before }: RehearsedPerson): string[] {
  if (answered === 'yes') return [];
  const last = before === undefined ? 'never' : `last on ${before.slice(0, 10)}`;
  return [
    `${name} did not rehearse (before: ${last}). Find out what prevents ${name} from answering, then start ceremonyRehearsal with {"holders": ["${name}"]}.`,
  ];
}

type RehearsalRequest = Omit<Parameters<StepCalls['createRehearsal']>[0], 'epoch' | 'cid' | 'inputDigest'>;

/** An answer that arrived in time is still checked. */
const LAST_CHECK_MS = 30_000;

/**
 * A ceremony without its end: an invitation of a type of its own, answers that are checked and opened on the host that has
 * the key, and the key destroyed. Nothing is made from the answers, and no cluster is called.
 */
class Rehearsal extends Collection {
  readonly #request: RehearsalRequest;
  readonly #proofs = new Map<string, RehearsalProof>();
  /** Checks under way. */
  #checking = 0;

  constructor(run: Run, request: RehearsalRequest) {
    super(run, request.deployment, { invite: 'Invite to the rehearsal', check: 'Check answers' });
    this.#request = request;
  }

  /** What each person who answered has proven, by name. */
  get proofs(): ReadonlyMap<string, RehearsalProof> {
    return this.#proofs;
  }

  protected override create(call: StepCalls, round: { readonly epoch: number; readonly cid: string }) {
    const { deployment, holders } = this.#request;
    return call.createRehearsal({ ...this.#request, inputDigest: `${deployment}/${holders.join('+')}`, ...round });
  }

  protected override invited(): void {
    const { requestedBy, reason } = this.#request;
    const by = { name: requestedBy, how: 'claimed' } as const;
    this.run.state.asked = { kind: 'rehearsal', targets: [], requestedBy: by, reason };
  }

  /** Waits until everybody has answered, or the time is over. Ends early if the key is lost, because no answer can be read then. */
  async collect(): Promise<void> {
    const { state } = this.run;
    this.#wait();
    await this.run.waitFor(
      () => this.#missing().length === 0 || this.keysLost !== undefined,
      this.leftMs,
      'the rehearsal ends',
    );
    if (this.#checking > 0)
      await this.run.waitFor(() => this.#checking === 0, LAST_CHECK_MS, 'checks of answers are given up');
    state.waitOver('rehearsal');
    if (this.keysLost === undefined) return;
    state.finding({
      severity: 'warning',
      code: 'rehearsal-key-lost',
      text: `The key of the rehearsal cannot be used any more (${this.keysLost}). The rehearsal ended early.`,
      next: 'Find out why the worker lost its key directory. In a ceremony the holders would be asked again. Then rehearse with the people who are missing.',
    });
  }

  override async abandon(): Promise<void> {
    this.run.state.waitOver('rehearsal');
    await super.abandon();
  }

  protected override async check(call: StepCalls, ceremony: CeremonyHandle, arrived: readonly number[]) {
    this.#checking += 1;
    try {
      const { deployment } = this.#request;
      const { verdicts, proofs } = await call.openRehearsal({ deployment, ceremony, arrived });
      const take = () => {
        for (const proof of proofs) this.#proofs.set(proof.name, proof);
      };
      return { verdicts, take };
    } finally {
      this.#checking -= 1;
    }
  }

  protected override show(): void {
    if (this.run.state.waiting.has('rehearsal')) this.#wait();
  }

  #wait(): void {
    const { epoch, collectUntil: until } = this.required();
    const answered = [...this.#proofs.keys()];
    this.run.state.wait('rehearsal', { for: 'rehearsal', epoch, answered, missing: this.#missing(), until });
  }

  #missing(): string[] {
    return this.#request.holders.filter((name) => !this.#proofs.has(name));
  }
}
