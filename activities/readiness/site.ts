import { access, constants } from 'node:fs/promises';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { Check } from '../../src/contracts/plan';
import type { WalSample } from '../../src/contracts/wal-samples';
import { errnoOf } from '../../src/errors';
import { inventoryDigest } from '../../src/inventory';
import type { Deployment } from '../../src/inventory';
import { missingSealKeys } from '../../src/keys';
import type { LedgerEntry } from '../ceremony/token-ledger';
import { openEntries, TokenLedger, isReserved } from '../ceremony/token-ledger';
import type { OpenRun } from '../checks/runs';
import { asWarning, check } from '../checks/check';
import { concerning, readChecks } from './point';
import type { Judged } from './point';
import type { ReadinessContext } from './topology';

/* The site around the service: runs that work, tokens left behind, keys of the worker, samples. */

/** Runs that work, and what earlier ones left: tokens in the record, values under seal keys that were taken away too early. */
export async function runChecks(
  { execution, deployment }: ReadinessContext,
  held: Promise<OpenRun | undefined>,
): Promise<Judged[]> {
  const { records, sealKeyring, signal, temporal } = execution;
  const { name } = deployment;
  const lock = deploymentWorkflowId(name);
  const missingKeys = async (limited: AbortSignal) => {
    const run = await held;
    const tokens = await new TokenLedger(records).open(name);
    const handle = run && temporal.workflow.getHandle(lock, run.runId);
    const history = handle && (await temporal.withAbortSignal(limited, () => handle.fetchHistory()));
    return [
      ...missingSealKeys(sealKeyring, history?.events).map((kid) => `the open run needs key ${kid}`),
      ...missingSealKeys(sealKeyring, tokens).map((kid) => `a token in the record needs key ${kid}`),
    ];
  };
  const sealKeys = { name: 'seal-keys', needed: 'this worker opens what the open run and the record hold sealed' };
  const checks = [
    readChecks(signal, { name: 'lock', needed: NO_OTHER_RUN }, async () => lockChecks(lock, await held)),
    readChecks(signal, { name: RECORDED, needed: NONE_LEFT }, async () => {
      const entries = await openEntries(execution, name);
      return judgeRecordedTokens(entries, (await held.catch(() => undefined))?.runId);
    }),
    readChecks(signal, sealKeys, async (limited) => {
      const missing = await missingKeys(limited);
      return check(sealKeys.name, undefined, missing.length === 0, {
        observed: missing.length === 0 ? 'all open' : `${missing.join('; ')}: not in RUNBOOKS_SEAL_KEYS`,
        needed: sealKeys.needed,
        next: 'Put the named entry back into RUNBOOKS_SEAL_KEYS of every worker, behind the one that seals, and restart them.',
      });
    }),
  ];
  return (await Promise.all(checks)).flat();
}

const NO_OTHER_RUN = 'no other run of the deployment works';

/** A planned run is refused; a failover takes the run over. */
function lockChecks(lock: string, run: OpenRun | undefined): Judged[] {
  const phase = run?.phase === undefined ? '' : `, ${run.phase}`;
  const judged = check('lock', undefined, run === undefined, {
    observed: run ? `held by ${run.type}, run ${run.runId}${phase}` : 'free',
    needed: NO_OTHER_RUN,
    next: `Look at it: \`runbook status ${lock}\``,
  });
  const takeOver = run?.type === 'drFailover' ? undefined : 'A failover takes it over with {"takeOver": true}.';
  return [...concerning('switchover', [judged]), ...concerning('failover', [asWarning(judged, takeOver)])];
}

const RECORDED = 'recorded-tokens';
const NONE_LEFT = 'no operation token is left behind by an earlier run';

