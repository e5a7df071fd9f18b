import type { RunbookActivities } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { withNext } from '../../src/contracts/receipts';
import type { Attested } from '../../src/contracts/run-facts';
import { isUndecodable } from '../../src/contracts/signals';
import type { ControlAction } from '../../src/contracts/signals';
import { RunbookError, isRunbookError } from '../../src/errors';
import { countsIn, decidersOf, findDeployment } from '../../src/inventory';
import type { Inventory } from '../../src/inventory';
import { verifyControl } from '../../src/keys';
import type { DocumentContext, RunContext, VerifiedControl } from '../../src/keys';
import { ArrivedSignals } from './arrived-signals';
import { judgeGate, onlyClaimed, personLookup } from './person-lookup';

type Checked = Awaited<ReturnType<RunbookActivities['checkControls']>>;
type Asked = Parameters<RunbookActivities['checkControls']>[0];

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
  inventory: Inventory,
  deployment: string,
  document: unknown,
  context: Omit<DocumentContext, 'person'> & { readonly action: ControlAction },
): Promise<VerifiedControl> {
  const { action, run } = context;
  const control = await verifyControl(document, { ...context, person: personLookup(inventory) });
  const { name, how } = control;
  const found = findDeployment(inventory, deployment);
  if (!countsIn(found, how))
    throw new RunbookError('NOT_APPROVED', onlyClaimed(name, nextCommandOf.control(action, run.wid, name)));
  const deciders = decidersOf(inventory, found).map((each) => each.name);
  if (!deciders.includes(name))
    throw new RunbookError(
      'NOT_APPROVED',
      `"${action}" is for the approvers and operators of this deployment: ${deciders.join(', ')}`,
    );
  return control;
}

/** What `checkControls` answers: each order is read where it arrived. */
export async function judgeControls(inventory: Inventory, run: RunContext, asked: Asked): Promise<Checked> {
  const { deployment, action, arrived, before, requestedBy } = asked;
  const { laboratory } = findDeployment(inventory, deployment);
  const verdicts: Checked['verdicts'][number][] = [];
  const accept = (arrival: number, order: Pick<Checked['verdicts'][number], 'by' | 'control'>) =>
    verdicts.push({ arrival, accepted: true, code: 'accepted', text: 'accepted', ...order });
  for (const { arrival, content, principal } of await new ArrivedSignals(run).all(action, arrived)) {
    const refuse = (code: string, text: string) => verdicts.push({ arrival, accepted: false, code, text });
    if (isUndecodable(content)) {
      refuse('undecodable', `the payload could not be read (encoding ${content.undecodable}); send JSON`);
      continue;
    }
    const { document, asker } = action === 'takeOver' ? ofTakeOver(content) : { document: content };
    if (document === undefined) {
      const text = 'a take-over needs a document of who orders it';
      if (laboratory) accept(arrival, { by: { name: asker ?? 'unknown', how: 'claimed' }, control: { reason: '' } });
      else refuse('not-signed', withNext(text, howTo(action, run)));
      continue;
    }
    try {
      const control = await demandControl(inventory, deployment, document, { run, action, principal });
      const { name, how, reason, digest, before: step } = control;
      accept(arrival, {
        by: { name, how },
        control: { reason, ...(step === undefined ? {} : { before: step }), ...(how === 'signed' ? { digest } : {}) },
      });
    } catch (error) {
      if (!isRunbookError(error)) throw error;
      const told = error.code === 'NOT_APPROVED';
      refuse('refused', told ? error.message : withNext(error.message, howTo(action, run)));
    }
  }
  const by = [...before, ...verdicts.flatMap((each) => (each.accepted && each.by ? [each.by] : []))];
  return { verdicts, missing: action === 'takeOver' ? missingFor(inventory, deployment, requestedBy, by) : [] };
}

/** What the input of a failover says of who orders the take-over. */
function ofTakeOver(content: unknown): { readonly document: unknown; readonly asker?: string } {
  const given = (content ?? {}) as { readonly takeOverDocument?: unknown; readonly requestedBy?: unknown };
  const { takeOverDocument: document, requestedBy } = given;
  return { document, ...(typeof requestedBy === 'string' ? { asker: requestedBy.trim() } : {}) };
}

/** Inside an outage a take-over needs what gate promote needs. */
function missingFor(
  inventory: Inventory,
  deployment: string,
  requestedBy: string | undefined,
  by: readonly Attested[],
): readonly string[] {
  const ordered = by.map((each) => ({ ...each, verdict: 'approve' as const, comment: '', iat: 0, digest: '' }));
  return judgeGate(inventory, deployment, 'promote', requestedBy ?? 'unknown', ordered).missing;
}
