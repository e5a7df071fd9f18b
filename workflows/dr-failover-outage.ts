import type { Authority, FailoverRoute } from '../src/contracts/activities';
import type { OperationTokenReference } from '../src/contracts/ceremony';
import type { DrFailoverInput } from '../src/contracts/runbook-inputs';
import { OutageDecision, RunStopped } from './building-blocks/failures';
import type { FailureFacts } from './building-blocks/failures';
import type { Run } from './building-blocks/run';
import { StepFailed } from './building-blocks/run';
import { serviceBack } from './building-blocks/service-back';

interface Promotion {
  readonly token: OperationTokenReference;
  readonly authority: Authority;
  readonly force: boolean;
}

/**
 * Steps 3 and 4, in one piece: the promotion until B serves. A promotion whose outcome is not known parks right here; one
 * that was refused for certain gives why, and people are asked outside, where the run can be stopped.
 *
 * @returns undefined where B was promoted
 */
export async function promoteAndServe(
  run: Run,
  { deployment }: DrFailoverInput,
  route: FailoverRoute,
  { token, authority, force }: Promotion,
): Promise<FailureFacts | undefined> {
  const { from, to, hooks } = route;
  const asked = { deployment, cluster: to, otherCluster: from, token, authority };
  try {
    // DANGER: should the old primary still serve somebody, there are two primaries from here on.
    const promoted = await run.step(
      force ? `Promote ${to} by force` : `Promote ${to}`,
      (call) => (force ? call.forcePromoteAfterFailover(asked) : call.promoteAfterFailover(asked)),
      { note: ({ observed }) => observed, leaveToRunbook: ({ outcomeKnown }) => outcomeKnown },
    );
    run.state.noteFindings(promoted.findings);
  } catch (error) {
    if (error instanceof StepFailed) return error.failure;
    // The only decision beside another try, where it is not known what became of the promotion.
    if (error instanceof OutageDecision)
      throw run.stop(new RunStopped('an operator', `left the promotion of ${to} as it is`));
    throw error;
  }
  await serviceBack(run, {
    deployment,
    primary: to,
    from,
    credentialOf: from,
    hooks,
    release: run.clientsHeld && hooks.release,
  });
  return undefined;
}
