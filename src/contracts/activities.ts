import type { CeremonyHandle, OperationTokenReference, OwnAttempt, Sealed } from './ceremony';
import type { NotificationFacts } from './notifications';
import type { ClusterObservation, WalIndex } from './observations';
import type { Check, PlanDocument } from './plan';
import type { Attested, Finding, RunObjectives } from './run-facts';
import type { OutsideSecondary, QuiesceMethod, ReplicationKind, TokenUse } from './runbook-inputs';
import type { GateName } from './gates';

/*
 * Inputs and results of activities that more than one of them, or a workflow, knows by name. Names only: no address, path or
 * credential passes through Temporal. Times are epoch milliseconds unless the name says otherwise.
 */

export interface OnDeployment {
  readonly deployment: string;
}

export interface OnCluster extends OnDeployment {
  readonly cluster: string;
}

/** A primary and one of its secondaries. */
export interface BetweenClusters extends OnDeployment {
  readonly primary: string;
  readonly secondary: string;
}

export interface OfKind {
  readonly kind: ReplicationKind;
}

/** Required for a secondary of kind `dr`, which accepts nothing without it. The activity checks that. */
export interface SecondaryToken {
  readonly token?: OperationTokenReference | undefined;
}

/** The result of an activity that changes something: it changed the state, or the state was already there. */
export interface ChangeResult {
  readonly outcome: 'done' | 'already';
  /** What was observed afterwards, in a few words. */
  readonly observed: string;
  /** When the call was sent; absent if it was not. */
  readonly calledAt?: number;
  readonly confirmedAt: number;
  /** Calls to the changing endpoint in this attempt. */
  readonly calls: number;
  readonly findings?: readonly Finding[];
}

/**
 * The approvals that met each gate: numbers of signals and updates `approve` of this run, never documents. The activity that acts
 * reads the documents from the history of its run, so no input can bring one.
 */
export type ApprovalNumbers = Readonly<Partial<Record<GateName, readonly number[]>>>;

/** Lets a dangerous activity verify for itself that it may act. */
export interface Authority {
  readonly plan: PlanDocument;
  readonly approvals: ApprovalNumbers;
}

/** What the workers know about the site, so that the workflow need not guess. */
export interface SiteFacts {
  /** Whether workers keep reports as files. If unknown, the run tries to write them. */
  readonly reportFiles?: boolean;
  /** Who started this run according to the server; absent if it records nobody, or if another run started it. */
  readonly startedBy?: Attested;
  /** Absent if the inventory states none. */
  readonly objectives?: RunObjectives;
  /** Absent if nobody outside the run is notified. */
  readonly notifications?: NotificationFacts;
}

export interface GatePolicyFacts {
  readonly validForMs: number;
  /** People who may approve, for the messages. */
  readonly approvers: readonly string[];
  readonly approvals: number;
}

/** What was read, the checks, and the plan if one can be made. `R`: what the workflow follows. */
export interface Assessment<R> {
  readonly observations: readonly ClusterObservation[];
  readonly preconditions: readonly Check[];
  /** Absent if a precondition fails so early that no plan can be made. */
  readonly plan?: PlanDocument;
  readonly site: SiteFacts;
  /** The gates that this plan needs. */
  readonly gates: Partial<Readonly<Record<GateName, GatePolicyFacts>>>;
  /** What the plan says, for the workflow to follow. */
  readonly route?: R;
}

/** How clients are quiesced while a primary is changed; `none`: they are not. */
export type Quiesce = QuiesceMethod | 'none';

/** Which client hooks the inventory has, besides `quiesce`. */
export interface ClientHooks {
  readonly release: boolean;
  readonly traffic: boolean;
  readonly probe: boolean;
}

/** The configuration of rate-limit quotas before a run added to it. */
export interface QuotasBefore {
  readonly exempt: readonly string[];
  /** Not reported by older versions. */
  readonly absolute?: readonly string[];
  readonly auditLogging: boolean;
  /** Epoch ms, with the mark of the worker that read it. */
  readonly at?: number;
  readonly attested?: string;
}

/** What keeps the clients out, and what undoes it. */
export type HeldClients =
  | { readonly by: 'hook'; readonly canRelease: boolean }
  | { readonly by: 'quota'; readonly cluster: string; readonly before: QuotasBefore };

