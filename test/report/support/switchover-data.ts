import type { ClusterObservation } from '../../../src/contracts/observations';
import type { RunbookPlan } from '../../../src/contracts/plan';
import { START } from './run-builder';

export { IDENTITY } from './run-builder';
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
  reason: 'Planned maintenance in the eastern data centre',
};

export const INPUT = { deployment: 'payments', to: 'west', reason: PLAN.reason, requestedBy: 'olga' } as const;

/** Epoch milliseconds, as facts and results carry them. */
export const when = (at: number): number => START + at;

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

export const olga = { name: 'olga', how: 'signed' } as const;
export const ceremony = {
  cid: 'c-1',
  epoch: 1,
  keyHome: 'home-1',
  invitation: 'eyJ.invitation',
  holders: ['ann', 'ben', 'cleo'],
  threshold: 3,
  collectUntil: when(9e6),
};
