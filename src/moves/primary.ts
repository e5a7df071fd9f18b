import type { ReplicationKind } from '../contracts/runbook-inputs';
import { statusPath } from './kinds';
import type { Change } from './move';

/* A change of the primary: the old one is demoted, or is gone, and the new one is promoted and serves. */

/** Proves that the secondary has every write that came before. */
export const writeMarker = (on: string, to: string) => `Write a marker on ${on} and wait until ${to} has it`;
/** Reports what a planned change of the primary cost. Skipping it continues without knowing. */
export const COMPARE = 'Compare the data of both clusters';
export const promote = (cluster: string) => `Promote ${cluster}`;
export const promoteBack = (cluster: string) => `Promote ${cluster} back`;
export const promoteByForce = (cluster: string) => `Promote ${cluster} by force`;
export const waitServes = (cluster: string) => `Wait until ${cluster} serves`;
export const waitFollowsPerformance = (cluster: string) => `Wait until ${cluster} follows its performance primary`;
export const verifyWrite = (cluster: string) => `Verify that ${cluster} accepts a write`;
export const confirmGone = (cluster: string) => `Confirm that ${cluster} is gone`;
export const fence = (cluster: string) => `Fence ${cluster}`;
export const unfence = (cluster: string) => `Unfence ${cluster}`;
export const verifyDemoted = (cluster: string) => `Verify that no node of ${cluster} is primary`;
export const verifyStillDemoted = (cluster: string) => `Verify again that no node of ${cluster} is primary`;

/** The step that makes a primary a secondary without a primary. */
export const demote = (cluster: string) => `Demote ${cluster}`;

/** A planned demotion: no cluster is primary afterwards. */
export function demotion(kind: ReplicationKind, from: string, to: string): Change {
  const { without, then, next } = WITHOUT_PRIMARY[kind](from, to);
  return {
    step: demote(from),
    note: 'the OUTAGE begins',
    ifUnknown: `The demotion of ${from} was under way and its outcome is unknown. Read ${statusPath(kind)} of ${from}. If it is a secondary, ${without}: ${then}.`,
    done: `Read ${statusPath(kind)} of both clusters first. ${from} is demoted and no cluster was promoted: ${without}. ${next}`,
  };
}

const WITHOUT_PRIMARY = {
  dr: (from: string, to: string) => ({
    without: 'clients have no primary',
    then: `promote ${to}, or promote ${from} back`,
    next: `Promote ${to}, or promote ${from} back; both need a DR operation token of the promoted cluster.`,
  }),
  performance: (from: string) => ({
    without: 'no cluster is performance primary',
    then: 'promote it back, or another secondary, never both',
    next: `Promote ${from} back (it has every write) or another secondary, never both. Then re-point every secondary by token.`,
  }),
};

/** What is left to do if the outcome of a promotion is unknown. */
export function ifPromotionUnknown(kind: ReplicationKind, cluster: string, other: string, keep = ''): string {
  return `The promotion of ${cluster} was under way and its outcome is unknown. Read ${statusPath(kind)} of ${other} and ${cluster} first${keep}. Only one of them may be ${kind === 'dr' ? 'primary' : 'performance primary'}.`;
}

/** A hook that cuts a lost primary off. What it did stays in place when the run ends. */
export function fencing(from: string): Change {
  return {
    step: fence(from),
    ifUnknown: `The fence hook of this run was started for ${from} and did not report success: ${from} may be cut off, completely or in part.`,
    done: `The fence hook of this run cut ${from} off, so its clients do not reach it. Remove the fence if ${from} should serve again.`,
  };
}