/**
 * `none` is proven by clients that were quiesced before W was read, if the other cluster had all of W, or by equal Merkle roots.
 * `bounded` states the maximum loss, as far as it could be read.
 */
export interface LossEvidence {
  readonly loss: 'none' | 'bounded';
  readonly oldPrimaryRoot?: string;
  readonly newPrimaryRoot?: string;
  /** WAL entries of the old primary that the new one was not seen to have reached. */
  readonly boundWalEntries?: string;
  /** W, if clients were quiesced, with the time and the mark of the worker that saw it. */
  readonly wal?: WalIndex;
  readonly at?: number;
  readonly attested?: string;
  readonly why: string;
}

export interface TokenDisposal {
  readonly cluster: string;
  /** `forgotten`: an orphan that people removed from the record. */
  readonly state: 'deleted' | 'kept' | 'unproven' | 'forgotten';
  /** The cluster did not answer, and nothing was sent to it. */
  readonly unanswered?: true;
  readonly text: string;
}

/** A paths filter of a performance secondary. */
export interface PathsFilterFacts {
  readonly mode: 'allow' | 'deny';
  readonly paths: readonly string[];
}

/** The paths filter of a performance secondary; `none` if it gets everything. */
export type FilterState = PathsFilterFacts | 'none';

/** What a primary must keep for a secondary right before the secondary is pointed at it. */
export interface ExpectedFilter {
  readonly filter: FilterState;
}

/** What `drSecondaryOnboarding` and `performanceSecondaryOnboarding` follow. */
export interface SecondaryOnboardingRoute {
  readonly kind: ReplicationKind;
  readonly primary: string;
  readonly secondary: string;
  /** `sys/health` cluster_id of the secondary before it is wiped: the id of its activation token and of its filter. */
  readonly id: string;
  /** Whether the primary has to be enabled first. */
  readonly enablesPrimary: boolean;
  readonly form: 'auto' | 'public-key' | 'wrapped';
  /** Whether to take a snapshot of the secondary before it is wiped. */
  readonly snapshot?: boolean;
  /** A secondary of another team; `secondary` is its id then. */
  readonly outside?: OutsideSecondary;
  /** The paths filter that it gets; absent if it gets everything. */
  readonly filter?: PathsFilterFacts;
}

/** The filter that a secondary must have, under the id of its next activation token. */
export interface KnownFilter {
  /** The cluster ID of the secondary. */
  readonly id: string;
  /** Absent if it has none. */
  readonly filter?: PathsFilterFacts;
}

/** A secondary that should follow the new primary, with the filter that it must have there. */
export interface Follower extends KnownFilter {
  readonly cluster: string;
}

/** The token that is generated, and what it is made for. */
export type WantedToken =
  | {
      readonly kind: 'operation-token';
      readonly uses: readonly TokenUse[];
      /** If the token is for a person: their key, and the approvals. */
      readonly recipientPgpKey?: string;
      readonly authority?: Authority;
    }
  | { readonly kind: 'root-token'; readonly recipientPgpKey: string; readonly authority: Authority };

/** What each activity of a token generation needs. */
export interface GenerationInput extends OnCluster {
  readonly ceremony: CeremonyHandle;
  readonly wanted: WantedToken;
  /** Attempts of this run that did not end, for tokens whose key does not show whose attempt it is. */
  readonly attempts: readonly OwnAttempt[];
}

/**
 * How a last share ended. `next-set`: the service rejected these shares. `again`: there is no token; if one may exist that nobody
 * holds, the findings say so.
 */
export type GenerationOutcome =
  | {
      readonly next: 'token';
      /** An operation token, sealed for this run. */
      readonly sealed?: Sealed<'operation-token'>;
      /** For a recipient: base64 of an OpenPGP message. */
      readonly encrypted?: string;
      readonly findings: readonly Finding[];
    }
  | { readonly next: 'next-set' | 'again'; readonly findings: readonly Finding[] };

/**
 * How Temporal runs an activity, and what happens to it in a run that was reset.
 *
 * - `read`: reads only, may be repeated at will.
 * - `wait`: one long wait that polls inside.
 * - `change`: changes something, and refuses after a reset until an operator acknowledges it; `long-change`: may last as long as
 *   a wait; `keys`: on the queue of the host that has the ceremony's keys.
 * - `outage-wait`, `outage-change`: the same inside an outage, where a lost worker must cost little.
 * - `once`: on that queue too, and never twice. Its presence in the history says that it may have been done.
 * - `open`: on that queue too, and changes nothing.
 * - `tell`: notifies people, another run or the record, or writes the report. Repeated at will, and never held back.
 */
