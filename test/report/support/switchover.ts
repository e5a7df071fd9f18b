import type { ClusterObservation } from '../../../src/contracts/observations';
import type { RunbookPlan } from '../../../src/contracts/plan';
import type { RunFact } from '../../../src/contracts/run-facts';
import type { ActivitySpecification } from './run-builder';
import { INPUT, RunBuilder, when } from './run-builder';

export const DIGEST = 'g4Jx0mFh0dQyUu5Y1mVn3c0W2uKq8yPbTzR9sLwE7aI';

const [EAST, WEST] = [
  { cluster: 'east', clusterId: 'id-east' },
  { cluster: 'west', clusterId: 'id-west' },
] as const;

export const PLAN: RunbookPlan = {
  ...{ runbook: 'drSwitchover', deployment: 'payments', reason: INPUT.reason, warnings: [] },
  clusters: [
    { ...EAST, version: '1.21.0', dr: 'primary', performance: 'primary' },
    { ...WEST, version: '1.21.0', dr: 'secondary', performance: 'primary' },
  ],
  operations: [
    { kind: 'dr', endpoint: 'primary/demote', gate: 'plan', on: EAST, with: WEST },
    { kind: 'dr', endpoint: 'secondary/promote', gate: 'plan', on: WEST, with: EAST },
  ],
  steps: [
    { step: 'Read and check the deployment' },
    { step: 'Demote east' },
    { step: 'Promote west' },
    { step: 'Re-protect' },
  ],
  choices: { tokenSource: 'ceremony', go: 'required', onStuck: 'promote-back', acceptLoss: 'none', rejoin: true },
};

/** What a reading of a healthy cluster gives. */
export function observation(cluster: string, mode: string, at: number): ClusterObservation {
  const node = { reachable: true, sealed: false, version: '1.21.0' };
  return {
    ...{ cluster, at: when(at), reachable: true, activeNode: `${cluster}-1`, clusterId: `id-${cluster}` },
    version: '1.21.0',
    nodes: [1, 2].map((number) => ({ ...node, address: `https://${cluster}-${number}:8200`, standby: number > 1 })),
    dr: {
      ...{ mode, state: mode === 'primary' ? 'running' : 'stream-wals', merkleRoot: 'a7f3c2', peers: [] },
      ...(mode === 'primary' ? { lastWal: '4711' } : { lastRemoteWal: '4711' }),
    },
  };
}

const streams = { name: 'DR secondary streams', cluster: 'west', observed: 'stream-wals', needed: 'stream-wals' };
const clock = { name: 'Clock', observed: 'not readable', needed: 'known', next: 'Compare the clocks of the hosts' };
export const PRECONDITIONS = [
  { ...streams, verdict: 'ok' },
  { name: 'Lag', cluster: 'west', observed: '3 WAL entries', needed: 'at most 1000', verdict: 'ok' },
  { ...clock, verdict: 'not-checkable' },
];

/** When the parts of the finished run happen, in milliseconds after its start. */
export const TIMES = {
  ...{ demoteCalled: 65_100, serviceReady: 73_000, probe: 74_500, streaming: 81_000, closed: 95_200 },
} as const;

const gate = (name: string, state: 'opened' | 'approved', at: number): RunFact => ({
  ...{ kind: 'gate', gate: name, state, at: when(at), planDigest: DIGEST },
  by: state === 'approved' ? [{ name: 'olga', how: 'signed' }] : [],
});
const accepted = (signal: 'share' | 'approve', arrival: number, name: string, at: number): RunFact => ({
  ...{ kind: 'receipt', at: when(at), signal, arrival, verdict: 'accepted', code: 'accepted', text: 'accepted' },
  from: { name, how: 'signed' },
});
const FACTS: readonly RunFact[] = [
  gate('plan', 'opened', 1_080),
  ...['ann', 'ben', 'cleo'].map((holder, index) => accepted('share', index + 1, holder, 20_030 + index * 5_000)),
  ...[gate('plan', 'approved', 40_030), accepted('approve', 1, 'olga', 40_030)],
  ...[gate('go', 'opened', 42_060), accepted('approve', 2, 'olga', 60_040), gate('go', 'approved', 60_050)],
  {
    ...{ kind: 'finding', at: when(86_000), severity: 'info', code: 'token-kept' },
    text: 'The operation token of west is valid again when west is demoted.',
    next: 'The next run deletes it first.',
  },
];

