import { once } from 'node:events';
import { readFile, stat } from 'node:fs/promises';
import { connect } from 'node:tls';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { errnoOf, RunbookError } from '../../src/errors';
import type { ClusterEntry } from '../../src/inventory';
import { mayCall } from '../checks/credentials';
import { QUOTA_LEFT_BEHIND, quiescing } from '../checks/quiesce';
import { answer, checked, holds, readPoints, unknowable, unread } from './point';
import type { Answer } from './point';
import { SEVERITY } from './topology';
import type { ClusterReading, Part, ServiceContext } from './topology';

/* What keeps a cluster in order beside replication: certificates, licence, snapshots, audit devices. */

const DAY_MS = 86_400_000;

export async function upkeepPoints(context: ServiceContext): Promise<ReadinessPoint[]> {
  const primaries = context.sets.flatMap(({ primaries: [primary] }) => primary ?? []);
  const points = await Promise.all([
    ...context.clusters.flatMap((each) => [certificate(context, each), licence(context, each)]),
    ...primaries.flatMap((each) => [snapshot(context, each), auditDevices(context, each)]),
  ]);
  return points.flat();
}

/** What a plan would refuse: a quota that no open run can own, and no way to prove that nothing is lost. Told only then. */
export async function quiescePoints(
  { sets, access, deployment, execution: { signal } }: ServiceContext,
  runWorks: Promise<boolean>,
): Promise<ReadinessPoint[]> {
  if (await runWorks) return [];
  const primaries = sets.flatMap(({ primaries: [primary] }) => primary ?? []);
  const points = primaries.map(async ({ name }) => {
    const primary = access(name);
    const { checks, rights } = await quiescing(deployment, { acceptLoss: 'none' }, primary, 'the new primary', signal);
    const refused = [...checks, ...(await mayCall(primary, rights, signal))].filter((each) => each.verdict === 'fail');
    return refused.flatMap((each) =>
      each.name === QUOTA_LEFT_BEHIND
        ? checked('quota-left-behind', each, 'fail')
        : checked('quiesce', each, { switchover: 'fail' }),
    );
  });
  return (await Promise.all(points)).flat();
}

/** What one node showed in its TLS handshake. */
interface SeenCertificate {
  readonly address: string;
  /** End of its validity, epoch ms. */
  readonly validTo: number;
  /** Why the CA of the inventory does not vouch for it; absent where it does. */
  readonly refused?: string;
}

/** Certificates of the API addresses, by a handshake with each node. */
async function certificate(
  { access, deployment, execution, now }: ServiceContext,
  { name, part, observation }: ClusterReading,
): Promise<ReadinessPoint[]> {
  const { entry } = access(name);
  const { certificateLifeMs } = deployment.readiness;
  const secure = entry.addresses.filter((address) => address.startsWith('https:'));
  const answering = secure.filter((address) =>
    observation.nodes.some((node) => node.address === address && node.reachable),
  );
  const read = (signal: AbortSignal) =>
    Promise.all((answering.length > 0 ? answering : secure).map((each) => shake(entry, each, signal)));
  return readPoints(execution.signal, read, {
    id: 'certificate',
    cluster: name,
    needed: `trusted, and valid for at least ${Math.round(certificateLifeMs / DAY_MS)} days`,
    next: `Renew the certificates of the API listeners of ${name}.`,
    judge: (seen) =>
      secure.length === 0
        ? unknowable('its API addresses are plain http on loopback')
        : judgeCertificates(part, seen, certificateLifeMs, now),
  });
}

/** The one that ends first counts. Pure. */
export function judgeCertificates(part: Part, seen: readonly SeenCertificate[], lifeMs: number, now: number): Answer {
  const refused = seen.find((each) => each.refused !== undefined);
  if (refused) return answer(SEVERITY[part], `${refused.address}: ${refused.refused}`);
  const [first] = seen.toSorted((a, b) => a.validTo - b.validTo);
  if (!first || !Number.isFinite(first.validTo)) return unknowable('no certificate tells its end');
  return untilEnd(part, first.validTo, lifeMs, now, `${first.address}: `);
}

/** What has ended is red, what ends soon a warning. */
function untilEnd(part: Part, end: number, lifeMs: number, now: number, of = ''): Answer {
  const days = Math.floor(Math.abs(end - now) / DAY_MS);
  const observed = `${of}${end <= now ? `ended ${days} days ago` : `${days} days left`}`;
  return end <= now ? answer(SEVERITY[part], observed) : holds(end - now >= lifeMs, 'warn', observed);
}

/** One handshake; nothing is sent. Also an untrusted certificate is looked at: its end is worth knowing. */
async function shake({ name, caFile }: ClusterEntry, address: string, signal: AbortSignal): Promise<SeenCertificate> {
  const { hostname, port } = new URL(address);
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8');
  const host = hostname.replace(/^\[|\]$/g, '');
  const servername = /^[\d.:]+$/.test(host) ? '' : host;
  const socket = connect({ host, port: Number(port) || 443, servername, ca, rejectUnauthorized: false });
  socket.on('error', () => undefined);
  try {
    await once(socket, 'secureConnect', { signal });
    const validTo = Date.parse(socket.getPeerCertificate().valid_to);
    const reason: unknown = socket.authorizationError;
    return { address, validTo, ...(!socket.authorized && { refused: refusalOf(reason) }) };
  } catch (error) {
    const observed = errnoOf(error) ?? 'the connection ended';
    throw new RunbookError('UNREACHABLE', 'no TLS handshake', { cluster: name, observed });
  } finally {
    socket.destroy();
  }
}

