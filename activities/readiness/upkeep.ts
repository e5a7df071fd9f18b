import { stat } from 'node:fs/promises';
import type { AuditDevice } from '../../src/vault';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment } from '../../src/inventory';
import { inDays } from './certificates';
import type { Look } from './look';
import { inspect } from './look';
import { severity } from './nodes';
import type { Question } from './point';
import { holds, judged, notCheckable, unread } from './point';
import type { ClusterView, World } from './world';

/* What keeps a cluster in order beside replication: licence, snapshots, audit devices. */

export async function upkeep(look: Look, world: World): Promise<ReadinessPoint[]> {
  const primaries = world.sets.flatMap(({ primaries: [primary] }) => primary ?? []);
  const points = await Promise.all([
    ...world.clusters.map((view) => licence(look, view, world)),
    ...primaries.flatMap((view) => [snapshots(look, view, world), auditDevices(look, view, world)]),
  ]);
  return points.flat();
}

async function licence(look: Look, view: ClusterView, { deployment }: World): Promise<ReadinessPoint[]> {
  const question = licenceQuestion(view, deployment);
  if (view.healths.length === 0) return unread(question, 'no node answers');
  const told = view.healths.flatMap(({ health }) => health.licence ?? []);
  const ends = told.flatMap(({ expiryTime }) => (expiryTime === undefined ? [] : [Date.parse(expiryTime)]));
  const terminated = told.some((each) => each.terminated === true);
  if (ends.length > 0 || terminated) return judgeLicence(view, deployment, { ends, terminated }, look.now);
  if (view.part !== 'primary' || view.healths.every(({ health }) => health.enterprise === false))
    return notCheckable(question, 'its nodes tell no licence');
  const access = look.clusters.of(deployment.name, view.name);
  return inspect(
    look,
    [question],
    async (signal) => access.client.sys.licenceStatus({ token: await access.credential(), signal }),
    ({ expirationTime }) =>
      expirationTime === undefined
        ? notCheckable(question, 'the service tells no end of its licence')
        : judgeLicence(view, deployment, { ends: [Date.parse(expirationTime)], terminated: false }, look.now),
  );
}

function licenceQuestion({ name }: ClusterView, { readiness }: Deployment): Question {
  return {
    id: 'licence',
    cluster: name,
    source: 'api',
    needed: `valid for at least ${Math.round(readiness.licenceLifeMs / 86_400_000)} days`,
    next: `Renew the licence of ${name}: a node with an ended one does not start again.`,
  };
}

/** Pure. */
function judgeLicence(
  view: ClusterView,
  deployment: Deployment,
  { ends, terminated }: { readonly ends: readonly number[]; readonly terminated: boolean },
  now: number,
): ReadinessPoint[] {
  const question = licenceQuestion(view, deployment);
  const end = Math.min(...ends);
  const observed = Number.isFinite(end) ? inDays(end - now) : 'no end told';
  if (terminated || end <= now)
    return judged(question, severity(view.part), terminated ? `terminated, ${observed}` : observed);
  return holds(question, end - now >= deployment.readiness.licenceLifeMs, 'warn', observed);
}

async function snapshots(look: Look, view: ClusterView, { deployment }: World): Promise<ReadinessPoint[]> {
  const { snapshots: known, snapshotAgeMs } = deployment.readiness;
  const question: Question = {
    id: 'snapshot',
    cluster: view.name,
    source: 'api',
    needed: `a snapshot at most ${Math.round(snapshotAgeMs / 3_600_000)} h old`,
    next: `Take a snapshot of ${view.name}, and see why the last one is old.`,
  };
  if (known === undefined)
    return notCheckable(question, 'the inventory does not say how to know (readiness.snapshots)');
  if ('takenAt' in known) {
    return judgeSnapshot({ ...question, source: 'attested' }, Date.parse(known.takenAt), snapshotAgeMs, look.now);
  }
  if ('stampFile' in known) {
    const asked: Question = { ...question, source: 'worker' };
    return inspect(
      look,
      [asked],
      async () => (await stat(known.stampFile)).mtimeMs,
      (at) => judgeSnapshot(asked, at, snapshotAgeMs, look.now),
    );
  }
  const access = look.clusters.of(deployment.name, view.name);
  return inspect(
    look,
    [question],
    async (signal) =>
      access.client.sys.autoSnapshotStatus(known.automatic, { token: await access.credential(), signal }),
    ({ lastSnapshotEnd, lastSnapshotError, consecutiveErrors }) =>
      lastSnapshotError !== undefined || (consecutiveErrors ?? 0) > 0
        ? judged(question, 'warn', `the last one of "${known.automatic}" failed`)
        : judgeSnapshot(question, Date.parse(lastSnapshotEnd ?? ''), snapshotAgeMs, look.now),
  );
}

/** An old snapshot stops nobody, and is missed when all goes wrong. Pure. */
function judgeSnapshot(question: Question, at: number, limitMs: number, now: number): ReadinessPoint[] {
  if (!Number.isFinite(at)) return judged(question, 'warn', 'none was ever taken');
  return holds(question, now - at <= limitMs, 'warn', `${Math.max(0, Math.round((now - at) / 360_000) / 10)} h old`);
}

function auditDevices(look: Look, view: ClusterView, { deployment }: World): Promise<ReadinessPoint[]> {
  const access = look.clusters.of(deployment.name, view.name);
  return inspect(
    look,
    [auditQuestion(view)],
    async (signal) => access.client.sys.auditDevices({ token: await access.credential(), signal }),
    (devices) => judgeAuditDevices(view, devices),
  );
}

function auditQuestion({ name }: ClusterView): Question {
  return {
    id: 'audit-devices',
    cluster: name,
    source: 'api',
    needed: 'at least two, so that one that blocks does not stop the service',
    next: `Enable another audit device on ${name}, at a path that is writable on its secondaries too.`,
  };
}

/** Pure. */
function judgeAuditDevices(view: ClusterView, devices: readonly AuditDevice[]): ReadinessPoint[] {
  const observed = devices.map(({ path }) => path).join(', ') || 'none';
  if (devices.length === 0) return judged(auditQuestion(view), 'fail', observed, { reason: 'nothing is audited' });
  return holds(auditQuestion(view), devices.length > 1, 'warn', observed, {
    reason: 'where the only one blocks, every authenticated call fails while health is good',
  });
}
