import { generateKey } from 'openpgp';
import type { RunbookName } from '../contracts/names';
import type { Payments } from './payments';

/** One run of the tour. */
export interface Act {
  readonly runbook: RunbookName;
  /** Why now, in a few words. */
  readonly title: string;
  /** The input, beside deployment, reason and requester. */
  readonly input: (
    payments: Payments,
  ) => Readonly<Record<string, unknown>> | Promise<Readonly<Record<string, unknown>>>;
  /** What happens to the simulated clusters before it. */
  readonly before?: (payments: Payments) => void | Promise<void>;
}

/** Every runbook once, in an order in which each finds what it is for; the deployment is at the end as at the beginning. */
export const ACTS: readonly Act[] = [
  {
    runbook: 'walSampler',
    title: 'samples, for readiness and for a failover',
    input: () => ({ samples: 4, everySeconds: 0.25 }),
  },
  {
    runbook: 'ceremonyRehearsal',
    title: 'all holders go the whole way with a value that means nothing',
    input: () => ({ collectFor: '10m' }),
  },
  {
    runbook: 'batchTokenRotation',
    title: 'a batch token for the day without key holders; role and policy are made, too',
    input: () => ({ createRoleAndPolicy: true }),
  },
  { runbook: 'readiness', title: 'would a switchover and a failover start now?', input: () => ({}) },
  {
    runbook: 'filterReconciliation',
    title: 'europe must not see secret/ either',
    input: () => ({ filters: { europe: { mode: 'deny', paths: ['us-customers/', 'secret/'] } } }),
  },
  {
    runbook: 'filterReconciliation',
    title: 'and back to what the inventory wants: wider, so a gate',
    input: () => ({}),
  },
  { runbook: 'merkleCheck', title: 'is the tree of west sound?', input: () => ({ cluster: 'west' }) },
  { runbook: 'drReindex', title: 'it is made anew all the same', input: () => ({ cluster: 'west', force: true }) },
  {
    runbook: 'secondaryDecommission',
    title: 'north is revoked and forgets its primary',
    input: () => ({ kind: 'dr', primary: 'east', secondary: 'north' }),
  },
  {
    runbook: 'secondaryRepointing',
    title: 'north gets a new activation token and follows east again',
    input: () => ({ kind: 'dr', primary: 'east', secondary: 'north' }),
  },
  {
    runbook: 'drSecondaryOnboarding',
    title: 'spare is wiped and becomes a DR secondary',
    input: () => ({ primary: 'east', secondary: 'spare' }),
  },
  {
    runbook: 'secondaryDecommission',
    title: 'spare leaves again',
    input: () => ({ kind: 'dr', primary: 'east', secondary: 'spare', afterwards: 'disable' }),
  },
  {
    runbook: 'primaryEnablement',
    title: 'asia becomes a DR primary',
    input: () => ({ kind: 'dr', cluster: 'asia' }),
  },
  { runbook: 'replicationTeardown', title: 'and ends it', input: () => ({ kind: 'dr', cluster: 'asia' }) },
  {
    runbook: 'operationTokenCeremony',
    title: 'a token for north, as a run of its own',
    input: () => ({ cluster: 'north', uses: ['dr.update-primary'] }),
  },
  { runbook: 'operationTokenDisposal', title: 'which is deleted and proven dead', input: () => ({}) },
  {
    runbook: 'rootTokenCeremony',
    title: 'a root token of east that only its recipient can read',
    input: async () => ({ cluster: 'east', recipientPgpKey: await recipientKey() }),
  },
  {
    runbook: 'drFailover',
    title: 'east is gone',
    before: async ({ service }) => service.cluster('east').kill(),
    input: () => ({ to: 'west' }),
  },
  {
    runbook: 'drRejoin',
    title: 'east is back, and thinks that it is primary',
    before: async ({ service }) => service.cluster('east').restart(),
    input: () => ({ cluster: 'east' }),
  },
  {
    runbook: 'batchTokenRotation',
    title: 'west is primary now, and makes the next one',
    input: () => ({}),
  },
  {
    runbook: 'drSwitchover',
    title: 'back to east, with the batch token: no key holder is asked',
    input: () => ({ to: 'east', go: 'auto', tokenSource: 'batch' }),
  },
  {
    runbook: 'performanceSecondaryOnboarding',
    title: 'asia is wiped and becomes a performance secondary',
    input: () => ({ primary: 'east', secondary: 'asia', filter: 'none' }),
  },
  {
    runbook: 'performancePromotion',
    title: 'asia becomes the performance primary',
    before: (payments) => payments.newCredential('asia'),
    input: () => ({ to: 'asia' }),
  },
];

/** The public key of somebody who gets a root token: base64 of the binary key. */
async function recipientKey(): Promise<string> {
  const { publicKey } = await generateKey({ userIDs: [{ name: 'olga' }], format: 'binary', type: 'ecc' });
  return Buffer.from(publicKey).toString('base64');
}
