import type { ClusterObservation } from '../../../src/contracts/observations';
import type { SwitchoverPlan } from '../../../src/contracts/plan';
import { START } from './history-builder';

export const IDENTITY = { namespace: 'default', workflowId: 'deployment:payments', runId: '0c1d-run' } as const;
export const DIGEST = 'g4Jx0mFh0dQyUu5Y1mVn3c0W2uKq8yPbTzR9sLwE7aI';

export const PLAN: SwitchoverPlan = {
  runbook: 'drSwitchover',
  deployment: 'payments',
  from: { cluster: 'east', clusterId: 'id-east', version: '1.21.0' },
  to: { cluster: 'west', clusterId: 'id-west', version: '1.21.0' },
  otherDrSecondaries: [{ cluster: 'north', clusterId: 'id-north' }],
  performanceSecondaries: [{ cluster: 'branch', clusterId: 'id-branch', id: 'id-branch' }],
  rejoin: true,
  tokenSource: 'ceremony',
  go: 'required',
  onStuck: 'promote-back',
  acceptLoss: 'none',
  reason: 'Planned maintenance in the eastern data centre',
  steps: ['Read and check the deployment', 'Demote east', 'Promote west', 'Re-protect'],
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
