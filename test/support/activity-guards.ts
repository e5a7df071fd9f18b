import { ACTIVITY_KINDS } from '../../src/contracts/activities';

type Name = keyof typeof ACTIVITY_KINDS;
const READING = ['read', 'wait', 'outage-wait'] as const;
type Reading = { [K in Name]: (typeof ACTIVITY_KINDS)[K] extends (typeof READING)[number] ? K : never }[Name];

/**
 * What prevents harm if somebody starts an activity directly.
 *
 * - `reads`: changes nothing, on a cluster or elsewhere.
 * - `approval`: verifies a plan and its approvals itself.
 * - `envelopes`: needs key shares that their holders encrypted for exactly this run.
 * - `own run`: affects only its own run: its keys, tokens, and report.
 * - `people`: only notifies people or another run, or writes to the record for the next check.
 * - `open`: changes something without an approval; SECURITY.md lists it.
 */
export type Guard = 'reads' | 'approval' | 'envelopes' | 'own run' | 'people' | 'open';

/** Every other activity. Judge a new activity before you list it. */
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