/** Tokens of the run that works are its own matter; a kept one waits for the next change of roles. Pure. */
export function judgeRecordedTokens(entries: readonly LedgerEntry[], working: string | undefined): Check {
  const left = entries.filter(({ rid, state }) => state === 'orphan' || rid !== working);
  const inWords = (entry: LedgerEntry) =>
    isReserved(entry) ? `reserved for the next run until ${entry.kept?.until ?? ''}` : entry.state;
  return check(
    RECORDED,
    undefined,
    left.every((each) => each.state === 'kept' || isReserved(each)),
    {
      observed: left.map((each) => `${each.cluster}: ${inWords(each)}, from ${each.wid}`).join('; ') || 'none',
      needed: NONE_LEFT,
      next: 'An operation token has no lifetime. Run operationTokenDisposal; for an orphan token follow the finding of the run that reported it.',
      otherwise: 'warn',
    },
  );
}

/** The worker itself: its inventory and its directories. */
export async function workerChecks({ execution, deployment }: ReadinessContext): Promise<Judged[]> {
  const { inventory, inventoryRefusal: refusal, keyRecords, signal } = execution;
  const { laboratory, name, snapshot } = deployment;
  const keyStorage = { name: 'key-storage', needed: 'the directory of ceremony keys is usable and memory-backed' };
  const directory = snapshot === undefined || snapshot.to === 'hook' ? undefined : snapshot.to;
  return [
    // The worker goes on with the inventory that it read before.
    check('inventory', undefined, refusal === undefined, {
      observed: refusal ?? `digest ${inventoryDigest(inventory, name)}`,
      needed: 'the file of the inventory is in force',
      next: 'Correct it, with the help of `runbook inventory check`; the workers read it again within seconds.',
      otherwise: 'warn',
    }),
    ...(await readChecks(signal, keyStorage, async () => {
      await keyRecords.ofRun({ ns: '', wid: '', rid: '' });
      const inMemory = keyRecords.erasure === 'memory';
      return check(keyStorage.name, undefined, inMemory || laboratory, {
        observed: inMemory ? 'usable, in memory' : 'usable, on disk: erasing keys is best effort',
        needed: keyStorage.needed,
        next: 'Set RUNBOOKS_KEY_STORAGE=memory and RUNBOOKS_KEY_DIR to a directory on a tmpfs.',
        otherwise: 'warn',
      });
    })),
    ...(directory === undefined ? [] : await snapshotDirectory(directory)),
  ];
}

async function snapshotDirectory(directory: string): Promise<Judged[]> {
  const error = await access(directory, constants.W_OK).then(() => undefined, errnoOf);
  const judged = check('snapshot-directory', undefined, error === undefined, {
    observed: error ?? 'writable',
    // Where none can be written, the step before a demotion or a wipe parks.
    needed: `the worker can write into ${directory}`,
    next: 'Make it, for the worker alone (mode 0700); under systemd name it in ReadWritePaths=.',
    otherwise: 'warn',
  });
  return concerning('switchover', [judged]);
}

/** Whether `walSampler` runs: without samples the loss of a failover is "unknown". Pure. */
export function samplerChecks(
  { readiness }: Deployment,
  { samples, unattested }: { readonly samples: readonly WalSample[]; readonly unattested: number },
  now: number,
): Judged[] {
  const age = samples.length === 0 ? Infinity : Math.max(0, now - Math.max(...samples.map(({ at }) => at)));
  const sampler = check('wal-sampler', undefined, age <= readiness.sampleAgeMs, {
    observed:
      samples.length === 0
        ? 'no samples: the loss of a failover could not be bounded'
        : `the newest is ${Math.round(age / 1_000)} s old`,
    needed: `a sample at most ${Math.round(readiness.sampleAgeMs / 1_000)} s old`,
    next: 'Start walSampler by a Temporal Schedule.',
    otherwise: 'warn',
  });
  // What earlier runs left: told only where there are some.
  if (unattested === 0) return [sampler];
  const attested = check('attested-results', undefined, false, {
    observed: `${unattested} that no worker attested; they count for nothing`,
    needed: 'results of walSampler that these workers made',
    next: 'Find out who writes them; where a seal key was taken away, put its entry back behind the others.',
    otherwise: 'warn',
  });
  return [sampler, attested];
}
