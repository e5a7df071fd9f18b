import { createHash } from 'node:crypto';
import type { GatePolicyFacts, SiteFacts } from '../../src/contracts/activities';
import { NOTIFICATION_EVENTS } from '../../src/contracts/notifications';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { AllowedOperation, PlanDocument, RunbookPlan } from '../../src/contracts/plan';
import type { RunbookName } from '../../src/contracts/names';
import type { Attested } from '../../src/contracts/run-facts';
import type { GateName } from '../../src/contracts/gates';
import { approversOf, inventoryDigest } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { currentExecution } from '../execution';
import { firstReading, report } from '../../src/moves/every-run';
import { applicable } from '../../src/moves/move';
import type { Listed, Move, Named, PlannedOperation } from '../../src/moves/move';
import { opensIncident } from '../notifications/notifications';
import { observeCluster } from '../observe';
import { startOf } from './arrived-signals';

/** Reads every cluster of a deployment at once; one that does not answer is an observation too. */
export function observeDeployment(deployment: string): Promise<ClusterObservation[]> {
  const { clusters, signal } = currentExecution();
  return Promise.all(clusters.all(deployment).map((access) => observeCluster(access, signal)));
}

export async function siteFacts(deployment: string): Promise<SiteFacts> {
  const { inventory, reportDirectory } = currentExecution();
  const found = inventory.deployments.get(deployment);
  const { notifications: targets = [], people } = found ?? {};
  const startedBy = await starterOf();
  const site = {
    reportFiles: reportDirectory !== undefined,
    ...(startedBy && { startedBy }),
    ...(found?.objectives && { objectives: found.objectives }),
  };
  if (targets.length === 0 || !people) return site;
  const events = NOTIFICATION_EVENTS.filter((event) => targets.some((target) => target.events.includes(event)));
  const opens = events.filter((event) => targets.some((target) => opensIncident(target, event)));
  return { ...site, notifications: { events, opens, ...people } };
}

/** The person who, by the server's record, started this activity's run. A run that another run started has none. */
async function starterOf(): Promise<Attested | undefined> {
  try {
    const event = await startOf(currentExecution().run);
    const isChild = event?.workflowExecutionStartedEventAttributes?.parentWorkflowExecution?.workflowId;
    return event?.principal?.name && !isChild ? { name: event.principal.name, how: 'principal' } : undefined;
  } catch {
    // Not worth failing a run: the name in the input is shown instead.
    return undefined;
  }
}

/** What the workflow needs from a gate's policy, to wait and to show who is missing. */
export function gateFacts(deployment: Deployment, gate: GateName, requestedBy: string | undefined): GatePolicyFacts {
  const { inventory } = currentExecution();
  const { validForMs, approvals, excludeRequester } = deployment.gates[gate];
  const approvers = approversOf(inventory, deployment, gate).map((person) => person.name);
  const others = approvers.filter((name) => !excludeRequester || name !== requestedBy);
  return { validForMs, approvers: others, approvals };
}

/** A cluster as plans identify it: an ID that was not read is empty, which no activity accepts. */
function identityOf({ cluster, clusterId = '' }: Named): AllowedOperation['on'] {
  return { cluster, clusterId };
}

/** The cluster that a promoted one replaces: binds an approved promotion to the cluster that must not be primary. */
export function inPlaceOf(cluster: string): string {
  return `in place of ${cluster}`;
}

export interface Planning {
  readonly runbook: RunbookName;
  readonly input: { readonly deployment: string; readonly reason: string; readonly requestedBy?: string | undefined };
  /** The clusters that the plan is about. */
  readonly clusters: readonly ClusterObservation[];
  /** What the run does, and may have to do, in this order. Operations, warnings and steps of the plan come from it. */
  readonly moves: Listed<Move>;
  /** What people must know of the run as a whole. */
  readonly warnings?: Listed<string>;
  readonly choices?: RunbookPlan['choices'];
}

/**
 * The plan that people approve. It contains nothing that changes over time, such as a lag or a timestamp: a plan that is
 * made again and has not changed must have the same digest.
 */
export function planDocument(planning: Planning): PlanDocument {
  const { runbook, input, clusters, choices = {} } = planning;
  const moves = applicable<Move>([firstReading, ...planning.moves, report]);
  const plan: RunbookPlan = {
    runbook,
    deployment: input.deployment,
    clusters: clusters.map((each) => ({
      ...identityOf(each),
      version: each.version ?? 'not reported',
      dr: each.dr?.mode ?? 'not read',
      performance: each.performance?.mode ?? 'not read',
    })),
    operations: operationsOf(moves).map(({ kind, endpoint, gate, on, with: other, detail }) => ({
      ...{ kind, endpoint, gate, on: identityOf(on), with: other && identityOf(other), detail },
    })),
    warnings: [
      ...applicable(planning.warnings ?? []),
      ...moves.flatMap(({ warnings }) => (warnings ? applicable(warnings) : [])),
    ],
    steps: moves.flatMap(({ step, note, when }) => (step === undefined ? [] : [{ step, note, when }])),
    choices,
    inventory: inventoryDigest(currentExecution().inventory, input.deployment),
    reason: input.reason,
    ...(input.requestedBy === undefined ? {} : { requestedBy: input.requestedBy }),
  };
  const text = JSON.stringify(plan);
  return { text, digest: planDigest(text) };
}

/** The digest that approvers sign: base64url(SHA-256) of the plan's text, unchanged. */
export function planDigest(text: string): string {
  return createHash('sha256').update(text, 'utf8').digest('base64url');
}

/** Every operation that these moves may need. */
export function operationsOf(moves: Listed<Move>): PlannedOperation[] {
  return applicable(moves).flatMap(({ operations }) => (operations ? applicable(operations) : []));
}
