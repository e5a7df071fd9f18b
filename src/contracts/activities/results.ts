import type { NotificationFacts } from '../notifications';
import type { ClusterObservation, WalIndex } from '../observations';
import type { GateName, PlanDocument, Check } from '../plan';
import type { Attested, Finding } from '../run-facts';

/* What activities give and take beside names. Times are epoch milliseconds unless the name says otherwise. */

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

/** What the workers know of the site, so that the workflow need not guess. */
export interface SiteFacts {
  /** Whether workers keep reports as files; the run asks where it does not know. */
  readonly reportFiles?: boolean;
  /** Whom the server saw start this run; absent where it records nobody, or another run started it. */
  readonly startedBy?: Attested;
  readonly searchAttributesRegistered: boolean;
  /** Base of links to the Web UI, where the inventory gives one. */
  readonly uiAddress?: string;
  /** The groups of which key shares must come, in words; absent where the inventory names none. */
  readonly shareGroups?: string;
  /** Somebody who may decide is known without a signature: plain documents can be accepted. */
  readonly plainDocuments?: true;
  /** Absent where nobody outside of the run is told anything. */
  readonly notifications?: NotificationFacts;
}

export interface GatePolicyFacts {
  readonly needed: boolean;
  readonly validForMs: number;
  /** Names that may approve, for the messages. */
  readonly approvers: readonly string[];
  readonly approvals: number;
}

/** What was read, what stands against the run, and the plan where one can be made. `R`: what the workflow follows. */
export interface Assessment<R> {
  readonly observations: readonly ClusterObservation[];
  readonly preconditions: readonly Check[];
  /** Absent where a precondition fails so early that no plan can be made. */
  readonly plan?: PlanDocument;
  readonly site: SiteFacts;
  readonly gates: Partial<Readonly<Record<GateName, GatePolicyFacts>>>;
  /** What the plan says, for the workflow to follow. */
  readonly route?: R;
}

export interface DemoteResult extends ChangeResult {
  /** The primary's `last_dr_wal` read right before the call. */
  readonly walBefore?: WalIndex;
}

export interface ProbeResult {
  readonly firstSuccessAt: number;
  readonly tries: number;
}

export interface StreamingResult {
  readonly state: string;
  readonly connectedTo?: string;
  readonly at: number;
  readonly observed: string;
}

export interface TokenDisposal {
  readonly cluster: string;
  /** `forgotten`: an orphan that people took off the record. */
  readonly state: 'deleted' | 'kept' | 'unproven' | 'forgotten';
  readonly text: string;
}

/** A paths filter of a performance secondary. */
export interface PathsFilterFacts {
  readonly mode: 'allow' | 'deny';
  readonly paths: readonly string[];
}

export interface PathsFilterResult {
  /** The cluster ID of the secondary: the id of its next token and filter. */
  readonly id: string;
  /** Absent where the secondary has no filter under any of its ids. */
  readonly filter?: PathsFilterFacts;
  readonly observed: string;
}
