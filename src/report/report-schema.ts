import { z } from 'zod';
import type { ClusterObservation } from '../contracts/observations';
import type { Check } from '../contracts/plan';
import { runbookPlan } from '../contracts/plan-schema';
import type { Report } from '../contracts/report';
import type { Attested, Finding, RunOutcome } from '../contracts/run-facts';
import { DECISION_ACTIONS, SIGNALS } from '../contracts/signals';

/*
 * The report's JSON form, for programs that read it: docs/report.schema.json is made from this, and a test compares both.
 */

const time = z.string().describe('ISO 8601, UTC, with milliseconds');
const milliseconds = z.number();
const signal = z.enum([...Object.values(SIGNALS), 'unknown']);
const stepOutcome = z.enum(['done', 'already', 'skipped', 'failed', 'running', 'not-ordered']);

const attested: z.ZodType<Attested> = z.object({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) });

const recordedFinding: z.ZodType<Finding> = z.object({
  severity: z.enum(['info', 'warning', 'critical']),
  code: z.string(),
  text: z.string(),
  next: z.string().optional(),
});

const recordedPrecondition: z.ZodType<Check> = z.object({
  name: z.string(),
  cluster: z.string().optional(),
  observed: z.string(),
  needed: z.string(),
  verdict: z.enum(['ok', 'fail', 'warn', 'not-checkable']),
  next: z.string().optional(),
});

const optionalText = z.string().optional();
const replication = z.object({
  mode: z.string(),
  state: optionalText,
  connectionState: optionalText,
  setId: optionalText,
  secondaryId: optionalText,
  primaryClusterAddress: optionalText,
  knownPrimaryClusterAddresses: z.array(z.string()).optional(),
  knownSecondaries: z.array(z.string()).optional(),
  lastWal: optionalText,
  lastRemoteWal: optionalText,
  merkleRoot: optionalText,
  corruptedMerkleTree: z.boolean().optional(),
  reindexInProgress: z.boolean().optional(),
  peers: z.array(
    z.object({
      id: optionalText,
      connected: z.boolean(),
      clusterAddress: optionalText,
      heartbeatAgeMs: z.number().optional(),
      canaryAgeMs: z.number().optional(),
    }),
  ),
});

const recordedObservation: z.ZodType<ClusterObservation> = z.object({
  cluster: z.string(),
  at: z.number(),
  reachable: z.boolean(),
  error: optionalText,
  nodes: z.array(
    z.object({
      address: z.string(),
      reachable: z.boolean(),
      error: optionalText,
      initialized: z.boolean().optional(),
      sealed: z.boolean().optional(),
      standby: z.boolean().optional(),
      version: optionalText,
      healthStatus: z.number().optional(),
    }),
  ),
  activeNode: optionalText,
  clusterId: optionalText,
  version: optionalText,
  dr: replication.optional(),
  performance: replication.optional(),
  attempt: z
    .object({ started: z.boolean(), fingerprint: optionalText, progress: z.number(), required: z.number() })
    .optional(),
});

const recordedOutcome: z.ZodType<RunOutcome> = z.enum([
  'completed',
  'planned',
  'refused',
  'aborted',
  'rolled-back',
  'handed-over',
]);

const step = z.strictObject({
  number: z.number(),
  name: z.string(),
  attempt: z.number(),
  activities: z.array(
    z.strictObject({
      type: z.string(),
      cluster: z.string().optional(),
      startedAt: time,
      endedAt: time.optional(),
      tries: z.number(),
      outcome: z.enum(['done', 'already', 'not-done', 'failed', 'running', 'cancelled', 'not-ordered']),
      observed: z.string().optional(),
    }),
  ),
  startedAt: time,
  endedAt: time.optional(),
  outcome: stepOutcome,
});

const outage = z.strictObject({
  startedAt: time,
  startedBecause: z.string().optional(),
  endedAt: time.optional(),
  endedBy: z.enum(['probe', 'service-ready']).optional(),
  serviceReadyAt: time.optional(),
  probeAt: time.optional(),
  totalMs: milliseconds.optional(),
  serviceMs: milliseconds.optional(),
  machineMs: milliseconds.optional(),
  peopleMs: milliseconds.optional(),
});

