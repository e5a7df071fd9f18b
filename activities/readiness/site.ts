import { access, constants } from 'node:fs/promises';
import { deploymentWorkflowId } from '../../src/contracts/names';
import type { WalSample } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { GateName } from '../../src/contracts/gates';
import { errnoOf } from '../../src/errors';
import {
  TRUSTED,
  approversOf,
  caFilesNamedIn,
  filesNamedIn,
  inventoryDigest,
  wantedSchedules,
  whyNotTrusted,
} from '../../src/inventory';
import type { Deployment, Inventory, WantedSchedule } from '../../src/inventory';
import { evaluateGate, missingSealKeys } from '../../src/keys';
import { SOUND_CA_FILES, caFileFaults } from '../../src/vault';
import { judgeRoster, rosterOfRehearsal } from '../ceremony/ceremony';
import { rehearsals } from '../ceremony/rehearsal';
import type { RehearsalRecord } from '../ceremony/rehearsal';
import type { LedgerEntry } from '../tokens/token-ledger';
import { openEntries, TokenLedger, isReserved } from '../tokens/token-ledger';
import type { OpenRun } from '../checks/runs';
import { asWarning, check } from '../checks/check';
import { currentExecution } from '../execution';
import { readSchedule, scheduleFix, scheduleText } from '../schedules';
import { concerning, readChecks, unread } from './reading';
import type { DrSet, Judged, ServiceContext, Topology } from './reading';

/* The site around the service: active runs, tokens left behind, keys of the worker, samples. */

/** Active runs, and what earlier ones left: tokens in the record, and values under seal keys that were removed too early. */
export async function runChecks(name: string, held: Promise<OpenRun | undefined>): Promise<Judged[]> {
  const { records, sealKeyring, signal, temporal } = currentExecution();
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
  const needed = 'this worker can open the sealed values of the open run and of the record';
  const checks = [
    readChecks(signal, { name: 'lock', needed: NO_OTHER_RUN }, async () => lockChecks(lock, await held)),
    readChecks(signal, { name: RECORDED, needed: NONE_LEFT }, async () => {
      const entries = await openEntries(name);
      return judgeRecordedTokens(entries, (await held.catch(() => undefined))?.runId);
    }),
    readChecks(signal, { name: 'seal-keys', needed }, async (limited) => {
      const missing = await missingKeys(limited);
      return check('seal-keys', undefined, missing.length === 0, {
        observed: missing.length === 0 ? 'all can be opened' : `${missing.join('; ')}: not in RUNBOOKS_SEAL_KEYS_FILE`,
        needed,
        next: 'Put the named entry back into RUNBOOKS_SEAL_KEYS_FILE of every worker, after the key that seals, and restart the workers.',
      });
    }),
  ];
  return (await Promise.all(checks)).flat();
}

const NO_OTHER_RUN = 'no other run of the deployment is active';

/** A planned run is refused; a failover takes the active run over. */
function lockChecks(lock: string, run: OpenRun | undefined): Judged[] {
  const phase = run?.phase === undefined ? '' : `, ${run.phase}`;
  const judged = check('lock', undefined, run === undefined, {
    observed: run ? `held by ${run.type}, run ${run.runId}${phase}` : 'free',
    needed: NO_OTHER_RUN,
    next: `Check that run: \`runbook status ${lock}\``,
  });
  const takeOver = run?.type === 'drFailover' ? undefined : 'A failover takes it over with {"takeOver": true}.';
  return [...concerning('switchover', [judged]), ...concerning('failover', [asWarning(judged, takeOver)])];
}

const RECORDED = 'recorded-tokens';
const NONE_LEFT = 'no operation token is left behind by an earlier run';

