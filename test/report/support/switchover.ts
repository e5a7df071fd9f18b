import type { RunFact } from '../../../src/contracts/run-facts';
import type { ActivitySpecification, WrittenFact } from './run-builder';
import { RunBuilder } from './run-builder';
import { ceremony, DIGEST, INPUT, observation, olga, PLAN, PRECONDITIONS, when } from './switchover-data';

type Adjust = (specification: ActivitySpecification) => ActivitySpecification;

/** When the parts of the finished run happen, in milliseconds after its start. */
export const TIMES = {
  demoteCalled: 65_100,
  serviceReady: 73_000,
  probe: 74_500,
  streaming: 81_000,
  closed: 95_200,
} as const;

/** A switchover from east to west with two DR secondaries, a performance secondary, a ceremony and two gates. */
export function finishedSwitchover(adjust: Adjust = (same) => same): RunBuilder {
  const history = new RunBuilder().started('drSwitchover', INPUT);
  const add = (specification: ActivitySpecification): void => void history.activity(adjust(specification));
  const onPayments = { deployment: 'payments' };
  const assessed = {
    observations: [observation('east', 'primary', 900)],
    preconditions: PRECONDITIONS,
    plan: { text: JSON.stringify(PLAN), digest: DIGEST },
  };
  const ended = (step: string, at: number, outcome: 'done' | 'already' = 'done'): WrittenFact => ({
    kind: 'step-ended',
    at: when(at),
    step,
    outcome,
  });
  const gate = (name: string, state: 'opened' | 'approved', at: number): RunFact => ({
    kind: 'gate',
    gate: name,
    state,
    at: when(at),
    planDigest: DIGEST,
    by: state === 'approved' ? [olga] : [],
  });

  add({
    type: 'assessDrSwitchover',
    step: { name: 'Read and check the deployment', number: 1 },
    input: { input: INPUT },
    scheduledAt: 100,
    endedAt: 1_000,
    result: assessed,
  });
  history.memo(1_100, {
    phase: 'waiting-for-people',
    waitingFor: 'approval of gate plan',
  });
  add({
    type: 'createCeremony',
    step: { name: 'Invite the key holders', number: 2 },
    facts: [ended('Read and check the deployment', 1_050), gate('plan', 'opened', 1_080)],
    input: { ...onPayments, targets: [] },
    scheduledAt: 1_200,
    endedAt: 1_500,
    result: { ...ceremony, fingerprint: 'AB12' },
  });
  for (const index of [0, 1, 2]) {
    const at = 20_000 + index * 5_000;
    history.signal('share', at);
  }
  history.signal('approve', 40_000);
  add({
    type: 'openEnvelopes',
    step: { name: 'Key shares', number: 0 },
    facts: [
      ended('Invite the key holders', 1_510),
      gate('plan', 'approved', 40_030),
      ...['ann', 'ben', 'cleo'].map((holder, index): RunFact => ({
        kind: 'receipt',
        at: when(20_030 + index * 5_000),
        signal: 'share',
        arrival: index + 1,
        verdict: 'accepted',
        code: 'accepted',
        text: 'accepted',
        from: { name: holder, how: 'signed' },
      })),
      {
        kind: 'receipt',
        at: when(40_030),
        signal: 'approve',
        arrival: 1,
        verdict: 'accepted',
        code: 'accepted',
        text: 'accepted',
        from: olga,
      },
    ],
    input: { ...onPayments, arrived: [] },
    scheduledAt: 40_100,
    endedAt: 40_300,
    result: { verdicts: [] },
  });
  add({
    type: 'startGeneration',
    step: { name: 'Generate the operation token of west', number: 3 },
    input: { ...onPayments, cluster: 'west', ceremony, wanted: { kind: 'operation-token' }, shares: [1, 2, 3] },
    scheduledAt: 40_400,
    endedAt: 40_700,
    result: { attempt: { mark: '5c2c7f53' }, attempts: 1 },
  });
  add({
    type: 'completeGeneration',
    step: { name: 'Generate the operation token of west', number: 3 },
    input: { ...onPayments, cluster: 'west', ceremony, wanted: { kind: 'operation-token' } },
    scheduledAt: 40_700,
    endedAt: 41_000,
    result: { next: 'token', sealed: 'eyJ.sealed', findings: [] },
  });
  add({
    type: 'assessDrSwitchover',
    step: { name: 'Read and check again', number: 4 },
    facts: [ended('Generate the operation token of west', 41_050)],
    input: { input: INPUT },
    scheduledAt: 41_100,
    endedAt: 42_000,
    result: assessed,
  });
  history.signal('approve', 60_000);
  add({
    type: 'writeMarker',
    step: { name: 'Write a marker on east and wait until west has it', number: 5 },
    facts: [
      ended('Read and check again', 42_050),
      gate('go', 'opened', 42_060),
      gate('go', 'approved', 60_050),
      {
        kind: 'receipt',
        at: when(60_040),
        signal: 'approve',
        arrival: 2,
        verdict: 'accepted',
        code: 'accepted',
        text: 'accepted',
        from: olga,
      },
    ],
    input: { ...onPayments, kind: 'dr', cluster: 'east', secondary: 'west' },
    scheduledAt: 60_100,
    endedAt: 64_800,
    result: { path: 'marker', value: 'm', wal: '4711', reached: '4711', at: when(64_700) },
  });
  history.memo(65_000, { phase: 'outage', waitingFor: null });
  add({
    type: 'demotePrimary',
    step: { name: 'Demote east', number: 6 },
    facts: [ended('Write a marker on east and wait until west has it', 64_900)],
    input: { ...onPayments, cluster: 'east', authority: { approvals: [{ document: 'eyJ.approval' }] } },
    scheduledAt: 65_000,
    endedAt: 67_000,
    result: {
      outcome: 'done',
      observed: 'secondary, not connected',
      calledAt: when(TIMES.demoteCalled),
      confirmedAt: when(66_900),
      calls: 1,
      walBefore: '4711',
    },
  });
  add({
    type: 'compareAfterDemotion',
    step: { name: 'Compare the data of both clusters', number: 7 },
    facts: [ended('Demote east', 67_010)],
    input: { ...onPayments, oldPrimary: 'east', newPrimary: 'west' },
    scheduledAt: 67_050,
    endedAt: 67_400,
    result: {
      loss: 'none',
      oldPrimaryRoot: 'a7f3c2',
      newPrimaryRoot: 'a7f3c2',
      why: 'Both clusters have the same Merkle root.',
    },
  });
  add({
    type: 'promoteSecondary',
    step: { name: 'Promote west', number: 8 },
    facts: [ended('Compare the data of both clusters', 67_410)],
    input: { ...onPayments, kind: 'dr', mode: 'planned', cluster: 'west', otherCluster: 'east' },
    scheduledAt: 67_450,
    endedAt: 70_000,
    result: {
      outcome: 'done',
      observed: 'primary, running',
      calledAt: when(67_500),
      confirmedAt: when(69_900),
      calls: 1,
    },
  });
  add({
    type: 'awaitServiceReady',
    step: { name: 'Wait until west serves', number: 9 },
    facts: [ended('Promote west', 70_010)],
    input: { ...onPayments, cluster: 'west', credentialOf: 'east' },
    scheduledAt: 70_050,
    endedAt: 73_050,
    result: {
      primaryAt: when(70_100),
      stableActiveNode: 'west-1',
      markerReadAt: when(72_000),
      writtenAt: when(72_900),
      readyAt: when(TIMES.serviceReady),
    },
  });
  add({
    type: 'probeService',
    step: { name: 'Probe the clients’ address', number: 10 },
    facts: [ended('Wait until west serves', 73_060)],
    input: onPayments,
    scheduledAt: 73_100,
    endedAt: 74_550,
    result: { firstSuccessAt: when(TIMES.probe), tries: 4 },
  });
  history.memo(74_600, { phase: 're-protecting' });
  for (const [index, secondary] of ['east', 'north'].entries()) {
    const number = 11 + index * 2;
    const joining = { ...onPayments, kind: 'dr', primary: 'west', secondary };
    add({
      type: 'completeGeneration',
      step: { name: `Point ${secondary} at west`, number },
      ...(index === 0 && { facts: [ended('Probe the clients’ address', 74_560)] }),
      input: { ...onPayments, cluster: secondary, ceremony, wanted: { kind: 'operation-token' } },
      scheduledAt: 74_700,
      endedAt: 75_400,
      result: { next: 'token', sealed: 'eyJ.sealed', findings: [] },
    });
    add({
      type: 'updatePrimary',
      step: { name: `Point ${secondary} at west`, number },
      input: { ...joining, by: 'token' },
      scheduledAt: 75_500,
      endedAt: 77_000 + index,
      result: {
        outcome: 'done',
        observed: 'secondary of west',
        calledAt: when(76_200),
        confirmedAt: when(76_900),
        calls: 1,
      },
    });
    add({
      type: 'awaitDrStreaming',
      step: { name: `Wait until ${secondary} streams from west`, number: number + 1 },
      facts: [ended(`Point ${secondary} at west`, 77_010 + index)],
      input: joining,
      scheduledAt: 77_100,
      endedAt: TIMES.streaming + 50 + index * 4_000,
      result: {
        state: 'stream-wals',
        connectedTo: 'west',
        at: when(TIMES.streaming + index * 4_000),
        observed: 'stream-wals, connected to west',
      },
    });
  }
  add({
    type: 'awaitPerformanceSecondaries',
    step: { name: 'Wait until the performance secondaries follow', number: 15 },
    input: { ...onPayments, primary: 'west', secondaries: ['branch'] },
    scheduledAt: 77_150,
    endedAt: 79_000,
    result: { following: [{ cluster: 'branch', follows: true, observed: 'connected' }] },
  });
  add({
    type: 'deleteOperationTokens',
    step: { name: 'Delete the operation tokens', number: 16 },
    facts: [
      ended('Wait until east streams from west', 81_060),
      ended('Wait until north streams from west', 85_060),
      ended('Wait until the performance secondaries follow', 79_010),
    ],
    input: { ...onPayments, tokens: [] },
    scheduledAt: 85_100,
    endedAt: 86_000,
    result: {
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
  });
  add({
    type: 'destroyCeremonyKeys',
    step: { name: 'Destroy the keys of the ceremony', number: 17 },
    facts: [ended('Delete the operation tokens', 86_010)],
    input: { ceremony },
    scheduledAt: 86_100,
    endedAt: 86_300,
    result: { destroyed: true, text: 'destroyed' },
  });
  add({
    type: 'readDeployment',
    step: { name: 'Read the final state', number: 18 },
    facts: [ended('Destroy the keys of the ceremony', 86_310)],
    input: onPayments,
    scheduledAt: 86_400,
    endedAt: 87_000,
    result: {
      observations: [
        observation('east', 'secondary', 86_900),
        observation('west', 'primary', 86_900),
        observation('north', 'secondary', 86_900),
      ],
    },
  });
  history.fact(ended('Read the final state', 87_010));
  return history.ended(TIMES.closed, 'completed');
}
