import { access, constants } from 'node:fs/promises';
import { hostname, networkInterfaces } from 'node:os';
import { ceremonyWorkflowId, deploymentWorkflowId } from '../../src/contracts/names';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { WalSample } from '../../src/contracts/wal-samples';
import { errnoOf } from '../../src/errors';
import { inventoryDigest } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { missingSealKeys } from '../../src/keys';
import type { LedgerEntry } from '../ceremony/token-ledger';
import { openEntries, TokenLedger, isReserved } from '../ceremony/token-ledger';
import type { OpenRun } from '../checks/runs';
import { openRun } from '../checks/runs';
import { answer, holds, judged, readPoints, unknowable } from './point';
import type { Answer } from './point';
import type { ReadinessContext } from './topology';

/* The site around the service: runs that work, tokens left behind, keys of the worker, samples, where everything stands. */

/** Runs that work, and what earlier ones left: tokens in the record, values under seal keys that were taken away too early. */
export async function runPoints(
  { execution, deployment, sets }: ReadinessContext,
  held: Promise<OpenRun | undefined>,
): Promise<ReadinessPoint[]> {
  const { records, sealKeyring, signal, temporal } = execution;
  const lock = deploymentWorkflowId(deployment.name);
  const recorded = async () => ({
    entries: await openEntries(execution, deployment.name),
    working: (await held.catch(() => undefined))?.runId,
  });
  const missingKeys = async (limited: AbortSignal) => {
    const run = await held;
    const tokens = await new TokenLedger(records).open(deployment.name);
    const handle = run && temporal.workflow.getHandle(lock, run.runId);
    const history = handle && (await temporal.withAbortSignal(limited, () => handle.fetchHistory()));
    return [
      ...missingSealKeys(sealKeyring, history?.events).map((kid) => `the open run needs key ${kid}`),
      ...missingSealKeys(sealKeyring, tokens).map((kid) => `a token in the record needs key ${kid}`),
    ];
  };
  const points = [
    readPoints(signal, held, {
      id: 'lock',
      source: 'temporal',
      needed: 'no other run of the deployment works',
      next: `Look at it: \`runbook status ${lock}\``,
      judge: (run) => {
        if (!run) return answer('ok', 'free');
        const observed = `held by ${run.type}, run ${run.runId}${run.phase === undefined ? '' : `, ${run.phase}`}`;
        const isFailover = run.type === 'drFailover';
        const reason = isFailover ? 'a failover works already' : 'a failover takes it over with {"takeOver": true}';
        return [answer({ switchover: 'fail' }, observed), answer({ failover: 'warn' }, observed, { reason })];
      },
    }),
    // Ceremonies that are runs of their own occupy the slot of their cluster.
    ...sets.flatMap(({ secondaries }) =>
      secondaries.map(({ name }) =>
        readPoints(signal, () => openRun(execution, ceremonyWorkflowId(name)), {
          id: 'ceremony-run',
          cluster: name,
          source: 'temporal',
          needed: 'no ceremony of its own',
          next: `Look at it: \`runbook status ${ceremonyWorkflowId(name)}\``,
          judge: (run) => {
            // Another inventory of this namespace may have a cluster of the same name.
            const ours = run?.deployment === undefined || run.deployment === deployment.name ? run : undefined;
            return holds(ours === undefined, 'warn', ours ? `${ours.type}, run ${ours.runId}` : 'none');
          },
        }),
      ),
    ),
    readPoints(signal, recorded, {
      id: 'recorded-tokens',
      source: 'worker',
      needed: 'no operation token is left behind by an earlier run',
      next: 'Run operationTokenDisposal; for an orphan token follow the finding of the run that reported it.',
      judge: ({ entries, working }) => judgeRecordedTokens(entries, working),
    }),
    readPoints(signal, missingKeys, {
      id: 'seal-keys',
      source: 'worker',
      needed: 'this worker opens what the open run and the record hold sealed',
      next: 'Put the named entry back into RUNBOOKS_SEAL_KEYS of every worker, behind the one that seals, and restart them.',
      judge: (missing) => {
        const observed = missing.length === 0 ? 'all open' : `${missing.join('; ')}: not in RUNBOOKS_SEAL_KEYS`;
        return holds(missing.length === 0, 'fail', observed);
      },
    }),
  ];
  return (await Promise.all(points)).flat();
}

/** Tokens of the run that works are its own matter; a kept one waits for the next change of roles. Pure. */
export function judgeRecordedTokens(entries: readonly LedgerEntry[], working: string | undefined): Answer {
  const left = entries.filter(({ rid, state }) => state === 'orphan' || rid !== working);
  const inWords = (entry: LedgerEntry) =>
    isReserved(entry) ? `reserved for the next run until ${entry.kept?.until ?? ''}` : entry.state;
  const observed = left.map((each) => `${each.cluster}: ${inWords(each)}, from ${each.wid}`).join('; ') || 'none';
  const good = left.every((each) => each.state === 'kept' || isReserved(each));
  return holds(good, 'warn', observed, { reason: 'an operation token has no lifetime' });
}