/** Tokens of the active run are left to it; a kept one waits for the next change of roles. Pure. */
export function judgeRecordedTokens(entries: readonly LedgerEntry[], working: string | undefined): Check {
  const left = entries.filter(({ rid, state }) => state === 'orphan' || rid !== working);
  const stateText = (entry: LedgerEntry) =>
    isReserved(entry) ? `reserved for the next run until ${entry.kept?.until ?? ''}` : entry.state;
  return check(
    RECORDED,
    undefined,
    left.every((each) => each.state === 'kept' || isReserved(each)),
    {
      observed: left.map((each) => `${each.cluster}: ${stateText(each)}, from ${each.wid}`).join('; ') || 'none',
      needed: NONE_LEFT,
      next: 'An operation token never expires. Run operationTokenDisposal; for an orphan token follow the finding of the run that reported it.',
      otherwise: 'warn',
    },
  );
}

/** The worker itself: its inventory and its directories. */
export async function workerChecks({ laboratory, name, snapshot }: Deployment): Promise<Judged[]> {
  const { inventory, inventoryRefusal: refusal, keyRecords, signal } = currentExecution();
  const keyStorage = { name: 'key-storage', needed: 'the directory of ceremony keys is usable and memory-backed' };
  const directory = snapshot === undefined || snapshot.to === 'hook' ? undefined : snapshot.to;
  return [
    // The worker continues with the inventory that it read before.
    check('inventory', undefined, refusal === undefined, {
      // The full digest would be mistaken for a secret, and redacted.
      observed: refusal ?? `its digest begins with ${inventoryDigest(inventory, name).slice(0, 12)}`,
      needed: 'the inventory file is in force',
      next: 'Correct it with the help of `runbook inventory check`; the workers read it again within seconds.',
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
    ...(await othersFiles(inventory)),
    ...(await unsoundCaFiles(inventory)),
    ...(directory === undefined ? [] : await snapshotDirectory(directory)),
  ];
}

/** Files that the inventory names, as this worker has them. */
async function othersFiles(inventory: Inventory): Promise<Judged[]> {
  const seen = (await Promise.all(filesNamedIn(inventory).map(whyNotTrusted))).filter((each) => each !== undefined);
  const next = 'Make them writable for their owner alone on every worker host, and look whether somebody changed them.';
  return seen.length === 0
    ? []
    : [check('files', undefined, false, { observed: seen.join('; '), needed: TRUSTED, next, otherwise: 'warn' })];
}

/** CA files with certificates that this worker does not use. */
async function unsoundCaFiles(inventory: Inventory): Promise<Judged[]> {
  const faults = await caFileFaults(caFilesNamedIn(inventory));
  const next = 'Replace them on every worker host; the workers read them again at the next call.';
  return faults.length === 0
    ? []
    : [
        check('ca-files', undefined, false, {
          ...{ observed: faults.join('; '), needed: SOUND_CA_FILES, next },
          otherwise: 'warn',
        }),
      ];
}

async function snapshotDirectory(directory: string): Promise<Judged[]> {
  const error = await access(directory, constants.W_OK).then(() => undefined, errnoOf);
  const judged = check('snapshot-directory', undefined, error === undefined, {
    observed: error ?? 'writable',
    // If no snapshot can be written, the step before a demotion or a wipe parks.
    needed: `the worker can write into ${directory}`,
    next: 'Create it for the worker only (mode 0700); under systemd, add it to ReadWritePaths=.',
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
    next: 'Create its Schedule: `runbook schedules apply`. If there is one, check its runs: `runbook list`.',
    otherwise: 'warn',
  });
  // Results that earlier runs left: shown only if there are any.
  if (unattested === 0) return [sampler];
  const attested = check('attested-results', undefined, false, {
    observed: `${unattested} that no worker attested; they do not count`,
    needed: 'results of walSampler that these workers made',
    next: 'Find out who writes them. If a seal key was removed, put its entry back after the others.',
    otherwise: 'warn',
  });
  return [sampler, attested];
}

/** The Schedules that the inventory wants: whether each is there, runs, and is as the inventory has it. */
export async function scheduleChecks(deployment: Deployment): Promise<Judged[]> {
  const { records, signal, temporal } = currentExecution();
  const wanted = wantedSchedules(deployment);
  if (wanted.length === 0) return [];
  const needed = 'the Schedules of the inventory, not paused';
  const judged = await readChecks(signal, { name: 'schedules', needed }, async (limited) => {
    const read = (each: WantedSchedule) => readSchedule(temporal, each, records.taskQueue);
    const readings = await temporal.withAbortSignal(limited, () => Promise.all(wanted.map(read)));
    const bad = readings.filter(({ state }) => state !== 'as-wanted');
    return check('schedules', undefined, bad.length === 0, {
      observed:
        bad.map((each) => `${each.wanted.scheduleId}: ${scheduleText(each)}`).join('; ') ||
        `${readings.length}, all as the inventory has them`,
      needed,
      next: `On the worker host: \`${scheduleFix(bad)}\``,
    });
  });
  // No run needs them.
  return judged.map((each) => asWarning(each));
}

/* The people: holders of key shares, approvers, rehearsals. */

const DAY_MS = 86_400_000;

/** The gates of a switchover, a failover and their follow-up runs, and the verdict on one that cannot be met. */
const GATES = [
  ['plan', 'switchover', 'fail'],
  ['go', 'switchover', 'fail'],
  ['promote', 'failover', 'fail'],
  ['force', 'failover', 'fail'],
  ['unfence', 'failover', 'warn'],
] as const;

/** Holders for the threshold, and approvers for each gate. Pure. */
export function peopleChecks(inventory: Inventory, { deployment, sets }: Topology): Judged[] {
  return [
    ...sets.flatMap((set) => {
      const thresholds = set.secondaries.flatMap(
        ({ observation }) => observation.attempt?.required ?? observation.seal?.threshold ?? [],
      );
      const needed = thresholds.length === 0 ? undefined : Math.max(...thresholds);
      return holders(deployment, set, needed);
    }),
    ...GATES.map(([gate, about, otherwise]) => ({ ...gateCheck(inventory, deployment, gate, otherwise), about })),
  ];
}

/** Whether enough holders have joined for the threshold, and whether one of them may be absent. */
function holders(deployment: Deployment, { name: set }: DrSet, threshold: number | undefined): Judged {
  const { names, good, observed, needed: least, next } = judgeRoster(deployment, threshold);
  const name = `holders.${set}`;
  const needed = `as many holders as the service requires key shares (${least}), and one more`;
  if (deployment.ceremony.tokenSource === 'batch')
    return check(name, undefined, true, { observed: `${observed}; none needed: the token source is batch`, needed });
  if (threshold === undefined) return unread({ name, needed }, 'no DR secondary reports its threshold');
  return check(name, undefined, names.length > threshold, {
    observed: names.length === threshold ? `${observed}: all of them must be available, at any hour` : observed,
    ...{ needed, next },
    otherwise: good ? 'warn' : 'fail',
  });
}

/** Whether the gate opens if everybody who may approve does, and somebody remains who may request the run. */
function gateCheck(inventory: Inventory, deployment: Deployment, gate: GateName, otherwise: 'fail' | 'warn'): Check {
  const policy = deployment.gates[gate];
  const members = approversOf(inventory, deployment, gate);
  const names = members.map(({ name }) => name);
  const approvals = members.map(({ name, groups }) => ({ name, groups, verdict: 'approve' as const }));
  const canBeMet = (requester?: string) =>
    evaluateGate({ ...policy, approvers: names }, requester, approvals).satisfied;
  const blocked = names.filter((name) => !canBeMet(name));
  const mayRequest = [...inventory.people.keys()].some((name) => !blocked.includes(name));
  const reason =
    canBeMet() && blocked.length > 0 ? `; it cannot be met if ${blocked.join(' or ')} requests the run` : '';
  return check(`gate.${gate}`, undefined, canBeMet() && mayRequest, {
    observed: `${names.length} may approve: ${names.join(', ') || 'none'}${reason}`,
    needed: `${policy.approvals} of ${policy.groups.join(' and ')}${policy.excludeRequester ? ', excluding the requester' : ''}`,
    next: `People of its groups who have not joined run \`runbook join LINE\`. Otherwise add people to the groups of gate ${gate}, or change its policy.`,
    otherwise,
  });
}

/** Whether every holder and stand-by holder has completed a recent rehearsal with the current keys. */
export async function rehearsalChecks({ deployment, now }: ServiceContext): Promise<Judged[]> {
  const { inventory, signingKey, records, signal } = currentExecution();
  const facts = { people: inventory.people, workers: signingKey.kid };
  return readChecks(signal, { name: 'rehearsed', needed: 'the rehearsals in the record' }, async () => {
    return judgeRehearsals(deployment, facts, await rehearsals.all(records, deployment.name), now);
  });
}

/** What the workers know about themselves and their people. */
interface RehearsalFacts {
  readonly people: Inventory['people'];
  /** Thumbprint of the key with which the workers sign invitations. */
  readonly workers: string;
}

/** Pure. One rehearsal is enough for all who need one. */
export function judgeRehearsals(
  deployment: Deployment,
  facts: RehearsalFacts,
  last: ReadonlyMap<string, RehearsalRecord>,
  now: number,
): Check[] {
  const judged = rosterOfRehearsal(deployment).map(({ name, standBy }) => {
    return { name, check: judgeRehearsal(deployment, facts, name, last.get(name), standBy, now) };
  });
  const holders = judged.flatMap(({ name, check: { verdict } }) => (verdict === 'ok' ? [] : [name]));
  const input = JSON.stringify({ deployment: deployment.name, holders, reason: 'WHY' });
  const next = `Rehearse: \`runbook start ceremonyRehearsal --input '${input}'\``;
  return judged.map(({ check: each }) => (each.verdict === 'ok' ? each : { ...each, next }));
}

function judgeRehearsal(
  { ceremony: { tokenSource }, laboratory, readiness }: Deployment,
  facts: RehearsalFacts,
  name: string,
  success: RehearsalRecord | undefined,
  standBy: boolean,
  now: number,
): Check {
  const who = standBy ? ' (stand-by)' : '';
  const needed = `a rehearsal at most ${Math.round(readiness.rehearsalAgeMs / DAY_MS)} days ago`;
  const rehearsed = (good: boolean, observed: string) =>
    check(`rehearsed.${name}`, undefined, good, { observed, needed, otherwise: 'warn' });
  if (tokenSource === 'batch' || tokenSource === 'provided')
    return rehearsed(true, `none needed${who}: the token source is ${tokenSource}`);
  const observed = `${success === undefined ? 'never' : rehearsalText(success, now)}${who}`;
  if (laboratory) return rehearsed(true, `${observed}; this is a laboratory`);
  if (success === undefined) return rehearsed(false, observed);
  const reason = whatChanged(success, facts);
  const recent = now - Date.parse(success.at) <= readiness.rehearsalAgeMs;
  return rehearsed(reason === undefined && recent, reason === undefined ? observed : `${observed}; ${reason}`);
}

function rehearsalText({ at, how, tool }: RehearsalRecord, now: number): string {
  const days = Math.max(0, Math.floor((now - Date.parse(at)) / DAY_MS));
  const when = days === 0 ? 'today' : days === 1 ? 'yesterday' : `${days} days ago`;
  return `${when}, ${how}, with ${tool}`;
}

/** Why a rehearsal no longer counts: it proved nothing about keys that have changed since. */
function whatChanged(
  { holder, how, kid, workers }: RehearsalRecord,
  { people, workers: now }: RehearsalFacts,
): string | undefined {
  const person = people.get(holder);
  if (workers !== now)
    return "the workers have changed their signing key since: the holder's pin of the new one is not proven";
  if (person?.attestation === 'signed' && person.publicKeys.every((key) => key.kid !== kid))
    return 'the key that signed then is no longer in the inventory';
  if (person !== undefined && person.attestation !== how)
    return `since then the inventory requires ${person.attestation} of this person`;
  return undefined;
}
