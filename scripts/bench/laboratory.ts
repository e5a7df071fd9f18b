import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { WorkflowHandle } from '@temporalio/client';
import { startPayments } from '../../src/demo/payments';
import type { Site } from '../../src/demo/payments';
import { startWorkerProcess } from '../../src/demo/programs';
import type { TemporalServer } from '../../src/dev-server/start-dev-server';
import type { OwnProcess } from '../../src/dev-server/child-process';
import type { RunStatus, Waiting } from '../../src/contracts/run-status';
import { QUERIES, SIGNALS } from '../../src/contracts/signals';
import { createEnvelope, parseShare, readHolderKey, readPins, verifyInvitation } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import { Secret } from '../../src/secret';

export const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'] as const;
export const APPROVER = 'grace';

/** One DR primary and one DR secondary of three nodes each, switched over and back without a pause. */
const SITE: Site = {
  topology: {
    seed: 23,
    // No time beyond its calls, so that what a run takes longer than its calls is the runbook's own.
    timing: {
      restartMs: 0,
      electionMs: 0,
      standbyModeLagMs: 0,
      secondaryTokenRefusedMs: 0,
      streamDelayMs: 0,
      merkleDiffMs: 0,
      merkleSyncMs: 0,
    },
    clusters: [{ name: 'east' }, { name: 'west' }],
    dr: [{ primary: 'east', secondaries: ['west'] }],
  },
  members: () => ({
    drSets: { main: ['east', 'west'] },
    quiesce: 'attested',
    limits: { coolDown: '1ms', walStill: '1ms' },
  }),
};

/** Name of the cluster that is the DR secondary now: each switchover changes it. */
export function secondaryOf({ service }: Laboratory): 'east' | 'west' {
  return service.cluster('west').snapshotState().dr.mode === 'secondary' ? 'west' : 'east';
}

/** Starts the laboratory; nothing of it stays behind after {@link Laboratory.stop}. */
export async function startLaboratory({ address, namespace }: TemporalServer) {
  const reportDirectory = await mkdtemp(join(tmpdir(), 'replication-runbooks-bench-'));
  const taskQueue = `runbooks-bench-${process.pid}`;
  const payments = await startPayments({ site: SITE, pace: 'quick', reportDirectory, taskQueue, namespace });
  let worker: OwnProcess | undefined;
  const stop = async (): Promise<void> => {
    await worker?.stop();
    await payments.stop();
    await rm(reportDirectory, { recursive: true, force: true });
  };
  try {
    const { environment, service } = payments;
    const server = { TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: namespace, RUNBOOKS_LOG_LEVEL: 'warn' };
    worker = await startWorkerProcess({ ...environment, ...server }, () => undefined);
    const { pid } = worker;
    const people = new Map<string, SigningKey>();
    for (const { name, keyFile, passphraseFile } of payments.people.values()) {
      const passphrase = new Secret('passphrase', (await readFile(passphraseFile, 'utf8')).trim());
      people.set(name, await readHolderKey(await readFile(keyFile, 'utf8'), passphrase));
    }
    const pins = await readPins(environment['RUNBOOKS_PINS'] ?? '');
    return { service, taskQueue, pins, people, workerPeakBytes: () => peakBytes(pid), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** The site, the keys of its people and of the workers, and a worker process. */
export type Laboratory = Awaited<ReturnType<typeof startLaboratory>>;

/** Greatest resident memory that a process has had; undefined where the system does not tell. */
async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}

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
