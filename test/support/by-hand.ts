import { setTimeout as delay } from 'node:timers/promises';
import { Agent, request } from 'undici';
import type { Scenario } from './scenario';

const WITHIN_MS = 90_000;

/** What an operator does without a runbook: one changing call with the cluster's root token, until it is taken. */
export async function post(scenario: Scenario, cluster: string, path: string, body: object): Promise<string> {
  const { addresses, rootToken } = scenario.service.cluster(cluster);
  const agent = new Agent();
  const deadline = Date.now() + WITHIN_MS;
  try {
    for (;;) {
      const answer = await request(`${addresses[0] ?? ''}/v1/sys/replication/${path}`, {
        dispatcher: agent,
        method: 'POST',
        headers: { 'x-vault-token': rootToken, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      });
      const text = await answer.body.text();
      if (answer.statusCode < 300) return text;
      if (answer.statusCode < 500 || Date.now() > deadline) throw new Error(`${path}: ${answer.statusCode} ${text}`);
      await delay(30);
    }
  } finally {
    await agent.close();
  }
}

export async function until(what: string, holds: () => boolean): Promise<void> {
  const deadline = Date.now() + WITHIN_MS;
  while (!holds()) {
    if (Date.now() > deadline) throw new Error(`not seen: ${what}`);
    await delay(20);
  }
}

/** Changes the DR primary without any runbook: nobody is re-pointed. */
export async function changeDrPrimaryByHand(scenario: Scenario, from: string, to: string): Promise<void> {
  const { service } = scenario;
  const [old, next] = [service.cluster(from), service.cluster(to)];
  const drOperationToken = next.tokens.createOperationToken(service.now());
  await until(`${to} has everything`, () => {
    const [above, below] = [old.snapshotState().dr, next.snapshotState().dr];
    return below.state === 'stream-wals' && above.merkleRoot === below.merkleRoot;
  });
  await post(scenario, from, 'dr/primary/demote', {});
  await until(`${from} is a secondary`, () => old.snapshotState().dr.mode === 'secondary');
  await post(scenario, to, 'dr/secondary/promote', { dr_operation_token: drOperationToken });
  await until(`${to} is primary`, () => next.snapshotState().dr.mode === 'primary');
  service.advanceClock(200);
}

/** Makes a demoted cluster a DR secondary of `primary` again, without any runbook. */
export async function joinDrByHand(scenario: Scenario, primary: string, secondary: string): Promise<void> {
  const { service } = scenario;
  const target = service.cluster(secondary);
  const issued = JSON.parse(await post(scenario, primary, 'dr/primary/secondary-token', { id: target.clusterId })) as {
    readonly wrap_info: { readonly token: string };
  };
  const drOperationToken = target.tokens.createOperationToken(service.now());
  await post(scenario, secondary, 'dr/secondary/update-primary', {
    token: issued.wrap_info.token,
    dr_operation_token: drOperationToken,
  });
  await until(`${secondary} streams`, () => target.snapshotState().dr.state === 'stream-wals');
}
