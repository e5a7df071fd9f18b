import { z } from 'zod';
import { clusterObservation } from './observations';
import { check, runbookPlan } from './payloads';
import { attestation, attested, finding, receipt, runOutcome } from './run-facts';
import type { DeepReadonly } from './run-facts';
import { DECISION_ACTIONS } from './signals';

/*
 * The report of a run, also for programs that read it. docs/report.schema.json is generated from this, and a test compares the two.
 * Workflows use only the types. Durations are milliseconds.
 */

const time = z.string().describe('ISO 8601, UTC, with milliseconds');
const text = z.string().optional();
const milliseconds = z.number().optional();

/** One step as the run knows it. */
const step = z.strictObject({
  /** The order in which the steps began. */
  number: z.number(),
  /** Its number in the plan that people signed. */
  planned: z.number().optional(),
  /** There is a plan, which could not foresee this step. */
  unforeseen: z.boolean().optional(),
  name: z.string(),
  attempt: z.number(),
  activities: z.array(
    z.strictObject({
      type: z.string(),
      cluster: text,
      startedAt: time,
      endedAt: time.optional(),
      /** Attempts that Temporal made. */
      tries: z.number(),
      outcome: z.enum(['done', 'already', 'failed', 'running', 'cancelled', 'not-ordered']),
      /** What was observed, or the error's code and message. */
      observed: text,
    }),
  ),
  startedAt: time,
  endedAt: time.optional(),
  /** `not-ordered`: the run ended before Temporal accepted the order. */
  outcome: z.enum(['done', 'already', 'skipped', 'failed', 'running', 'not-ordered']),
});

/** How long clients had no primary, and where the time went. */
const outage = z.strictObject({
  startedAt: time,
  /** Why it is counted from there, if that is not the demotion of this run. */
  startedBecause: text,
  /** It is not known since when there was no primary. The figures are minimums. */
  atLeast: z.boolean().optional(),
  endedAt: time.optional(),
  /** `probe`: the first success through the clients' address. `service-ready`: the new primary served a write. */
  endedBy: z.enum(['probe', 'service-ready', 'primary-back']).optional(),
  serviceReadyAt: time.optional(),
  probeAt: time.optional(),
  totalMs: milliseconds,
  /** Before this run began, when nobody worked on it here. */
  beforeRunMs: milliseconds,
  /** Spent in calls to the service and in waiting for its state. */
  serviceMs: milliseconds,
  /** Spent between activities: Temporal and the worker. */
  machineMs: milliseconds,
  /** Spent waiting for people; the target is 0. */
  peopleMs: milliseconds,
});

const span = z.strictObject({ from: time, to: time.optional() });

const objective = z.strictObject({
  objective: z.enum(['outage', 'loss', 'unprotected']),
  /** Milliseconds. For `loss`: WAL entries, where 0 means that no loss is proven. */
  atMost: z.number(),
  /** In the same unit, as a minimum if it is not measured exactly; absent if nothing was measured. */
  observed: z.number().optional(),
  verdict: z.enum(['met', 'missed', 'not-measured']),
});

const gate = z.strictObject({
  gate: z.string(),
  planDigest: z.string(),
  openedAt: time,
  closedAt: time.optional(),
  state: z.string(),
  by: z.array(attested),
});

const parking = z.strictObject({
  step: z.string(),
  parkingNo: z.number(),
  at: time,
  code: z.string(),
  message: z.string(),
  decision: z.strictObject({ action: z.enum(DECISION_ACTIONS), by: attested, reason: z.string(), at: time }).optional(),
  /** Without a decision: what was missing arrived, or the run was stopped. */
  endedAt: time.optional(),
});

const holder = z.strictObject({
  name: z.string(),
  epoch: z.number(),
  as: z.enum(['holder', 'stand-by']),
  /** Absent if somebody answered without being asked. */
  askedAt: time.optional(),
  why: text,
  /** The last share that was accepted. */
  gave: z.strictObject({ at: time, how: attestation }).optional(),
});