export type ActivityKind =
  'read' | 'wait' | 'outage-wait' | 'change' | 'long-change' | 'outage-change' | 'keys' | 'once' | 'open' | 'tell';

/** The same kind for several activities. */
function all<K extends ActivityKind, N extends string>(kind: K, ...names: readonly N[]) {
  return Object.fromEntries(names.map((name) => [name, kind])) as Readonly<Record<N, K>>;
}

/** Every activity with its kind. A missing one does not compile, see `workflows/engine/activity-calls.ts`. */
export const ACTIVITY_KINDS = {
  ...all('read', 'assessBatchTokenRotation', 'assessOperationTokenCeremony', 'assessDrFailover', 'assessDrReindex'),
  ...all('read', 'assessDrRejoin', 'assessDrSecondaryOnboarding', 'assessDrSwitchover'),
  ...all('read', 'assessFilterReconciliation', 'assessMerkleCheck', 'assessPerformancePromotion'),
  ...all('read', 'assessPerformanceRejoin', 'assessPerformanceSecondaryOnboarding'),
  ...all('read', 'assessPrimaryEnablement', 'assessRehearsal', 'assessReplicationTeardown'),
  ...all('read', 'assessRootTokenCeremony', 'assessSecondaryDecommission', 'assessSecondaryRepointing'),
  ...all('read', 'assessOperationTokenDisposal', 'checkApprovals', 'checkControls', 'checkCredential'),
  ...all('read', 'checkDecisions', 'checkFormerPrimaryDemoted', 'checkUnaskedShares'),
  ...all('read', 'compareDynamicFilters', 'compareMerkleRoots', 'describeRun'),
  ...all('read', 'readDeploymentStatus', 'readPathsFilter', 'readQuotas', 'readRunbookInput', 'readSignalEvents'),
  ...all('wait', 'awaitDrStreaming', 'awaitOutsideSecondary', 'awaitPerformanceSecondaries'),
  ...all('wait', 'awaitPrimaryBack', 'awaitPrimaryGone', 'awaitPrimaryStays', 'awaitReplicationDisabled'),
  ...all('wait', 'awaitRole', 'awaitSecondaryGone', 'followBootstrap'),
  ...all('wait', 'followDrReindex', 'probeMerkleTree', 'probeProvidedToken', 'sampleWal'),
  ...all(
    'outage-wait',
    'awaitPerformancePrimary',
    'awaitServiceReady',
    'compareAfterDemotion',
    'probeService',
    'readDeployment',
  ),
  ...all('change', 'createCeremony', 'createRehearsal', 'deleteOperationTokens'),
  ...all('change', 'disablePrimary', 'disableSecondary', 'disposeLedgerToken', 'enablePrimary'),
  ...all('change', 'enableSecondary', 'fenceLostPrimary', 'forgetLedgerToken', 'forgetPrimary'),
  ...all('change', 'issueOutsideToken', 'proveWrite', 'quiesceByQuota', 'revokeSecondary'),
  ...all('change', 'rotateBatchToken', 'settleGeneration', 'startDrReindex', 'takeKeptToken'),
  ...all('change', 'unfenceFormerPrimary', 'updatePrimary', 'writePathsFilter'),
  ...all('long-change', 'takeSnapshot', 'writeMarker'),
  ...all('outage-change', 'demotePrimary', 'promoteSecondary', 'releaseQuota', 'runHook'),
  ...all('keys', 'destroyCeremonyKeys', 'startGeneration', 'takeProvidedTokens'),
  ...all('once', 'completeGeneration'),
  ...all('open', 'openEnvelopes', 'openRehearsal'),
  ...all('tell', 'assessReadiness', 'notify', 'requestTakeOver', 'writeReportFiles'),
};

const CHANGING: readonly ActivityKind[] = ['change', 'long-change', 'outage-change', 'keys', 'once'];

/** Whether an activity changes something. True for an unknown activity. */
export function changesSomething(activity: string): boolean {
  const kind = Object.hasOwn(ACTIVITY_KINDS, activity)
    ? ACTIVITY_KINDS[activity as keyof typeof ACTIVITY_KINDS]
    : undefined;
  return kind === undefined || CHANGING.includes(kind);
}
