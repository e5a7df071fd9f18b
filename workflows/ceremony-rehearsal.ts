import type { RehearsalProof, RehearsingPerson } from '../src/contracts/activities';
import type { RehearsalResult, RehearsedPerson } from '../src/contracts/rehearsals';
import type { CeremonyRehearsalInput } from '../src/contracts/runbook-inputs';
import { ceremonyRehearsalInput } from '../src/contracts/runbook-inputs';
import { Rehearsal } from './building-blocks/rehearsal';
import type { Run } from './building-blocks/run';
import type { Ending, RunbookResult } from './building-blocks/runbook';
import { executeRunbook } from './building-blocks/runbook';

/** Every key holder goes the whole way once, with a value that means nothing. It touches no service. */
export async function ceremonyRehearsal(input: unknown): Promise<RunbookResult> {
  return executeRunbook<CeremonyRehearsalInput>(
    { name: 'ceremonyRehearsal', input: ceremonyRehearsalInput, body: rehearse },
    input,
  );
}

async function rehearse(run: Run, input: CeremonyRehearsalInput): Promise<Ending> {
  const { deployment, holders, collectFor, reason } = input;
  return run.stoppable(async () => {
    // 1. Who is asked? The inventory alone says it.
    const { site, people } = await run.step(
      'Read the roster',
      (call) => call.assessRehearsal({ deployment, ...(holders === undefined ? {} : { holders }) }),
      { note: (read) => read.people.map(({ name }) => name).join(', '), leaveToRunbook: () => true },
    );
    run.state.learnSite(site);
    if (input.dryRun) return { outcome: 'planned', result: { ...resultOf(deployment, people, new Map()) } };

    // 2. A key of its own, and an invitation of its own type.
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

    // 3. Until everybody has answered, or the time is over. Each success is kept as it comes.
    await rehearsal.collect();

    // 4. The key is not needed any more.
    run.state.enterPhase('finishing');
    await rehearsal.close();
    const result = resultOf(deployment, people, rehearsal.proofs);
    return { outcome: 'completed', result: { ...result }, leftToDo: result.people.flatMap(leftToDo) };
  });
}

function resultOf(
  deployment: string,
  people: readonly RehearsingPerson[],
  proofs: ReadonlyMap<string, RehearsalProof>,
): RehearsalResult {
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
    `${name} did not rehearse (${last}): see what keeps ${name} from it, then start ceremonyRehearsal with {"holders": ["${name}"]}.`,
  ];
}
