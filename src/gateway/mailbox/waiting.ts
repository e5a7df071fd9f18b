/** What waits for one person, as open runs say. Only a hint where to look: plans and invitations prove themselves. */
import type { MailboxRun, WaitingAnswer, WaitingItem } from '../../contracts/mailbox';
import { runbookPlan } from '../../contracts/payloads';
import type { RunbookPlan } from '../../contracts/payloads';
import type { RunStatus, Waiting } from '../../contracts/run-status';
import { jsonIn } from '../../contracts/words';
import { approversOf, decidersOf } from '../../inventory';
import type { Deployment, Inventory } from '../../inventory';
import type { OpenRun } from './runs';

const isoTime = (ms: number): string => new Date(ms).toISOString();

/** Whether a person has a part in a deployment: holds a share, approves or decides. */
export function takesPart({ deployments, people }: Inventory, deployment: string | undefined, person: string): boolean {
  const found = deployment === undefined ? undefined : deployments.get(deployment);
  if (found === undefined) return false;
  const { ceremony, gates, operators } = found;
  const groups = [...operators, ...Object.values(gates).flatMap((gate) => gate.groups)];
  return (
    [...ceremony.holders, ...ceremony.standBy].includes(person) ||
    people.get(person)?.groups.some((group) => groups.includes(group)) === true
  );
}

/** The answer to `GET /v1/waiting`. Pure. */
export function waitingFor(
  person: string,
  inventory: Inventory,
  { namespace, runs, now }: { readonly namespace: string; readonly runs: readonly OpenRun[]; readonly now: number },
): WaitingAnswer {
  const items: WaitingItem[] = [];
  const controlled: MailboxRun[] = [];
  const unreachable: { workflowId: string; runId: string }[] = [];
  for (const { status, ...run } of runs) {
    const deployment = inventory.deployments.get(run.deployment);
    if (deployment === undefined || !takesPart(inventory, run.deployment, person)) continue;
    if (status === undefined) {
      unreachable.push({ workflowId: run.workflowId, runId: run.runId });
      continue;
    }
    const shown = { ...run, namespace, ...requestIn(status) };
    const whose: Whose = { person, inventory, deployment };
    if (decides(whose)) controlled.push(shown);
    for (const each of status.waiting) {
      const item = itemOf(each, status, whose);
      if (item !== undefined) items.push({ ...shown, ...item });
    }
  }
  return { schema: 'runbooks/waiting/v1', at: isoTime(now), person, items, runs: controlled, unreachable };
}

interface Whose {
  readonly person: string;
  readonly inventory: Inventory;
  readonly deployment: Deployment;
}

function planIn({ planText }: RunStatus): RunbookPlan | undefined {
  return planText === undefined ? undefined : runbookPlan.safeParse(jsonIn(planText)).data;
}

/** Who requested a run, and why: as the plan says, otherwise the invitation. */
function requestIn(status: RunStatus): Pick<MailboxRun, 'requestedBy' | 'reason'> {
  const { requestedBy = status.asked?.requestedBy.name, reason = status.asked?.reason } = planIn(status) ?? {};
  return { ...(requestedBy !== undefined && { requestedBy }), ...(reason !== undefined && { reason }) };
}

const decides = ({ person, inventory, deployment }: Whose): boolean =>
  decidersOf(inventory, deployment).some(({ name }) => name === person);

type ItemMembers = WaitingItem extends infer I ? (I extends WaitingItem ? Omit<I, keyof MailboxRun> : never) : never;

/** What this person can do about it; undefined if it waits for others. */
function itemOf(waiting: Waiting, status: RunStatus, whose: Whose): ItemMembers | undefined {
  switch (waiting.for) {
    case 'approval':
      return approvalOf(waiting, status, whose);
    case 'shares':
    case 'rehearsal':
    case 'action':
      return invitationOf(waiting, status, whose);
    case 'decision': {
      const { step, parkingNo, choices, decidedOnce, code, message, observed, needed, next } = waiting;
      if (!decides(whose) || decidedOnce?.by.name === whose.person) return undefined;
      const failure = {
        code,
        message,
        ...(observed && { observed }),
        ...(needed && { needed }),
        ...(next && { next }),
      };
      return { kind: 'decision', step, parkingNo, failure, choices, ...(decidedOnce && { decidedOnce }) };
    }
    case 'resume':
    case 'window':
      return undefined;
  }
}

function approvalOf(
  { gate, planDigest, missing, approved, until }: Extract<Waiting, { readonly for: 'approval' }>,
  status: RunStatus,
  { person, inventory, deployment }: Whose,
): ItemMembers | undefined {
  const { planText } = status;
  if (planText === undefined || approved.some(({ name }) => name === person)) return undefined;
  const isRequester = deployment.gates[gate].excludeRequester && requestIn(status).requestedBy === person;
  const mayApprove = approversOf(inventory, deployment, gate).some(({ name }) => name === person);
  if (isRequester || !mayApprove) return undefined;
  const closes = until === undefined ? {} : { until: isoTime(until) };
  return { kind: 'approval', gate, planDigest, plan: planText, approvals: approved, missing, ...closes };
}

function invitationOf(
  waiting: Extract<Waiting, { readonly for: 'shares' | 'rehearsal' | 'action' }>,
  { invitation, asked }: RunStatus,
  { person: holder }: Whose,
): ItemMembers | undefined {
  if (invitation === undefined || asked === undefined) return undefined;
  const kind = asked.kind === 'rehearsal' ? 'rehearsal' : asked.collects === 'tokens' ? 'token' : 'share';
  const ends = 'until' in waiting ? { until: isoTime(waiting.until) } : {};
  const item = { kind, holder, invitation, ...ends } as const;
  if (waiting.for === 'action') return waiting.commands?.some(({ who }) => who === holder) === true ? item : undefined;
  const names = waiting.for === 'shares' ? waiting.missingHolders : waiting.missing;
  if (names.includes(holder)) return item;
  const standBy = waiting.for === 'shares' && waiting.standBy?.holders.includes(holder) ? waiting.standBy : undefined;
  return standBy && { ...item, askedFrom: isoTime(standBy.askedFrom) };
}
