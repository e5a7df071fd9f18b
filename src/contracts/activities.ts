import type { CeremonyHandle, CeremonyTarget, Envelope, EnvelopeVerdict, OperationTokenReference } from './ceremony';
import type { ClusterObservation, WalIndex } from './observations';
import type { PlanDocument, SwitchoverAssessment } from './plan';
import type { Report } from './report';
import type { Attested, Finding, RunFact, RunOutcome, StepContext } from './run-facts';
import type { DrSwitchoverInput, TokenUse } from './runbook-inputs';
import type { Sealed } from './sealed';
import type { DecisionAction } from './signals';

/*
 * Every activity takes one object and gives one object. `step` says which step of the run it serves. Names only: no
 * address, path or credential passes through Temporal. Times are epoch milliseconds unless the name says otherwise.
 */

interface StepInput {
  readonly step: StepContext;
}

interface OnCluster extends StepInput {
  readonly deployment: string;
  readonly cluster: string;
}

/** What a changing activity found out: it changed the state, or the state was there already. */
export interface ChangeResult {
  readonly outcome: 'done' | 'already';
  /** What was observed afterwards, in a few words. */
  readonly observed: string;
  /** When the call was sent; absent where it was not. */
  readonly calledAt?: number;
  readonly confirmedAt: number;
  /** Calls to the changing endpoint that this attempt made. */
  readonly calls: number;
  readonly findings?: readonly Finding[];
}

/** What lets a dangerous activity check for itself that it may act. */
export interface Authority {
  readonly plan: PlanDocument;
  /** The approvals as they arrived: JWS strings or plain members. */
  readonly approvals: readonly unknown[];
}

export interface AssessSwitchoverInput extends StepInput {
  readonly input: DrSwitchoverInput;
  /** The digest of the plan that was approved: a changed plan fails. */
  readonly approvedDigest?: string;
  /** The fingerprint of our own ceremony, whose attempt is not foreign. */
  readonly ownFingerprint?: string;
}

/** What the workers know of the site, so that the workflow need not guess. */
export interface SiteFacts {
  readonly searchAttributesRegistered: boolean;
  /** Base of links to the Web UI, where the inventory gives one. */
  readonly uiAddress?: string;
}

export interface GatePolicyFacts {
  readonly needed: boolean;
  readonly validForMs: number;
  /** Names that may approve, for the messages. */
  readonly approvers: readonly string[];
  readonly approvals: number;
}

export interface AssessSwitchoverResult extends SwitchoverAssessment {
  readonly site: SiteFacts;
  readonly gates: { readonly plan: GatePolicyFacts; readonly go: GatePolicyFacts };
  /** What the plan says, for the workflow to follow. */
  readonly route?: SwitchoverRoute;
}

export interface SwitchoverRoute {
  readonly from: string;
  readonly to: string;
  readonly otherDrSecondaries: readonly string[];
  readonly performanceSecondaries: readonly string[];
  readonly rejoin: boolean;
  readonly tokenSource: 'batch' | 'ceremony';
  readonly hooks: {
    readonly quiesce: boolean;
    readonly release: boolean;
    readonly traffic: boolean;
    readonly probe: boolean;
  };
}

export interface MarkerResult {
  /** Path of the marker in the key-value engine. */
  readonly path: string;
  /** The value written: random, not a secret. */
  readonly value: string;
  /** W: the primary's `last_dr_wal` read after the write. */
  readonly wal: WalIndex;
  readonly at: number;
}

export interface CatchUpResult {
  readonly target: WalIndex;
  readonly reached: WalIndex;
  readonly samples: number;
  readonly heartbeatAgeMs?: number;
  /** The primary's `last_dr_wal` when the secondary had reached the target. */
  readonly primaryWal?: WalIndex;
  readonly at: number;
}

export interface DemoteResult extends ChangeResult {
  /** The primary's `last_dr_wal` read right before the call. */
  readonly walBefore?: WalIndex;
}

/** `none` is proven by equal Merkle roots; `bounded` says by how much at most, as far as it could be read. */
export interface LossEvidence {
  readonly loss: 'none' | 'bounded';
  readonly oldPrimaryRoot?: string;
  readonly newPrimaryRoot?: string;
  /** WAL entries of the old primary that the new one was not seen to have reached. */
  readonly boundWalEntries?: string;
  readonly why: string;
}

export interface ServiceReadyResult {
  readonly primaryAt: number;
  /** The same node was active on several reads. */
  readonly stableActiveNode: string;
  /** The marker was read with a token from before the switchover. */
  readonly markerReadAt?: number;
  readonly writtenAt: number;
  /** Service ready: all of the above. */
  readonly readyAt: number;
  readonly findings?: readonly Finding[];
}