/** The worker itself: its inventory, its directories, and where it and Temporal run: they must outlive the cluster that fails. */
export async function workerPoints({ execution, deployment }: ReadinessContext): Promise<ReadinessPoint[]> {
  const { inventory, inventoryRefusal: refusal, keyRecords, signal, temporalAddress } = execution;
  const { laboratory, snapshot } = deployment;
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const worker = [hostname(), ...addresses.filter(({ internal }) => !internal).map(({ address }) => address)];
  const own = judged(
    {
      id: 'inventory',
      source: 'worker',
      needed: 'the file of the inventory is in force',
      next: 'Correct it, with the help of `runbook inventory check`; the workers read it again within seconds.',
      // The worker goes on with the one that it read before.
      judge: () =>
        holds(refusal === undefined, 'warn', refusal ?? `digest ${inventoryDigest(inventory, deployment.name)}`),
    },
    {
      id: 'independent',
      source: 'worker',
      needed: 'worker and Temporal depend on no cluster of the deployment',
      next: 'Move them: docs/operations.md says where they may run.',
      judge: () => judgeIndependence(deployment, { temporal: temporalAddress, worker }),
    },
  );
  const keys = readPoints(signal, () => keyRecords.ofRun({ ns: '', wid: '', rid: '' }), {
    id: 'key-storage',
    source: 'worker',
    needed: 'the directory of ceremony keys is usable and memory-backed',
    next: 'Set RUNBOOKS_KEY_STORAGE=memory and RUNBOOKS_KEY_DIR to a directory on a tmpfs.',
    judge: () => {
      const inMemory = keyRecords.erasure === 'memory';
      const observed = inMemory ? 'usable, in memory' : 'usable, on disk: erasing keys is best effort';
      return holds(inMemory || laboratory, 'warn', observed);
    },
  });
  const directory = snapshot === undefined || snapshot.to === 'hook' ? undefined : snapshot.to;
  if (directory === undefined) return [...own, ...(await keys)];
  const snapshots = readPoints(signal, () => access(directory, constants.W_OK).then(() => undefined, errnoOf), {
    id: 'snapshot-directory',
    source: 'worker',
    // Where none can be written, the step before a demotion or a wipe parks.
    needed: `the worker can write into ${directory}`,
    next: 'Make it, for the worker alone (mode 0700); under systemd name it in ReadWritePaths=.',
    judge: (error) => holds(error === undefined, { switchover: 'warn' }, error ?? 'writable'),
  });
  return [...own, ...(await Promise.all([keys, snapshots])).flat()];
}

/** Whether `walSampler` runs: without samples the loss of a failover is "unknown". Pure. */
export function samplerPoints(
  { readiness }: Deployment,
  { samples, unattested }: { readonly samples: readonly WalSample[]; readonly unattested: number },
  now: number,
): ReadinessPoint[] {
  const sampler = judged({
    id: 'wal-sampler',
    source: 'temporal',
    needed: `a sample at most ${Math.round(readiness.sampleAgeMs / 1_000)} s old`,
    next: 'Start walSampler by a Temporal Schedule.',
    judge: () => {
      if (samples.length === 0)
        return answer('warn', 'no samples', { reason: 'the loss of a failover could not be bounded' });
      const age = Math.max(0, now - Math.max(...samples.map(({ at }) => at)));
      return holds(age <= readiness.sampleAgeMs, 'warn', `the newest is ${Math.round(age / 1_000)} s old`);
    },
  });
  // What earlier runs left: told only where there are some.
  if (unattested === 0) return sampler;
  const attested = judged({
    id: 'attested-results',
    source: 'temporal',
    needed: 'results of walSampler that these workers made',
    next: 'Find out who writes them; where a seal key was taken away, put its entry back behind the others.',
    judge: () => answer('warn', `${unattested} that no worker attested; they count for nothing`),
  });
  return [...sampler, ...attested];
}

/** Where worker and Temporal run. */
interface Place {
  /** `host:port` of the Temporal server, where the worker knows it. */
  readonly temporal: string | undefined;
  /** Names and addresses of the worker's machine, without loopback. */
  readonly worker: readonly string[];
}

/** Equal hosts disprove it; nothing read here proves it. Pure. */
export function judgeIndependence({ clusters, readiness }: Deployment, place: Place): Answer {
  const isLoopback = (host: string) => host === 'localhost' || host === '[::1]' || host.startsWith('127.');
  const hosts = [...clusters.values()].flatMap(({ addresses }) => addresses.map((each) => new URL(each).hostname));
  const remote = new Set(hosts.filter((host) => !isLoopback(host)));
  const temporal = place.temporal?.replace(/^\w+:\/\//, '').replace(/:\d+$/, '');
  const shared = [
    ...(temporal !== undefined && remote.has(temporal) ? [`Temporal (${temporal})`] : []),
    ...place.worker.filter((host) => remote.has(host)).map((host) => `this worker (${host})`),
  ];
  if (shared.length > 0)
    return answer({ switchover: 'warn', failover: 'fail' }, `on a host of the deployment: ${shared.join(', ')}`);
  if (readiness.independent)
    return answer('ok', 'attested by the inventory; no host is shared', { source: 'attested' });
  return unknowable(
    'storage, names and credential sources may depend on it without sharing a host; attest readiness.independent once you know',
  );
}