/** A code of the TLS library, such as `DEPTH_ZERO_SELF_SIGNED_CERT`. */
function refusalOf(reason: unknown): string {
  if (reason instanceof Error) return 'code' in reason ? String(reason.code) : reason.name;
  return typeof reason === 'string' ? reason : 'not trusted';
}

async function licence(
  { access, deployment, execution, now }: ServiceContext,
  { name, part, healths }: ClusterReading,
): Promise<ReadinessPoint[]> {
  const { licenceLifeMs } = deployment.readiness;
  const told = healths.flatMap(({ health }) => health.licence ?? []);
  const ends = told.flatMap(({ expiryTime }) => (expiryTime === undefined ? [] : [Date.parse(expiryTime)]));
  const until = (end: number) => untilEnd(part, end, licenceLifeMs, now);
  const fromHealth = (): Answer | undefined => {
    if (healths.length === 0) return unread('no node answers');
    const end = Math.min(...ends);
    if (told.some(({ terminated }) => terminated === true))
      return answer(SEVERITY[part], `terminated, ${ends.length === 0 ? 'no end told' : until(end).observed}`);
    if (ends.length > 0) return until(end);
    return part !== 'primary' || healths.every(({ health }) => health.enterprise === false)
      ? unknowable('its nodes tell no licence')
      : undefined;
  };
  const known = fromHealth();
  const own = access(name);
  const read = async (signal: AbortSignal) =>
    known ? undefined : own.client.sys.licenceStatus({ token: await own.credential(), signal });
  return readPoints(execution.signal, read, {
    id: 'licence',
    cluster: name,
    needed: `valid for at least ${Math.round(licenceLifeMs / DAY_MS)} days`,
    next: `Renew the licence of ${name}: a node with an ended one does not start again.`,
    judge: (status) => {
      if (known) return known;
      const end = status?.expirationTime;
      return end === undefined ? unknowable('the service tells no end of its licence') : until(Date.parse(end));
    },
  });
}

/** An old snapshot stops nobody, and is missed when all goes wrong. */
function snapshot(
  { access, deployment, execution: { signal }, now }: ServiceContext,
  { name }: ClusterReading,
): Promise<ReadinessPoint[]> {
  const { snapshots: known, snapshotAgeMs } = deployment.readiness;
  const own = access(name);
  const byAge = (at: number): Answer => {
    if (!Number.isFinite(at)) return answer('warn', 'none was ever taken');
    const hours = Math.max(0, Math.round((now - at) / 360_000) / 10);
    return holds(now - at <= snapshotAgeMs, 'warn', `${hours} h old`);
  };
  const read = async (limited: AbortSignal): Promise<Answer> => {
    if (known === undefined) return unknowable('the inventory does not say how to know (readiness.snapshots)');
    if ('takenAt' in known) return { ...byAge(Date.parse(known.takenAt)), source: 'attested' };
    if ('stampFile' in known) return { ...byAge((await stat(known.stampFile)).mtimeMs), source: 'worker' };
    const options = { token: await own.credential(), signal: limited };
    const { lastSnapshotEnd, lastSnapshotError, consecutiveErrors } = await own.client.sys.autoSnapshotStatus(
      known.automatic,
      options,
    );
    return lastSnapshotError !== undefined || (consecutiveErrors ?? 0) > 0
      ? answer('warn', `the last one of "${known.automatic}" failed`)
      : byAge(Date.parse(lastSnapshotEnd ?? ''));
  };
  return readPoints(signal, read, {
    id: 'snapshot',
    cluster: name,
    needed: `a snapshot at most ${Math.round(snapshotAgeMs / 3_600_000)} h old`,
    next: `Take a snapshot of ${name}, and see why the last one is old.`,
    judge: (found) => found,
  });
}

function auditDevices({ access, execution }: ServiceContext, { name }: ClusterReading): Promise<ReadinessPoint[]> {
  const own = access(name);
  const read = async (signal: AbortSignal) => own.client.sys.auditDevices({ token: await own.credential(), signal });
  return readPoints(execution.signal, read, {
    id: 'audit-devices',
    cluster: name,
    needed: 'at least two, so that one that blocks does not stop the service',
    next: `Enable another audit device on ${name}, at a path that is writable on its secondaries too.`,
    judge: (devices) => {
      if (devices.length === 0) return answer('fail', 'none', { reason: 'nothing is audited' });
      return holds(devices.length > 1, 'warn', devices.map(({ path }) => path).join(', '), {
        reason: 'where the only one blocks, every authenticated call fails while health is good',
      });
    },
  });
}