export interface ProbeResult {
  readonly firstSuccessAt: number;
  readonly tries: number;
}

export interface ActivationTokenResult {
  readonly id: string;
  /** `none` where the secondary follows the primary already: no token was issued. */
  readonly form: 'encrypted' | 'wrapped' | 'none';
  readonly token?: Sealed<'activation-token'>;
  /** The active node of the secondary that holds the private key, where the form is `encrypted`. */
  readonly keyNode?: string;
  readonly revokedBefore: boolean;
}

export interface StreamingResult {
  readonly state: string;
  readonly connectedTo?: string;
  readonly at: number;
  readonly observed: string;
}

export interface TokenDisposal {
  readonly cluster: string;
  readonly state: 'deleted' | 'kept' | 'unproven';
  readonly text: string;
}

/** A primary and one of its secondaries. */
interface BetweenClusters extends StepInput {
  readonly deployment: string;
  readonly primary: string;
  readonly secondary: string;
}

/** A paths filter of a performance secondary. */
export interface PathsFilterFacts {
  readonly mode: 'allow' | 'deny';
  readonly paths: readonly string[];
}

/** Every activity that the workers offer, by the name under which Temporal knows it. */
export interface RunbookActivities {
  // Reading and judging
  assessDrSwitchover(input: AssessSwitchoverInput): Promise<AssessSwitchoverResult>;
  readDeployment(
    input: StepInput & { readonly deployment: string },
  ): Promise<{ readonly observations: readonly ClusterObservation[] }>;
  assessCeremony(input: OnCluster & { readonly uses: readonly TokenUse[] }): Promise<{
    readonly observation: ClusterObservation;
    readonly preconditions: SwitchoverAssessment['preconditions'];
    readonly site: SiteFacts;
  }>;
  describeRun(input: {
    readonly workflowId: string;
  }): Promise<{ readonly type: string; readonly runId: string; readonly status: string; readonly link?: string }>;

