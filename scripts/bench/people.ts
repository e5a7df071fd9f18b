import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { QUERIES, SIGNALS } from '../../src/contracts/signals';
import { createEnvelope, parseShare, verifyInvitation } from '../../src/keys';
import { HOLDERS } from './laboratory';
import type { Laboratory } from './laboratory';

const DEADLINE_MS = 300_000;
/** A look is a task of server and worker: more of them would be measured too. */
const POLL_MS = 150;
/** Looks between two questions whether the run still goes on. */
const LOOKS = 20;

/** Waits until the run waits for this, and lets `act` answer it once. */
export async function answer<F extends Waiting['for']>(
  handle: WorkflowHandle,
  kind: F,
  act: (waiting: Extract<Waiting, { for: F }>, status: RunStatus) => Promise<void>,
  where: (waiting: Extract<Waiting, { for: F }>) => boolean = () => true,
): Promise<void> {
  const deadline = Date.now() + DEADLINE_MS;
  for (let looks = 1; Date.now() < deadline; looks += 1) {
    const status = await handle.query<RunStatus | null>(QUERIES.status);
    const waiting = status?.waiting.find(
      (each): each is Extract<Waiting, { for: F }> => each.for === kind && where(each as Extract<Waiting, { for: F }>),
    );
    if (status && waiting) return act(waiting, status);
    if (looks % LOOKS === 0) {
      const { status: execution } = await handle.describe();
      if (execution.name !== 'RUNNING')
        throw new Error(`the run ended (${execution.name}) without waiting for ${kind}`);
    }
    await delay(POLL_MS);
  }
  throw new Error(`the run did not wait for ${kind} within ${DEADLINE_MS / 1000} s`);
}

/** A holder makes an envelope for the invitation, and sends it. */
export async function giveShare(
  handle: WorkflowHandle,
  laboratory: Laboratory,
  holder: string,
  jws: string,
): Promise<void> {
  const { invitation, digest } = await verifyInvitation(jws, { pins: laboratory.pins, now: Date.now(), holder });
  const share = laboratory.service.cluster('east').keyShares[HOLDERS.findIndex((name) => name === holder)] ?? '';
  const document = await createEnvelope({
    invitation,
    invitationDigest: digest,
    holder,
    seq: 1,
    share: parseShare(share),
    signingKey: personsKey(laboratory, holder),
  });
  await handle.signal(SIGNALS.share, { document });
}

export function personsKey({ people }: Laboratory, name: string) {
  const key = people.get(name);
  if (!key) throw new Error(`nobody is called ${name}`);
  return key;
}
