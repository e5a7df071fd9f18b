import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import type { Attested } from '../../src/contracts/run-facts';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import type { InputOf } from '../../src/contracts/runbook-inputs';
import type { ControlAction } from '../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../src/errors';
import { findDeployment } from '../../src/inventory';
import { verifyControl } from '../../src/keys';
import type { DocumentContext, RunContext, VerifiedControl } from '../../src/keys';
import { currentExecution } from '../execution';
import { ArrivedSignals, judgeArrived } from './arrived-signals';
import type { JudgedSignal } from './arrived-signals';
import { judgeGate, mayNotOrder, personLookup } from './person-lookup';

/** What an accepted order says; of `takeOver` with the input of the failover. */
interface More {
  readonly control?: Ordered;
  readonly failover?: Omit<InputOf<'drFailover'>, 'takeOverDocument'> | undefined;
}

interface Ordered {
  readonly reason: string;
  readonly before?: string;
  /** Tells documents apart: each counts once. Absent where the server's record attests the very signal, and of claims. */
  readonly digest?: string;
}

/** Who must give such an order, and with what: the command that makes it. */
function howTo(action: ControlAction, { wid }: RunContext): string {
  return `\`${nextCommandOf.control(action, wid)}\``;
}

/**
 * Verifies an order to a whole run: a document of somebody who may decide in this deployment. Outside of a laboratory no
 * claim counts.
 *
 * @throws RunbookError DOCUMENT_INVALID, NOT_APPROVED
 */
export async function demandControl(
  deployment: string,
  document: unknown,
  context: Omit<DocumentContext, 'person'> & { readonly action: ControlAction },
): Promise<VerifiedControl> {
  const { action, run } = context;
  const control = await verifyControl(document, { ...context, person: personLookup(currentExecution().inventory) });
  const command = nextCommandOf.control(action, run.wid, control.name);
  const mayNot = mayNotOrder(deployment, control, action, command);
  if (mayNot) throw new RunbookError('NOT_APPROVED', mayNot.text);
  return control;
}

interface ControlsInput {
  readonly deployment: string;
  readonly action: ControlAction;
  /** Numbers of the signals: each order is read where it arrived. */
  readonly arrived: readonly number[];
  /** Who ordered the take-over before. */
  readonly before: readonly Attested[];
  /** Who asked for the failover. */
  readonly requestedBy?: string | undefined;
}

/**
 * Verifies orders to the whole run, all of one name. Of `takeOver` it also says who else must order it, in words, for gate
 * `promote` to be satisfied.
 */
export async function checkControls(input: ControlsInput): Promise<{
  readonly verdicts: readonly (JudgedSignal & Partial<More>)[];
  readonly missing: readonly string[];
}> {
  const { deployment, action, arrived, before, requestedBy } = input;
  const { inventory, run } = currentExecution();
  const { laboratory } = findDeployment(inventory, deployment);
  const accepted = { accepted: true, code: 'accepted', text: 'accepted' };
  const signals = await new ArrivedSignals(run).all(action, arrived);
  let asker = requestedBy;
  const verdicts = await judgeArrived<More>(signals, async ({ content, principal }) => {
    let document = content;
    let failover: Omit<InputOf<'drFailover'>, 'takeOverDocument'> | undefined;
    if (action === 'takeOver') {
      const { data } = RUNBOOK_INPUTS.drFailover.safeParse(content);
      if (!data) return { accepted: false, code: 'malformed', text: 'needs the input object of drFailover' };
      ({ takeOverDocument: document, ...failover } = data);
      asker ??= data.requestedBy;
    }
    if (document === undefined) {
      const text = withNext('a take-over needs a document of who orders it', howTo(action, run));
      if (!laboratory) return { accepted: false, code: 'not-signed', text, failover };
      const by: Attested = { name: failover?.requestedBy ?? 'unknown', how: 'claimed' };
      return { ...accepted, by, control: { reason: '' }, failover };
    }
    const control = await demandControl(deployment, document, { run, action, principal }).catch((error: unknown) => {
      if (!isRunbookError(error) || error.code === 'NOT_APPROVED') throw error;
      throw error.with({ message: withNext(error.message, howTo(action, run)) });
    });
    const { name, how, reason, digest, before: step } = control;
    const order = { reason, ...(step === undefined ? {} : { before: step }), ...(how === 'signed' ? { digest } : {}) };
    return { ...accepted, by: { name, how }, control: order, failover };
  });
  const by = [...before, ...verdicts.flatMap((each) => (each.accepted && each.by ? [each.by] : []))];
  return { verdicts, missing: action === 'takeOver' ? missingFor(deployment, asker, by) : [] };
}

/** Inside an outage a take-over needs what gate promote needs. */
function missingFor(deployment: string, requestedBy: string | undefined, by: readonly Attested[]): readonly string[] {
  const ordered = by.map((each) => ({ ...each, verdict: 'approve' as const, comment: '', iat: 0, digest: '' }));
  return judgeGate(deployment, 'promote', requestedBy, ordered).missing;
}