const parking = z.strictObject({
  step: z.string(),
  parkingNo: z.number(),
  at: time,
  code: z.string(),
  message: z.string(),
  decision: z.strictObject({ action: z.enum(DECISION_ACTIONS), by: attested, reason: z.string(), at: time }).optional(),
});

const receipt = z.strictObject({
  signal,
  arrival: z.number(),
  verdict: z.enum(['accepted', 'refused']),
  code: z.string(),
  text: z.string(),
  from: attested.optional(),
  at: time,
});

const how = z.enum(['signed', 'principal', 'claimed']);
const holder = z.strictObject({
  name: z.string(),
  epoch: z.number(),
  as: z.enum(['holder', 'stand-by']),
  askedAt: time.optional(),
  why: z.string().optional(),
  declined: z.strictObject({ at: time, how, text: z.string() }).optional(),
  gave: z.strictObject({ at: time, how }).optional(),
});

/** A report (`replication-runbooks/report/v1`). */
export const reportSchema = z.strictObject({
  schema: z.literal('replication-runbooks/report/v1'),
  runbook: z.string(),
  namespace: z.string(),
  workflowId: z.string(),
  runId: z.string(),
  deployment: z.string().optional(),
  outcome: z.union([recordedOutcome, z.enum(['running', 'failed', 'terminated', 'cancelled', 'timed-out'])]),
  reason: z.string().optional(),
  requestedBy: attested.optional(),
  ticket: z.string().optional(),
  window: z.strictObject({ notBefore: z.string().optional(), notAfter: z.string() }).optional(),
  asked: z.record(z.string(), z.unknown()).optional(),
  takenOver: z.strictObject({ at: time, by: z.string(), reason: z.string() }).optional(),
  startedAt: time,
  endedAt: time.optional(),
  asOfEvent: z.number(),
  plan: z.strictObject({ digest: z.string(), content: runbookPlan }).optional(),
  preconditions: z.array(recordedPrecondition),
  steps: z.array(step),
  gates: z.array(
    z.strictObject({
      gate: z.string(),
      planDigest: z.string(),
      openedAt: time,
      closedAt: time.optional(),
      state: z.string(),
      by: z.array(attested),
    }),
  ),
  parkings: z.array(parking),
  holders: z.array(holder).optional(),
  receipts: z.array(receipt),
  signals: z.array(z.strictObject({ signal, arrival: z.number(), at: time, answered: z.boolean() })),
  controls: z.array(z.strictObject({ control: z.string(), by: z.string(), reason: z.string(), at: time })),
  findings: z.array(z.intersection(recordedFinding, z.object({ at: time }))),
  outage: outage.optional(),
  loss: z
    .strictObject({
      loss: z.enum(['none', 'bounded', 'unknown']),
      why: z.string(),
      boundWalEntries: z.string().optional(),
      oldPrimaryRoot: z.string().optional(),
      newPrimaryRoot: z.string().optional(),
    })
    .optional(),
  withoutDrProtection: z.strictObject({ from: time, to: time.optional(), totalMs: milliseconds.optional() }).optional(),
  filters: z.array(
    z.strictObject({
      id: z.string(),
      secondary: z.string().optional(),
      before: z.string().optional(),
      after: z.string().optional(),
    }),
  ),
  tokens: z.array(z.strictObject({ cluster: z.string(), state: z.string(), text: z.string() })),
  finalState: z.array(recordedObservation),
  result: z.record(z.string(), z.unknown()).optional(),
  leftToDo: z.array(z.string()),
  historyEvents: z.number(),
}) satisfies z.ZodType<Report>;

/** The JSON Schema (draft 2020-12) of a report, as docs/report.schema.json has it. */
export function reportJsonSchema(): object {
  return z.toJSONSchema(reportSchema, { io: 'output' });
}
