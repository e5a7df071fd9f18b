import type { z } from 'zod';
import type { GateName } from '../contracts/plan';
import type { Attestation, Principal } from '../contracts/run-facts';
import type { ShareGroup } from '../contracts/share-groups';
import type { PublicKeyEntry } from '../keys/signing-keys';
import type { ParsedInventory } from './schema';
import type { credentialSource } from './schema-values';

type ParsedDeployment = ParsedInventory['deployments'][string];

/** Where a secret is read from: an environment variable, or a file that is read again at every use. */
export type CredentialSource = z.infer<typeof credentialSource>;

/** A holder, approver or operator. */
export interface Person {
  readonly name: string;
  readonly groups: readonly string[];
  /** How this person's documents must be attested; what arrives cannot lower it. */
  readonly attestation: Attestation;
  readonly publicKeys: readonly PublicKeyEntry[];
  /** The server's principal on this person's signals. */
  readonly principal?: Principal | undefined;
}

/** How the batch token of a DR set is made anew, and where it is kept. Times in milliseconds. */
export type BatchTokenRotationEntry = Readonly<ParsedDeployment['batchTokens'][string]>;
export type BatchTokenSink = BatchTokenRotationEntry['sink'];
/** A key of a key-value engine of another deployment. */
export type KeyValuePlace = Extract<BatchTokenSink, { keyValue: unknown }>['keyValue'];
/** Where a batch token is read from. */
export type BatchTokenSource = CredentialSource | BatchTokenSink;

/** One cluster: its nodes' API addresses and the sources of its credentials. */
export type ClusterEntry = Readonly<Omit<ParsedDeployment['clusters'][string], 'batchToken'>> & {
  readonly batchToken?: BatchTokenSource | undefined;
  readonly name: string;
  readonly deployment: string;
  /** The DR set that it is a member of. Membership, not a role. */
  readonly drSet: string;
};

/** Who must approve at a gate. Durations in milliseconds. */
export type GatePolicy = Readonly<ParsedDeployment['gates']['plan']>;

export type WantedFilter = Readonly<ParsedDeployment['pathsFilters'][string]>;

/** Lag limit in WAL entries, time limits in milliseconds. */
export type Limits = Readonly<ParsedDeployment['limits']>;

/** What a hook is for; the probe only looks. */
export type HookName = Exclude<keyof ParsedDeployment['hooks'], 'probe'>;
/** A hook: a program to run on the worker, or an HTTP call. */
export type HookEntry = NonNullable<ParsedDeployment['hooks'][HookName]>;
export type CommandHook = Extract<HookEntry, { kind: 'command' }>;
export type CallHook = Extract<HookEntry, { kind: 'call' }>;
/** The address through which clients reach the service. */
export type ProbeHook = NonNullable<ParsedDeployment['hooks']['probe']>;

/** Somebody who is told of what happens in runs. Times in milliseconds. */
export type NotificationTarget = Readonly<ParsedDeployment['notifications'][number]>;

/** Who is asked for key shares, and for how long. Durations in milliseconds. */
export type CeremonyPolicy = Readonly<ParsedDeployment['ceremony']>;

/** A named group of clusters that replicate among themselves. */
export interface Deployment {
  readonly name: string;
  /** Claimed documents count, for everything. Elsewhere they count for nothing. */
  readonly laboratory: boolean;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** Members of each DR set, as listed. Membership only, never roles. */
  readonly drSets: ReadonlyMap<string, readonly string[]>;
  readonly ceremony: CeremonyPolicy;
  /** The groups of the ceremony's policy with their members on the roster, in term or not. */
  readonly shareGroups: readonly ShareGroup[];
  readonly gates: Readonly<Record<GateName, GatePolicy>>;
  /** Groups whose members decide about parked steps, beside those of the gates. */
  readonly operators: readonly string[];
  /** Clusters that may be wiped; each entry serves once. */
  /** By DR set: how its batch token is made anew, and where it is kept. */
  readonly batchTokens: Readonly<Record<string, BatchTokenRotationEntry>>;
  /** The wanted paths filter of each performance secondary, by its name. */
  readonly pathsFilters: Readonly<Record<string, WantedFilter>>;
  readonly limits: Limits;
  readonly marker: { readonly path: string };
  readonly hooks: Readonly<Partial<Record<HookName, HookEntry>>> & { readonly probe?: ProbeHook | undefined };
  readonly notifications: readonly NotificationTarget[];
  /** When people who are waited for are reminded, and when others are told. */
  readonly people: Readonly<ParsedDeployment['people']>;
  /** What `readiness` compares with, and what people attest for it. Durations in milliseconds. */
  readonly readiness: Readonly<ParsedDeployment['readiness']>;
}

/** What the worker knows of the site. It states membership, never roles. */
export interface Inventory {
  readonly temporal: { readonly uiAddress?: string | undefined; readonly namespace: string };
  readonly workers: { readonly signingKey: CredentialSource };
  readonly people: ReadonlyMap<string, Person>;
  readonly deployments: ReadonlyMap<string, Deployment>;
}