  // People
  /** Local activity. Verifies each document against the inventory and says whether the gate's policy is met. */
  checkApprovals(input: {
    readonly deployment: string;
    readonly gate: string;
    readonly planDigest: string;
    readonly requestedBy: string;
    readonly accepted: readonly unknown[];
    readonly arrived: readonly { readonly arrival: number; readonly receivedAt: number; readonly input: unknown }[];
  }): Promise<{
    readonly verdicts: readonly {
      readonly arrival: number;
      readonly accepted: boolean;
      readonly code: string;
      readonly text: string;
      readonly by?: Attested;
    }[];
    readonly satisfied: boolean;
    readonly rejectedBy?: Attested;
    readonly approvedBy: readonly Attested[];
    readonly missing: readonly string[];
  }>;
  /** Local activity. */
  checkDecisions(input: {
    readonly deployment: string;
    readonly parked: readonly {
      readonly step: string;
      readonly parkingNo: number;
      readonly choices: readonly DecisionAction[];
    }[];
    readonly arrived: readonly { readonly arrival: number; readonly receivedAt: number; readonly input: unknown }[];
  }): Promise<{
    readonly verdicts: readonly {
      readonly arrival: number;
      readonly accepted: boolean;
      readonly code: string;
      readonly text: string;
      readonly by?: Attested;
      readonly decision?: {
        readonly step: string;
        readonly parkingNo: number;
        readonly action: DecisionAction;
        readonly reason: string;
        readonly rid: string;
      };
    }[];
  }>;
  /** Local activity: the cheap checks of an envelope, which need no key. */
  inspectEnvelopes(input: {
    readonly deployment: string;
    /** Absent while no ceremony is under way: everything is refused, and plain text is still noticed. */
    readonly ceremony?: CeremonyHandle;
    readonly arrived: readonly { readonly arrival: number; readonly receivedAt: number; readonly input: unknown }[];
  }): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }>;

  // Ceremony. All but the first run on the queue of the key home.
  createCeremony(
    input: StepInput & {
      readonly deployment: string;
      readonly runbook: string;
      readonly reason: string;
      readonly requestedBy: string;
      readonly targets: readonly CeremonyTarget[];
      readonly epoch: number;
      readonly cid?: string;
      readonly inputDigest: string;
    },
  ): Promise<CeremonyHandle & { readonly fingerprint: string }>;
  openEnvelopes(
    input: StepInput & {
      readonly deployment: string;
      readonly ceremony: CeremonyHandle;
      readonly held: readonly Envelope[];
      readonly arrived: readonly {
        readonly arrival: number;
        readonly receivedAt: number;
        readonly envelope: Envelope;
      }[];
    },
  ): Promise<{ readonly verdicts: readonly EnvelopeVerdict[] }>;
  generateOperationToken(
    input: OnCluster & {
      readonly ceremony: CeremonyHandle;
      readonly uses: readonly TokenUse[];
      readonly envelopes: readonly Envelope[];
    },
  ): Promise<{
    readonly token: Sealed<'operation-token'>;
    readonly attempts: number;
    readonly findings: readonly Finding[];
    /** Holders whose share is proven bad. */
    readonly badShares: readonly string[];
  }>;
  destroyCeremonyKeys(
    input: StepInput & { readonly ceremony: CeremonyHandle },
  ): Promise<{ readonly destroyed: boolean; readonly text: string }>;
  deleteOperationTokens(
    input: StepInput & { readonly deployment: string; readonly tokens: readonly OperationTokenReference[] },
  ): Promise<{ readonly disposals: readonly TokenDisposal[]; readonly findings: readonly Finding[] }>;

  // Hooks of the inventory
  runHook(
    input: StepInput & {
      readonly deployment: string;
      readonly hook: 'quiesce' | 'traffic' | 'release';
      readonly from: string;
      readonly to: string;
    },
  ): Promise<ChangeResult>;
  probeService(input: StepInput & { readonly deployment: string; readonly budgetMs?: number }): Promise<ProbeResult>;

  // Switchover
  writeMarker(input: OnCluster): Promise<MarkerResult>;
  awaitCatchUp(
    input: BetweenClusters & {
      readonly wal: WalIndex;
    },
  ): Promise<CatchUpResult>;
  demoteDrPrimary(
    input: OnCluster & {
      readonly authority: Authority;
      /** What the successor must have received at the last look before the call: its `last_remote_wal`. */
      readonly reached?: WalIndex;
    },
  ): Promise<DemoteResult>;
  compareAfterDemotion(
    input: StepInput & {
      readonly deployment: string;
      readonly oldPrimary: string;
      readonly newPrimary: string;
      readonly walBefore?: WalIndex;
    },
  ): Promise<LossEvidence>;
  promoteDrSecondary(
    input: OnCluster & {
      readonly token: OperationTokenReference;
      readonly authority: Authority;
      /** The cluster that must be proven not to be primary before this one is promoted. */
      readonly otherCluster: string;
    },
  ): Promise<ChangeResult>;
  awaitServiceReady(
    input: OnCluster & {
      /** Its value is looked for at the path that the inventory names. */
      readonly marker?: MarkerResult;
      /** The cluster of the same DR set whose credential, from before the switchover, is used. */
      readonly credentialOf: string;
    },
  ): Promise<ServiceReadyResult>;

  // Re-protection
  issueDrActivationToken(
    input: BetweenClusters & {
      readonly token: OperationTokenReference;
    },
  ): Promise<ActivationTokenResult>;
  updateDrPrimary(
    input: BetweenClusters & {
      readonly token: OperationTokenReference;
      readonly activation: ActivationTokenResult;
    },
  ): Promise<ChangeResult & { readonly keyLost?: boolean }>;
  awaitDrStreaming(
    input: StepInput & { readonly deployment: string; readonly primary: string; readonly secondary: string },
  ): Promise<StreamingResult>;
  /** Whether performance secondaries follow the new primary: one answer for each. */
  awaitPerformanceSecondaries(
    input: StepInput & {
      readonly deployment: string;
      readonly primary: string;
      readonly secondaries: readonly string[];
    },
  ): Promise<{
    readonly following: readonly {
      readonly cluster: string;
      readonly follows: boolean;
      readonly observed: string;
      readonly id?: string;
    }[];
  }>;
  /** Reads the filter under `fromId` and writes it under `toId`, then reads it back. */
  copyPathsFilter(
    input: OnCluster & {
      readonly fromId: string;
      readonly toId: string;
      /** What was read before, where the service may have dropped it since. */
      readonly filter?: PathsFilterFacts;
    },
  ): Promise<ChangeResult & { readonly filter?: PathsFilterFacts }>;
  issuePerformanceActivationToken(
    input: BetweenClusters & {
      readonly id: string;
    },
  ): Promise<ActivationTokenResult>;
  updatePerformancePrimary(
    input: BetweenClusters & {
      readonly activation: ActivationTokenResult;
    },
  ): Promise<ChangeResult & { readonly keyLost?: boolean }>;
  compareDynamicFilters(
    input: BetweenClusters & {
      readonly id: string;
    },
  ): Promise<{ readonly equal: boolean; readonly observed: string }>;

  // Report
  composeReport(
    input: StepInput & {
      readonly outcome: RunOutcome;
      readonly leftToDo: readonly string[];
      /** All facts that no earlier activity carried. */
      readonly facts: readonly RunFact[];
    },
  ): Promise<{ readonly report: Report; readonly files: readonly string[] }>;
}
