import type { ClusterObservation } from '../../../src/contracts/observations';
import type { RunbookPlan } from '../../../src/contracts/plan';
import type { RunFact } from '../../../src/contracts/run-facts';
import type { ActivitySpecification } from './run-builder';
import { INPUT, RunBuilder, when } from './run-builder';

export const DIGEST = 'g4Jx0mFh0dQyUu5Y1mVn3c0W2uKq8yPbTzR9sLwE7aI';

const [EAST, WEST, NORTH, BRANCH] = ['east', 'west', 'north', 'branch'].map((cluster) => ({
  cluster,
  clusterId: `id-${cluster}`,
})) as [Identity, Identity, Identity, Identity];
type Identity = RunbookPlan['operations'][number]['on'];

const followers = (primary: Identity, former: Identity): RunbookPlan['operations'] => [
  ...[former, NORTH].map((on) => ({ operation: 'dr.secondary.repoint-after-switchover' as const, on, with: primary })),
  { operation: 'performance.secondary.repoint-after-switchover', on: BRANCH, with: primary },
];

export const PLAN: RunbookPlan = {
  runbook: 'drSwitchover',
  deployment: 'payments',
  clusters: [
    { ...EAST, version: '1.21.0', dr: 'primary', performance: 'primary' },
    { ...WEST, version: '1.21.0', dr: 'secondary', performance: 'primary' },
  ],
  operations: [
    { operation: 'dr.primary.demote', on: EAST, with: WEST },
    { operation: 'dr.secondary.promote-after-demotion', on: WEST, with: EAST },
    { operation: 'dr.secondary.promote-after-demotion', on: EAST, with: WEST },
    ...followers(WEST, EAST),
    ...followers(EAST, WEST),
  ],
  warnings: [],
  steps: ['Read and check the deployment', 'Demote east', 'Promote west', 'Re-protect'],
  choices: { tokenSource: 'ceremony', go: 'required', onStuck: 'promote-back', acceptLoss: 'none', rejoin: true },
  reason: INPUT.reason,
};

/** What a reading of a healthy cluster gives. */
export function observation(cluster: string, mode: string, at: number): ClusterObservation {
  return {
    cluster,
    at: when(at),
    reachable: true,
    nodes: [
      {
        address: `https://${cluster}-1.example:8200`,
        reachable: true,
        sealed: false,
        standby: false,
        version: '1.21.0',
      },
      {
        address: `https://${cluster}-2.example:8200`,
        reachable: true,
        sealed: false,
        standby: true,
        version: '1.21.0',
      },
    ],
    activeNode: `${cluster}-1`,
    clusterId: `id-${cluster}`,
    version: '1.21.0',
    dr: {
      mode,
      state: mode === 'primary' ? 'running' : 'stream-wals',
      ...(mode === 'primary' ? { lastWal: '4711' } : { lastRemoteWal: '4711' }),
      merkleRoot: 'a7f3c2',
      peers: [],
    },
  };
}

export const PRECONDITIONS = [
  {
    name: 'DR secondary streams',
    cluster: 'west',
    observed: 'stream-wals, heartbeat 1.2 s old',
    needed: 'stream-wals, heartbeat at most 10 s old',
    verdict: 'ok',
  },
  { name: 'Lag', cluster: 'west', observed: '3 WAL entries', needed: 'at most 1000', verdict: 'ok' },
  {
    name: 'Clock',
    observed: 'not readable',
    needed: 'known',
    verdict: 'not-checkable',
    next: 'Compare the clocks of the hosts',
  },
];

const olga = { name: 'olga', how: 'signed' } as const;
const ceremony = {
  cid: 'c-1',
  epoch: 1,
  keyHome: 'home-1',
  invitation: 'eyJ.invitation',
  holders: ['ann', 'ben', 'cleo'],
  threshold: 3,
  collectUntil: when(9e6),
};

