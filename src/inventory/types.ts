import type { z } from 'zod';
import type { ShareGroup } from '../contracts/share-groups';
import type { ParsedInventory } from './schema';
import type { credentialSource } from './schema-values';

type ParsedDeployment = ParsedInventory['deployments'][string];

/** Where a secret is read from: an environment variable, or a file that is read again at every use. */
export type CredentialSource = z.infer<typeof credentialSource>;

/** A holder, approver or operator. How documents must be attested the inventory says; what arrives cannot lower it. */
export type Person = Readonly<ParsedInventory['people'][string]> & { readonly name: string };

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

/** Who must approve at a gate. */
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

/** Somebody who is told of what happens in runs. */
export type NotificationTarget = Readonly<ParsedDeployment['notifications'][number]>;
/** Who is asked for key shares, and for how long. */
export type CeremonyPolicy = Readonly<ParsedDeployment['ceremony']>;

/** A named group of clusters that replicate among themselves. It states membership, never roles. */
export type Deployment = Readonly<Omit<ParsedDeployment, 'clusters' | 'drSets'>> & {
  readonly name: string;
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** Members of each DR set, as listed. */
  readonly drSets: ReadonlyMap<string, readonly string[]>;
  /** The groups of the ceremony's policy with their members on the roster, in term or not. */
  readonly shareGroups: readonly ShareGroup[];
};

/** What the worker knows of the site. */
export interface Inventory extends Pick<ParsedInventory, 'temporal' | 'workers'> {
  readonly people: ReadonlyMap<string, Person>;
  readonly deployments: ReadonlyMap<string, Deployment>;
}
