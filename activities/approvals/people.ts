import type { RunbookActivities } from '../../src/contracts/activities';
import { isUndecodable } from '../../src/contracts/signals';
import { nextCommandOf } from '../../src/contracts/next-commands';
import { GATE_NAMES } from '../../src/contracts/plan';
import type { GateName } from '../../src/contracts/plan';
import { RunbookError, isRunbookError } from '../../src/errors';
import { countsIn, findDeployment } from '../../src/inventory';
import { verifyApproval, verifyDecision } from '../../src/keys';
import type { VerifiedApproval } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { execute } from '../execution';
import { ArrivedSignals } from './arrived-signals';
import { judgeControls } from './controls';
import { judgeGate, mayNotDecide, onlyClaimed, personLookup, verifiedApprovals } from './person-lookup';

/** What people sent, checked against the inventory (protocol: "Approvals and decisions"), read where it arrived. */
export function createPeopleActivities(
  dependencies: ActivityDependencies,
): Pick<RunbookActivities, 'checkApprovals' | 'checkControls' | 'checkDecisions'> {
  const { inventory } = dependencies;
  const person = personLookup(inventory);
  return {
    checkApprovals: execute(async ({ deployment, gate, planDigest, requestedBy, accepted, arrived }, { run }) => {
      const name = gateName(gate);
      const signals = new ArrivedSignals(run);
      // As numbers, so that no document stands in an input once more.
      const before = (await signals.all('approve', accepted)).map(({ content, arrival }) => ({
        approval: content,
        arrival,
      }));
      const approvals: VerifiedApproval[] = await verifiedApprovals(inventory, run, name, planDigest, before);
      const verdicts: Awaited<ReturnType<RunbookActivities['checkApprovals']>>['verdicts'][number][] = [];
      for (const { arrival, content, principal } of await signals.all('approve', arrived)) {
        const refuse = (code: string, text: string) => verdicts.push({ arrival, accepted: false, code, text });
        if (isUndecodable(content)) {
          refuse('undecodable', `the payload could not be read (encoding ${content.undecodable}); send JSON`);
          continue;
        }
        try {
          const approval = await verifyApproval(content, { run, person, gate, planDigest, principal });
          const by = { name: approval.name, how: approval.how };
          if (approvals.some((each) => each.digest === approval.digest)) {
            verdicts.push({ arrival, accepted: false, code: 'repeated', text: 'this very document is in hand', by });
            continue;
          }
          approvals.push(approval);
          if (!countsIn(findDeployment(inventory, deployment), approval.how)) {
            const text = onlyClaimed(approval.name, nextCommandOf.approve(run.wid, name, approval.name));
            verdicts.push({ arrival, accepted: false, code: 'only-claimed', text, by });
            continue;
          }
          verdicts.push({
            arrival,
            accepted: true,
            code: approval.verdict,
            text: approval.verdict === 'approve' ? `approves gate ${gate}` : `rejects gate ${gate}`,
            by,
          });
        } catch (error) {
          if (!isRunbookError(error)) throw error;
          refuse('refused', error.message);
        }
      }
      return { verdicts, ...judgeGate(inventory, deployment, name, requestedBy, approvals) };
    }),

    checkControls: execute((input, { run }) => judgeControls(inventory, run, input)),

    checkDecisions: execute(async ({ deployment, parked, arrived }, { run }) => {
      const signals = new ArrivedSignals(run);
      const verdicts: Awaited<ReturnType<RunbookActivities['checkDecisions']>>['verdicts'][number][] = [];
      for (const { arrival, content, principal } of await signals.all('decide', arrived)) {
        const refuse = (code: string, text: string) => verdicts.push({ arrival, accepted: false, code, text });
        if (isUndecodable(content)) {
          refuse('undecodable', `the payload could not be read (encoding ${content.undecodable}); send JSON`);
          continue;
        }
        try {
          const verified = await verifyDecision(content, { run, person, principal });
          const { name, how, action, reason, step, parkingNo } = verified;
          const by = { name, how };
          const mayNot = mayNotDecide(inventory, deployment, run, verified);
          const waiting = parked.find((each) => each.step === step && each.parkingNo === parkingNo);
          if (!waiting)
            verdicts.push({
              arrival,
              accepted: false,
              code: 'not-parked',
              text: 'no step waits for this decision: another step, another parking, or decided already',
              by,
            });
          else if (!waiting.choices.includes(action)) {
            verdicts.push({
              arrival,
              accepted: false,
              code: 'no-such-choice',
              text: `"${action}" is not a choice here; choices: ${waiting.choices.join(', ')}`,
              by,
            });
          } else if (mayNot !== undefined) {
            verdicts.push({ arrival, accepted: false, ...mayNot, by });
          } else {
            verdicts.push({
              arrival,
              accepted: true,
              code: 'accepted',
              text: `${action} "${step}"`,
              by,
              decision: { step, parkingNo, action, reason, rid: run.rid },
            });
          }
        } catch (error) {
          if (!isRunbookError(error)) throw error;
          refuse('refused', error.message);
        }
      }
      return { verdicts };
    }),
  };
}

function gateName(gate: string): GateName {
  const known = GATE_NAMES.find((each) => each === gate);
  if (known !== undefined) return known;
  throw new RunbookError('INVALID_INPUT', 'No gate has this name.', { needed: `one of: ${GATE_NAMES.join(', ')}` });
}
