import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startPayments } from '../../src/demo/payments';
import type { Site } from '../../src/demo/payments';
import { startWorkerProcess } from '../../src/demo/programs';
import type { TemporalServer } from '../../src/dev-server';
import type { OwnProcess } from '../../src/dev-server/child-process';
import { readHolderKey, readPins } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import { Secret } from '../../src/secret';
import type { SimulatedService } from '../../src/simulator';

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

/** The site, the keys of its people, and a worker process. */
export interface Laboratory {
  readonly service: SimulatedService;
  readonly taskQueue: string;
  /** The workers' key, as people have it. */
  readonly pins: Awaited<ReturnType<typeof readPins>>;
  readonly people: ReadonlyMap<string, SigningKey>;
  /** Greatest resident memory that the worker's process has had, bytes; undefined where the system does not tell. */
  workerPeakBytes(): Promise<number | undefined>;
  stop(): Promise<void>;
}

/** Name of the cluster that is the DR secondary now: each switchover changes it. */
export function secondaryOf({ service }: Laboratory): 'east' | 'west' {
  return service.cluster('west').snapshotState().dr.mode === 'secondary' ? 'west' : 'east';
}

/** Starts the laboratory; nothing of it stays behind after {@link Laboratory.stop}. */
export async function startLaboratory({ address, namespace }: TemporalServer): Promise<Laboratory> {
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

async function peakBytes(pid: number | undefined): Promise<number | undefined> {
  const status = await readFile(`/proc/${pid ?? 0}/status`, 'utf8').catch(() => '');
  const kibibytes = /^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? undefined : Number(kibibytes) * 1024;
}
