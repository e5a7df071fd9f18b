import { z } from 'zod';
import { SIGNALS } from './signals';
import type { DecisionAction } from './signals';

/** The type of a schema, as code that only reads it sees it. */
export type DeepReadonly<T> = T extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : T extends object
    ? { readonly [K in keyof T]: DeepReadonly<T[K]> }
    : T;

/** The sender of a signal as the server saw it. Two are the same person only if both type and name are equal. */
export interface Principal {
  /** What vouches for the name: `jwt` for the `sub` of a token. */
  readonly type: string;
  readonly name: string;
}

/** How it is known who sent or said something. `claimed` is shown as UNVERIFIED everywhere. */
export const attestation = z.enum(['signed', 'principal', 'claimed']);
export type Attestation = z.infer<typeof attestation>;

export const attested = z.object({ name: z.string(), how: attestation });
export type Attested = DeepReadonly<z.infer<typeof attested>>;

/** Something that a person must know after the run. Never contains a secret. */
export const finding = z.object({
  severity: z.enum(['info', 'warning', 'critical']),
  /** Stable code, kebab case. */
  code: z.string(),
  text: z.string(),
  /** Who can do what next. */
  next: z.string().optional(),
});
export type Finding = DeepReadonly<z.infer<typeof finding>>;

/** The verdict on one signal. */
export const receipt = z.object({
  signal: z.enum([...Object.values(SIGNALS), 'unknown']),
  /** Counts the signals of this name in this run, from 1. */
  arrival: z.number(),
  verdict: z.enum(['accepted', 'refused']),
  code: z.string(),
  text: z.string(),
  from: attested.optional(),
});
export type Receipt = DeepReadonly<z.infer<typeof receipt>>;

/** The objectives of the inventory for a change of the primary, as far as it states any. */
export interface RunObjectives {
  readonly outageMs?: number | undefined;
  /** 0: none, and proven. */
  readonly lossWalEntries?: number | undefined;
  readonly unprotectedMs?: number | undefined;
}

export const RUN_PHASES = [
  'checking',
  'waiting-for-people',
  'preparing',
  'working',
  'outage',
  're-protecting',
  'finishing',
  'finished',
] as const;
export type RunPhase = (typeof RUN_PHASES)[number];

/** How a run ended. */
export const runOutcome = z.enum(['completed', 'planned', 'refused', 'aborted', 'rolled-back', 'handed-over']);
export type RunOutcome = z.infer<typeof runOutcome>;

/** A fact that the workflow learned, kept for the report. `at` is epoch milliseconds of workflow time. */
export type RunFact = { readonly at: number } & (
  | ({ readonly kind: 'receipt' } & Receipt)
  | ({ readonly kind: 'finding' } & Finding)
  | {
      readonly kind: 'gate';
      readonly gate: string;
      readonly state: 'opened' | 'approved' | 'rejected' | 'expired';
      readonly planDigest: string;
      readonly by: readonly Attested[];
    }
  | {
      readonly kind: 'parked';
      readonly step: string;
      readonly parkingNo: number;
      readonly code: string;
      readonly message: string;
    }
  | {
      readonly kind: 'decided';
      readonly step: string;
      readonly parkingNo: number;
      readonly action: DecisionAction;
      readonly by: Attested;
      readonly reason: string;
    }
  /** The wait ended without a decision: what was missing arrived, or the run was stopped. */
  | { readonly kind: 'unparked'; readonly parkingNo: number }
  /** Clients had no primary from then on, although this run demoted none. `since` is epoch milliseconds. */
  | { readonly kind: 'outage-began'; readonly since: number; readonly why: string; readonly atLeast?: boolean }
  /** Clients were quiesced, or released again. */
  | { readonly kind: 'clients'; readonly held: boolean }
  /** Whether holders, or the people who give tokens, are waited for. If people may decide meanwhile, it is a parked step. */
  | { readonly kind: 'asked'; readonly asked: boolean }
  /** Whether a pause holds the run. It counts from the step that it holds, not from the order. */
  | { readonly kind: 'paused'; readonly paused: boolean }
  /** What was lost, if no comparison of the two clusters can tell. */
  | {
      readonly kind: 'loss';
      readonly loss: 'none' | 'bounded' | 'unknown';
      readonly boundWalEntries?: string;
      readonly why: string;
    }
  /** Who was asked for key shares in this epoch, and why at this time. Who answered is in the receipts. */
  | {
      readonly kind: 'holders-asked';
      readonly epoch: number;
      readonly as: 'holder' | 'stand-by';
      readonly names: readonly string[];
      readonly why: string;
    }
  | {
      readonly kind: 'step-ended';
      readonly step: string;
      readonly number: number;
      readonly attempt: number;
      readonly startedAt: number;
      readonly outcome: 'done' | 'already' | 'skipped' | 'failed';
    }
  | {
      readonly kind: 'control';
      readonly control: 'pause' | 'resume' | 'abort' | 'cancel' | 'take-over';
      readonly by: Attested;
      readonly reason: string;
    }
  /** A take-over was carried out. The run is a failover from then on. */
  | { readonly kind: 'became-failover' }
);

/** The step of the run that an activity serves. Every activity input carries it as `step`. */
export interface StepContext {
  /** The step's name, as the timeline and the report show it. */
  readonly name: string;
  /** The order in which steps began, from 1. */
  readonly number: number;
  /** 1, and one more for each retry: an operator decided on it, or the state of a parked step arrived. */
  readonly attempt: number;
  /** `workflowInfo().originalExecutionRunId`: differs from the activity's own Run ID after a reset. */
  readonly originalRunId: string;
  /** The Run ID that an operator's decision acknowledged after a reset. */
  readonly acknowledgedRunId?: string;
}