/** What a run did, as the run itself knows it (`replication-runbooks/report/v1`). */
export const reportSchema = z.strictObject({
  schema: z.literal('replication-runbooks/report/v1'),
  runbook: z.string(),
  namespace: z.string(),
  workflowId: z.string(),
  runId: z.string(),
  deployment: text,
  /** `running`, `terminated` and the like, if the run itself did not report an outcome. */
  outcome: z.union([runOutcome, z.enum(['running', 'failed', 'terminated', 'cancelled', 'timed-out'])]),
  reason: text,
  requestedBy: attested.optional(),
  /** Every member of the input, with defaults; absent if the input is not one of this runbook. */
  asked: z.record(z.string(), z.unknown()).optional(),
  /** A failover took the run over. From then on it was one. */
  takenOver: z.strictObject({ at: time, by: attested, reason: z.string() }).optional(),
  startedAt: time,
  endedAt: time.optional(),
  plan: z.strictObject({ digest: z.string(), content: runbookPlan }).optional(),
  preconditions: z.array(check),
  steps: z.array(step),
  gates: z.array(gate),
  parkings: z.array(parking),
  /** Who was asked for a key share and when, and who gave one; absent if nobody was asked. */
  holders: z.array(holder).optional(),
  /** When nothing else went on and the run waited for people who give key shares or tokens, or for people to resume it. */
  waits: z.array(span.extend({ for: z.enum(['key-shares', 'resume']) })).optional(),
  receipts: z.array(receipt.extend({ at: time })),
  controls: z.array(z.strictObject({ control: z.string(), by: attested, reason: z.string(), at: time })),
  findings: z.array(finding.extend({ at: time })),
  outage: outage.optional(),
  loss: z
    .strictObject({
      /** `unknown`: the old primary was gone, and no sample limits what it had written. */
      loss: z.enum(['none', 'bounded', 'unknown']),
      why: z.string(),
      boundWalEntries: text,
      oldPrimaryRoot: text,
      newPrimaryRoot: text,
    })
    .optional(),
  /** From quiescing the clients until their release: what they noticed, besides the outage. Absent if they were not quiesced. */
  clientsHeld: z
    .strictObject({
      from: time,
      to: time.optional(),
      totalMs: milliseconds,
      /** Each time, if they were quiesced several times. */
      spans: z.array(span).optional(),
    })
    .optional(),
  /** From the demotion until the first DR secondary streams again. */
  withoutDrProtection: z.strictObject({ from: time, to: time.optional(), totalMs: milliseconds }).optional(),
  /** The objectives of the inventory for this outage, and whether they were met. Absent if it has none, or nothing was demoted. */
  objectives: z.array(objective).optional(),
  tokens: z.array(z.strictObject({ cluster: z.string(), state: z.string(), text: z.string() })),
  /** Each cluster as the run first read it; absent if it read none, or read them only once. */
  initialState: z.array(clusterObservation).optional(),
  /** Each cluster as last read. */
  finalState: z.array(clusterObservation),
  /** Whether roles were read after the last activity that may have changed one; absent if the run read no cluster. */
  finalRoles: z.enum(['unchanged', 'read-after-changes', 'not-read-after-changes']).optional(),
  /** What the runbook found out, such as the points of `readiness`. */
  result: z.record(z.string(), z.unknown()).optional(),
  /** Of an open run: what people decided and the run is carrying out. */
  carryingOut: text,
  /** What people still have to do, and how. */
  leftToDo: z.array(z.string()),
  /** Events of the history when the report was made. For a run that ended with its report: all that the server has. */
  historyEvents: z.number(),
  /** Digest of all events. Absent for an open run, and in what a run itself wrote, because that cannot contain its own end. */
  history: z.strictObject({ events: z.number(), sha256: z.string() }).optional(),
});
export type Report = DeepReadonly<z.infer<typeof reportSchema>>;
export type ReportStep = Report['steps'][number];
export type ReportedObjective = NonNullable<Report['objectives']>[number];
export type OutageSplit = NonNullable<Report['outage']>;

/** The result of a runbook whose purpose is to find something out. JSON, and never a secret. */
export type RunbookFindings = NonNullable<Report['result']>;
