import { ArrivedSignals } from '../../activities/approvals/arrived-signals';
import type { Waiting } from '../../src/contracts/run-status';
import type { GateName } from '../../src/contracts/gates';
import { waitingText } from '../../src/words/status';
import { currentDetails } from '../../workflows/engine/current-details';
import { approvalOf } from './people';
import type { Scenario, TestRun } from './scenario';

const DAY_MS = 24 * 3_600_000;
/** Signed approvals that, for the activities, arrived a day earlier than they did. */
const longAgo = new Set<unknown>();

type Every = (
  this: ArrivedSignals,
  ...asked: Parameters<ArrivedSignals['every']>
) => ReturnType<ArrivedSignals['every']>;
let aged = false;

function ageTheRecord(): void {
  aged = true;
  const every = Object.getOwnPropertyDescriptor(ArrivedSignals.prototype, 'every')?.value as Every;
  jest.spyOn(ArrivedSignals.prototype, 'every').mockImplementation(async function (this: ArrivedSignals, signal) {
    return (await every.call(this, signal)).map((each) => {
      const { document } = (each.content ?? {}) as { readonly document?: unknown };
      return longAgo.has(document) ? { ...each, at: each.at - DAY_MS } : each;
    });
  });
}

/**
 * Approves a gate so that the activities, which determine the age from the server's record, see an approval that is a
 * day old. Nothing waits, and the clock of this machine does not matter.
 */
export async function approveLongAgo(scenario: Scenario, run: TestRun, gate: GateName, name = 'grace'): Promise<void> {
  if (!aged) ageTheRecord();
  const { planDigest } = await run.waitsFor('approval', (waiting) => waiting.gate === gate);
  const approval = { ...(await run.identity()), gate, planDigest };
  const signed = await approvalOf(scenario.person(name), approval);
  longAgo.add(signed.document);
  await run.handle.signal('approve', signed);
}

/** Waits until the run asks for the gate again, checks that it reports this everywhere, and approves the gate. */
export async function approveAgain(run: TestRun, gate: GateName, name = 'henry'): Promise<Approval> {
  const again = (each: Waiting): each is Approval =>
    each.for === 'approval' && each.gate === gate && each.again !== undefined;
  // The step with the change parks, and `retry` asks for the gate again; for a promotion the runbook itself asks again.
  const tooOld = new RegExp(`[Dd]ecide retry: the run asks gate ${gate} again`);
  const first = await run.until(`gate ${gate} asked for again`, ({ waiting: all }) =>
    all.find((each) => again(each) || (each.for === 'decision' && tooOld.test(each.next ?? ''))),
  );
  if (first.for === 'decision') await run.decide('retry', first.step);
  const waiting = await run.until(`gate ${gate} open again`, ({ waiting: all }) => all.find(again));
  const status = await run.status();
  const command = `runbook approve ${status.workflowId} --gate ${gate}`;
  const shown = [currentDetails(status), JSON.stringify(waitingText(status.workflowId, waiting, String))];
  for (const text of shown) {
    expect(text).toContain(command);
    expect(text).toContain('Needed again: the approvals were too old right before the change');
    for (const missing of waiting.missing) expect(text).toContain(missing);
  }
  expect(waiting).toMatchObject({ approved: [], missing: [expect.stringMatching(/^\d of /)] });
  await run.approve(gate, name);
  return waiting;
}

type Approval = Extract<Waiting, { for: 'approval' }>;
