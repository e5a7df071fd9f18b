import type { RehearsingPerson } from '../../activities/ceremony/rehearsal';
import type { RehearsalResult, RehearsedPerson } from '../../src/contracts/rehearsals';
import type { Declined } from '../../src/contracts/run-status';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import { Rehearsal } from '../procedures/rehearsal';
import type { Run } from '../engine/run';
import type { Ending } from '../engine/runbook';
import { runbook } from '../engine/runbook';

/** Every key holder goes the whole way once, with a value that means nothing. It touches no service. */
export const ceremonyRehearsal = runbook('ceremonyRehearsal', rehearse);

async function rehearse(run: Run, input: InputOf<'ceremonyRehearsal'>): Promise<Ending> {
  const { deployment, holders, collectFor, reason } = input;
  // 1. Who is asked? The inventory alone says it.
  const { site, people } = await run.step(
    'Read the roster',
    (call) => call.assessRehearsal({ deployment, ...(holders === undefined ? {} : { holders }) }),
    { note: (read) => read.people.map(({ name }) => name).join(', '), onFailure: 'throw' },
  );
  run.state.learnSite(site);
  if (input.dryRun)
    return {
      outcome: 'planned',
      result: { ...resultOf(deployment, people, { proofs: new Map(), declined: new Map() }) },
    };

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

  // 3. Until everybody has answered or declined, or the time is over. Each success is kept as it comes.
  await rehearsal.collect();

  // 4. The key is not needed any more.
  run.state.enterPhase('finishing');
  await rehearsal.close();
  const result = resultOf(deployment, people, rehearsal);
  return { outcome: 'completed', result: { ...result }, leftToDo: result.people.flatMap(leftToDo) };
}

function resultOf(
  deployment: string,
  people: readonly RehearsingPerson[],
  { proofs, declined }: Pick<Rehearsal, 'proofs' | 'declined'>,
): RehearsalResult {
  const rehearsed = people.map(({ name, standBy, before }): RehearsedPerson => {
    const proof = proofs.get(name);
    return {
      ...{ name, standBy },
      ...(proof
        ? { answered: 'yes', at: proof.at, how: proof.how, tool: proof.tool }
        : withoutProof(declined.get(name))),
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

function withoutProof(declined: Declined | undefined): Pick<RehearsedPerson, 'answered' | 'how' | 'said'> {
  return declined === undefined
    ? { answered: 'missing' }
    : { answered: 'declined', how: declined.by.how, said: declined.reason };
}

function leftToDo({ name, answered, before, said, how }: RehearsedPerson): string[] {
  if (answered === 'yes') return [];
  const last = before === undefined ? 'never' : `last on ${before.slice(0, 10)}`;
  const why = answered === 'declined' ? `declined${how === 'claimed' ? ', UNVERIFIED' : ''}: ${said}` : 'no answer';
  return [
    `${name} did not rehearse (${why}; before: ${last}): see what keeps ${name} from it, then start ceremonyRehearsal with {"holders": ["${name}"]}.`,
  ];
}
