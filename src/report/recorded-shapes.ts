import { z } from 'zod';
import type { ClusterObservation } from '../contracts/observations';
import type { Precondition } from '../contracts/plan';
import type { Attested, Finding, RunFact, RunOutcome } from '../contracts/run-facts';
import { DECISION_ACTIONS, SIGNALS } from '../contracts/signals';

/*
 * The shapes that a report copies from a history. What does not match is left out and counted, never shown: who may
 * write to the namespace may have written it.
 */

const attested: z.ZodType<Attested> = z.object({ name: z.string(), how: z.enum(['signed', 'principal', 'claimed']) });

const findingMembers = {
  severity: z.enum(['info', 'warning', 'critical']),
  code: z.string(),
  text: z.string(),
  next: z.string().optional(),
};
/** A finding in an activity's result. */
export const recordedFinding: z.ZodType<Finding> = z.object(findingMembers);

const at = z.number().min(0).max(8.64e15);

/** A fact in an activity's input. */
export const recordedFact: z.ZodType<RunFact> = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('receipt'),
    at,
    signal: z.enum([...Object.values(SIGNALS), 'unknown']),
    arrival: z.number(),
    verdict: z.enum(['accepted', 'refused']),
    code: z.string(),
    text: z.string(),
    from: attested.optional(),
    alsoFor: z.array(z.number()).optional(),
  }),
  z.object({ kind: z.literal('finding'), at, ...findingMembers }),
  z.object({
    kind: z.literal('phase'),
    at,
    phase: z.enum([
      'checking',
      'waiting-for-people',
      'preparing',
      'working',
      'outage',
      're-protecting',
      'finishing',
      'finished',
    ]),
  }),
  z.object({
    kind: z.literal('gate'),
    at,
    gate: z.string(),
    state: z.enum(['opened', 'approved', 'rejected', 'expired', 'not-needed']),
    planDigest: z.string(),
    by: z.array(attested),
  }),
  z.object({
    kind: z.literal('parked'),
    at,
    step: z.string(),
    parkingNo: z.number(),
    code: z.string(),
    message: z.string(),
    choices: z.array(z.enum(DECISION_ACTIONS)),
  }),
  z.object({
    kind: z.literal('decided'),
    at,
    step: z.string(),
    parkingNo: z.number(),
    action: z.enum(DECISION_ACTIONS),
    by: attested,
    reason: z.string(),
  }),
  z.object({ kind: z.literal('outage-began'), at, since: at, why: z.string() }),
  z.object({
    kind: z.literal('loss'),
    at,
    loss: z.enum(['none', 'bounded', 'unknown']),
    boundWalEntries: z.string().optional(),
    why: z.string(),
  }),
  z.object({
    kind: z.literal('holders-asked'),
    at,
    epoch: z.number(),
    as: z.enum(['holder', 'stand-by']),
    names: z.array(z.string()),
    why: z.string(),
  }),
  z.object({
    kind: z.literal('step-ended'),
    at,
    step: z.string(),
    outcome: z.enum(['done', 'already', 'skipped', 'failed']),
  }),
  z.object({
    kind: z.literal('control'),
    at,
    control: z.enum(['pause', 'resume', 'abort', 'cancel', 'take-over']),
    before: z.string().optional(),
    by: z.string(),
    reason: z.string(),
  }),
]);

/** A precondition in an assessment. */
export const recordedPrecondition: z.ZodType<Precondition> = z.object({
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

/** What was read of one cluster. */
export const recordedObservation: z.ZodType<ClusterObservation> = z.object({
  cluster: z.string(),
  at,
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

/** How the run says that it ended. */
export const recordedOutcome: z.ZodType<RunOutcome> = z.enum([
  'completed',
  'planned',
  'refused',
  'aborted',
  'rolled-back',
  'handed-over',
]);

/** Who is named in the result of a check of approvals or decisions. */
export const recordedAttested = attested;

/** The items that have the shape, and how many have not. */
export function readAll<T>(
  schema: z.ZodType<T>,
  items: readonly unknown[],
): { readonly read: readonly T[]; readonly unread: number } {
  const read = items.flatMap((item) => {
    const parsed = schema.safeParse(item);
    return parsed.success ? [parsed.data] : [];
  });
  return { read, unread: items.length - read.length };
}
