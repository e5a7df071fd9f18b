import type { BatchTokenRotationInput } from '../runbook-inputs';
import type { Finding } from '../run-facts';
import type { OnCluster } from './inputs';
import type { Assessment, ChangeResult } from './results';

/** What `batchTokenRotation` follows. Of tokens only facts: never one of them, and no accessor. */
export interface BatchTokenRoute {
  readonly drSet: string;
  /** The cluster that makes the token. */
  readonly primary: string;
  /** Where the token is kept, in words. */
  readonly sink: string;
  /** Whether the present token has less than half of its life left, or is of no use. */
  readonly due: boolean;
  readonly why: string;
  /** What is absent on the primary and will be made: nothing where the input does not ask for it. */
  readonly prepare: readonly ('policy' | 'role')[];
}

/** What may be told of a batch token. */
export interface BatchTokenFacts {
  readonly ttlSeconds?: number;
  /** Since it was made. */
  readonly ageSeconds?: number;
}

/** A rotation that is done: the new token is where the inventory wants it, and proven. */
export interface BatchTokenRotated {
  readonly drSet: string;
  readonly primary: string;
  readonly sink: string;
  /** ISO time. */
  readonly expiresAt: string;
  readonly ttlSeconds: number;
  /** By path, as the new token itself told them. */
  readonly rights: Readonly<Record<string, readonly string[]>>;
  /** DR secondaries that took it for a read, and those of which that cannot be known before it is used. */
  readonly provenOn: readonly string[];
  readonly notCheckableOn: readonly string[];
  /** The token that it replaced; absent where there was none. */
  readonly replaced?: BatchTokenFacts & { readonly usable: boolean };
  /** Further tokens that this step may have made, which nobody holds and which end with their lifetime. */
  readonly extraTokens: number;
  readonly findings: readonly Finding[];
}

/** Batch tokens for DR operations (facts 5.7, 11.16): made and kept by one activity, never in Temporal. */
export interface BatchTokenActivities {
  /** Reads role, policy, rights, the present token and where it is kept. Changes nothing. */
  assessBatchTokenRotation(input: { readonly input: BatchTokenRotationInput }): Promise<Assessment<BatchTokenRoute>>;
  /** Makes what is absent of policy and role; never changes one that is there. */
  prepareBatchTokenRole(input: OnCluster & { readonly drSet: string }): Promise<ChangeResult>;
  /** Makes a token on the primary, proves it, puts it where it is kept and reads it back: all in here. */
  rotateBatchToken(input: OnCluster & { readonly drSet: string }): Promise<BatchTokenRotated>;
}