const assessed = {
  observations: [observation('east', 'primary', 900)],
  preconditions: PRECONDITIONS,
  plan: { text: JSON.stringify(PLAN), digest: DIGEST },
};
const ceremony = {
  ...{ cid: 'c-1', epoch: 1, keyHome: 'home-1', invitation: 'eyJ.invitation', threshold: 3 },
  ...{ holders: ['ann', 'ben', 'cleo'], collectUntil: when(9e6) },
};
const generation = (cluster: string) => ({ cluster, ceremony, wanted: { kind: 'operation-token' } });
const token = { next: 'token', sealed: 'eyJ.sealed', findings: [] };
const both = { kind: 'dr', cluster: 'east', secondary: 'west' };
const joining = { kind: 'dr', primary: 'west', secondary: 'east' };
const approved = { cluster: 'east', authority: { approvals: [{ document: 'eyJ.approval' }] } };
const compared = {
  ...{ loss: 'none', oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' },
  why: 'Both clusters have the same Merkle root.',
};
const observations = [observation('east', 'secondary', 86_900), observation('west', 'primary', 86_900)];
const disposals = [
  { cluster: 'west', state: 'kept', text: 'west is primary, and deletes no tokens now' },
  { cluster: 'east', state: 'deleted', text: 'deleted' },
];
/** What a change gives that was called and confirmed at these times. */
const done = (observed: string, called: number, confirmed: number) => ({
  ...{ outcome: 'done', observed, calls: 1, calledAt: when(called), confirmedAt: when(confirmed) },
});

type Span = readonly [scheduledAt: number, endedAt: number];
const ACTIVITIES: readonly (readonly [step: string, type: string, Span, input: object, result: object])[] = [
  ['1 Read and check the deployment', 'assessDrSwitchover', [100, 1_000], { input: INPUT }, assessed],
  ['2 Invite the key holders', 'createCeremony', [1_200, 1_500], { targets: [] }, { ...ceremony, fingerprint: 'AB12' }],
  ['0 Key shares', 'openEnvelopes', [40_100, 40_300], { arrived: [] }, { verdicts: [] }],
  ['3 Generate the token', 'startGeneration', [40_400, 40_700], generation('west'), { attempts: 1 }],
  ['3 Generate the token', 'completeGeneration', [40_700, 41_000], generation('west'), token],
  ['4 Read and check again', 'assessDrSwitchover', [41_100, 42_000], { input: INPUT }, assessed],
  ['5 Write a marker on east', 'writeMarker', [60_100, 64_800], both, { wal: '4711', reached: '4711' }],
  ['6 Demote east', 'demotePrimary', [65_000, 67_000], approved, done('secondary', TIMES.demoteCalled, 66_900)],
  ['7 Compare the data of both clusters', 'compareAfterDemotion', [67_050, 67_400], {}, compared],
  ['8 Promote west', 'promoteSecondary', [67_450, 70_000], { cluster: 'west' }, done('primary', 67_500, 69_900)],
  ['9 Wait until west serves', 'awaitServiceReady', [70_050, 73_050], {}, { readyAt: when(TIMES.serviceReady) }],
  ['10 Probe the clients’ address', 'probeService', [73_100, 74_550], {}, { firstSuccessAt: when(TIMES.probe) }],
  ['11 Point east at west', 'completeGeneration', [74_700, 75_400], generation('east'), token],
  ['11 Point east at west', 'updatePrimary', [75_500, 77_000], joining, done('secondary of west', 76_200, 76_900)],
  ['12 Wait until east streams', 'awaitDrStreaming', [77_100, 81_050], joining, { at: when(TIMES.streaming) }],
  ['13 Delete the operation tokens', 'deleteOperationTokens', [85_100, 86_000], { tokens: [] }, { disposals }],
  ['14 Destroy the keys', 'destroyCeremonyKeys', [86_100, 86_300], { ceremony }, { destroyed: true }],
  ['15 Read the final state', 'readDeployment', [86_400, 87_000], {}, { observations }],
];

/** A switchover from east to west with a ceremony and two gates. */
export function finishedSwitchover(
  adjust: (specification: ActivitySpecification) => ActivitySpecification = (same) => same,
): RunBuilder {
  const activities = ACTIVITIES.map(([title, type, [scheduledAt, endedAt], given, result]) => {
    const [number = '', ...words] = title.split(' ');
    const step = { number: Number(number), name: words.join(' ') };
    return adjust({ type, step, input: { deployment: 'payments', ...given }, scheduledAt, endedAt, result });
  });
  return new RunBuilder(activities, FACTS)
    .change(1_100, { phase: 'waiting-for-people', waitingFor: 'approval of gate plan' })
    .change(65_000, { phase: 'outage', waitingFor: undefined })
    .change(74_600, { phase: 're-protecting' })
    .ended(TIMES.closed, 'completed');
}
