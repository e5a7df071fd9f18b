import { ACTIVITY_KINDS } from '../../src/contracts/activities';

type Name = keyof typeof ACTIVITY_KINDS;
const READING = ['read', 'wait', 'outage-wait'] as const;
type Reading = { [K in Name]: (typeof ACTIVITY_KINDS)[K] extends (typeof READING)[number] ? K : never }[Name];

/**
 * What keeps somebody who starts an activity himself from doing harm with it.
 *
 * - `reads`: changes nothing, on no cluster and nowhere else: those that are of such a kind, and some others.
 * - `approval`: verifies a plan and its approvals itself.
 * - `envelopes`: needs key shares that their holders encrypted for this very run.
 * - `own run`: touches only what its own run has: its keys, its tokens, its report.
 * - `people`: tells people something, or another run, or the record for the next check, and nothing else.
 * - `open`: changes something without an approval; SECURITY.md says so.
 */
export type Guard = 'reads' | 'approval' | 'envelopes' | 'own run' | 'people' | 'open';

/** Every other activity. A new one is judged before it is listed. */
const JUDGED: Readonly<Record<Exclude<Name, Reading>, Guard>> = {
  demotePrimary: 'approval',
  disablePrimary: 'approval',
  disableSecondary: 'approval',
  enablePrimary: 'approval',
  enableSecondary: 'approval',
  fenceLostPrimary: 'approval',
  forgetLedgerToken: 'approval',
  forgetPrimary: 'approval',
  issueOutsideToken: 'approval',
  promoteSecondary: 'approval',
  quiesceByQuota: 'approval',
  revokeSecondary: 'approval',
  startDrReindex: 'approval',
  takeKeptToken: 'approval',
  takeSnapshot: 'approval',
  unfenceFormerPrimary: 'approval',
  updatePrimary: 'approval',
  writePathsFilter: 'approval',
  completeGeneration: 'envelopes',
  startGeneration: 'envelopes',
  createCeremony: 'own run',
  createRehearsal: 'own run',
  deleteOperationTokens: 'own run',
  destroyCeremonyKeys: 'own run',
  openEnvelopes: 'own run',
  openRehearsal: 'own run',
  releaseQuota: 'own run',
  settleGeneration: 'own run',
  takeProvidedTokens: 'own run',
  writeReportFiles: 'own run',
  assessReadiness: 'people',
  notify: 'people',
  requestTakeOver: 'people',
  disposeLedgerToken: 'open',
  proveWrite: 'open',
  rotateBatchToken: 'open',
  runHook: 'open',
  writeMarker: 'open',
};

const reads = (name: Name) => READING.some((kind) => kind === ACTIVITY_KINDS[name]);
const READS = Object.fromEntries((Object.keys(ACTIVITY_KINDS) as Name[]).filter(reads).map((name) => [name, 'reads']));
export const GUARDS = { ...READS, ...JUDGED } as Readonly<Record<Name, Guard>>;

export function guardedBy(guard: Guard): Name[] {
  return (Object.keys(GUARDS) as Name[]).filter((name) => GUARDS[name] === guard);
}