type Adjust = (specification: ActivitySpecification) => ActivitySpecification;

/** When the parts of the finished run happen, in milliseconds after its start. */
export const TIMES = {
  demoteCalled: 65_100,
  serviceReady: 73_000,
  probe: 74_500,
  streaming: 81_000,
  closed: 95_200,
} as const;

const gate = (name: string, state: 'opened' | 'approved', at: number): RunFact => ({
  ...{ kind: 'gate', gate: name, state, at: when(at), planDigest: DIGEST },
  by: state === 'approved' ? [olga] : [],
});

const accepted = (signal: 'share' | 'approve', arrival: number, name: string, at: number): RunFact => ({
  ...{ kind: 'receipt', at: when(at), signal, arrival, verdict: 'accepted', code: 'accepted', text: 'accepted' },
  from: { name, how: 'signed' },
});

/** What a change gives that was called and confirmed at these times. */
const done = (observed: string, called: number, confirmed: number) => ({
  ...{ outcome: 'done', observed, calls: 1, calledAt: when(called), confirmedAt: when(confirmed) },
});

/** A switchover from east to west with two DR secondaries, a performance secondary, a ceremony and two gates. */
export function finishedSwitchover(adjust: Adjust = (same) => same): RunBuilder {
  const history = new RunBuilder();
  const add = (
    [number, name]: readonly [number, string],
    type: string,
    [scheduledAt, endedAt]: readonly [number, number],
    input: object,
    result: object,
    facts: readonly RunFact[] = [],
  ): void => {
    const given = { deployment: 'payments', ...input };
    history.activity(adjust({ type, step: { name, number }, input: given, scheduledAt, endedAt, result, facts }));
  };
  const assessed = {
    observations: [observation('east', 'primary', 900)],
    preconditions: PRECONDITIONS,
    plan: { text: JSON.stringify(PLAN), digest: DIGEST },
  };
  const generation = (cluster: string) => ({ cluster, ceremony, wanted: { kind: 'operation-token' } });
  const token = { next: 'token', sealed: 'eyJ.sealed', findings: [] };

  add([1, 'Read and check the deployment'], 'assessDrSwitchover', [100, 1_000], { input: INPUT }, assessed);
  history.memo(1_100, { phase: 'waiting-for-people', waitingFor: 'approval of gate plan' });
  const invited = { ...ceremony, fingerprint: 'AB12' };
  add([2, 'Invite the key holders'], 'createCeremony', [1_200, 1_500], { targets: [] }, invited, [
    gate('plan', 'opened', 1_080),
  ]);
  add([0, 'Key shares'], 'openEnvelopes', [40_100, 40_300], { arrived: [] }, { verdicts: [] }, [
    gate('plan', 'approved', 40_030),
    ...['ann', 'ben', 'cleo'].map((holder, index) => accepted('share', index + 1, holder, 20_030 + index * 5_000)),
    accepted('approve', 1, 'olga', 40_030),
  ]);
  const generate = [3, 'Generate the operation token of west'] as const;
  const attempt = { attempt: { mark: '5c2c7f53' }, attempts: 1 };
  add(generate, 'startGeneration', [40_400, 40_700], { ...generation('west'), shares: [1, 2, 3] }, attempt);
  add(generate, 'completeGeneration', [40_700, 41_000], generation('west'), token);
  add([4, 'Read and check again'], 'assessDrSwitchover', [41_100, 42_000], { input: INPUT }, assessed);
  const both = { kind: 'dr', cluster: 'east', secondary: 'west' };
  const marker = { path: 'marker', value: 'm', wal: '4711', reached: '4711', at: when(64_700) };
  add([5, 'Write a marker on east and wait until west has it'], 'writeMarker', [60_100, 64_800], both, marker, [
    gate('go', 'opened', 42_060),
    gate('go', 'approved', 60_050),
    accepted('approve', 2, 'olga', 60_040),
  ]);
  history.memo(65_000, { phase: 'outage', waitingFor: null });
  const approved = { cluster: 'east', authority: { approvals: [{ document: 'eyJ.approval' }] } };
  add([6, 'Demote east'], 'demotePrimary', [65_000, 67_000], approved, {
    ...done('secondary, not connected', TIMES.demoteCalled, 66_900),
    walBefore: '4711',
  });
  const compared = { oldPrimary: 'east', newPrimary: 'west' };
  add([7, 'Compare the data of both clusters'], 'compareAfterDemotion', [67_050, 67_400], compared, {
    ...{ loss: 'none', oldPrimaryRoot: 'a7f3c2', newPrimaryRoot: 'a7f3c2' },
    why: 'Both clusters have the same Merkle root.',
  });
  const promoted = { kind: 'dr', mode: 'planned', cluster: 'west', otherCluster: 'east' };
  const west = done('primary, running', 67_500, 69_900);
  add([8, 'Promote west'], 'promoteSecondary', [67_450, 70_000], promoted, west);
  add(
    [9, 'Wait until west serves'],
    'awaitServiceReady',
    [70_050, 73_050],
    { cluster: 'west' },
    {
      ...{ observed: 'active node west-1 before and after, marker read', readyAt: when(TIMES.serviceReady) },
    },
  );
  const probed = { firstSuccessAt: when(TIMES.probe), observed: 'first success at try 4' };
  add([10, 'Probe the clients’ address'], 'probeService', [73_100, 74_550], {}, probed);
  history.memo(74_600, { phase: 're-protecting' });
  for (const [index, secondary] of ['east', 'north'].entries()) {
    const point = [11 + index * 2, `Point ${secondary} at west`] as const;
    const joining = { kind: 'dr', primary: 'west', secondary };
    const streamsAt = TIMES.streaming + index * 4_000;
    add(point, 'completeGeneration', [74_700, 75_400], generation(secondary), token);
    const pointed = done('secondary of west', 76_200, 76_900);
    add(point, 'updatePrimary', [75_500, 77_000 + index], { ...joining, by: 'token' }, pointed);
    const wait = [12 + index * 2, `Wait until ${secondary} streams from west`] as const;
    add(wait, 'awaitDrStreaming', [77_100, streamsAt + 50], joining, {
      ...{ at: when(streamsAt), observed: 'stream-wals, connected to west' },
    });
  }
  const following = { following: [{ cluster: 'branch', follows: true, observed: 'connected' }] };
  const performance = [15, 'Wait until the performance secondaries follow'] as const;
  const branches = { primary: 'west', secondaries: ['branch'] };
  add(performance, 'awaitPerformanceSecondaries', [77_150, 79_000], branches, following);
  add(
    [16, 'Delete the operation tokens'],
    'deleteOperationTokens',
    [85_100, 86_000],
    { tokens: [] },
    {
      disposals: [
        { cluster: 'west', state: 'kept', text: 'refused while west is primary; kept sealed in the ledger' },
        { cluster: 'east', state: 'deleted', text: 'deleted' },
        { cluster: 'north', state: 'deleted', text: 'deleted' },
      ],
      findings: [
        {
          severity: 'info',
          code: 'operation-token-kept',
          text: 'The operation token of west lives again when west is demoted.',
          next: 'The next run deletes it first.',
        },
      ],
    },
  );
  const destroyed = { destroyed: true, text: 'destroyed' };
  add([17, 'Destroy the keys of the ceremony'], 'destroyCeremonyKeys', [86_100, 86_300], { ceremony }, destroyed);
  const [east, north] = ['east', 'north'].map((name) => observation(name, 'secondary', 86_900));
  const observations = [east, observation('west', 'primary', 86_900), north];
  add([18, 'Read the final state'], 'readDeployment', [86_400, 87_000], {}, { observations });
  return history.ended(TIMES.closed, 'completed');
}
