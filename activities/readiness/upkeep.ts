import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import type { Check } from '../../src/contracts/plan';
import { errnoOf, RunbookError } from '../../src/errors';
import type { ClusterEntry } from '../../src/inventory';
import { check, notCheckable } from '../checks/check';
import { readChecks, stops, unread } from './point';
import type { Judged } from './point';
import type { ClusterReading, ServiceContext } from './topology';

/* What keeps a cluster in order beside replication: certificates, licence, snapshots, audit devices. */

const DAY_MS = 86_400_000;

export async function upkeepChecks(context: ServiceContext): Promise<Judged[]> {
  const primaries = context.sets.flatMap(({ primaries: [primary] }) => primary ?? []);
  const checks = await Promise.all([
    ...context.clusters.flatMap((each) => [certificate(context, each), licence(context, each)]),
    ...primaries.flatMap((each) => [snapshot(context, each), auditDevices(context, each)]),
  ]);
  return checks.flat();
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
): Promise<Judged[]> {
  const { entry } = access(name);
  const { certificateLifeMs } = deployment.readiness;
  const secure = entry.addresses.filter((address) => address.startsWith('https:'));
  const answering = secure.filter((address) =>
    observation.nodes.some((node) => node.address === address && node.reachable),
  );
  const asked = { name: 'certificate', cluster: name, needed: trustedFor(certificateLifeMs) };
  if (secure.length === 0)
    return [notCheckable(asked.name, name, { ...asked, observed: 'its API addresses are plain http on loopback' })];
  return readChecks(execution.signal, asked, async (signal) => {
    const seen = await Promise.all(
      (answering.length > 0 ? answering : secure).map((each) => shake(entry, each, signal)),
    );
    return stops(part, judgeCertificates(name, seen, certificateLifeMs, now));
  });
}

function trustedFor(lifeMs: number): string {
  return `trusted, and valid for at least ${inDays(lifeMs)}`;
}

/** The one that ends first counts. Pure. */
export function judgeCertificates(
  cluster: string,
  seen: readonly SeenCertificate[],
  lifeMs: number,
  now: number,
): Check {
  const needed = trustedFor(lifeMs);
  const next = `Renew the certificates of the API listeners of ${cluster}.`;
  const refused = seen.find((each) => each.refused !== undefined);
  if (refused)
    return check('certificate', cluster, false, { observed: `${refused.address}: ${refused.refused}`, needed, next });
  const [first] = seen.toSorted((a, b) => a.validTo - b.validTo);
  if (!first || !Number.isFinite(first.validTo))
    return notCheckable('certificate', cluster, { observed: 'no certificate tells its end', needed });
  const { observed, ...judged } = endsIn('certificate', cluster, first.validTo, { lifeMs, now, needed, next });
  return { ...judged, observed: `${first.address}: ${observed}` };
}

interface Life {
  readonly lifeMs: number;
  readonly now: number;
  readonly needed: string;
  readonly next: string;
}

/** What has ended is red, what ends soon a warning. */
function endsIn(name: string, cluster: string, end: number, { lifeMs, now, needed, next }: Life): Check {
  const days = Math.floor(Math.abs(end - now) / DAY_MS);
  const observed = end <= now ? `ended ${days} days ago` : `${days} days left`;
  return check(name, cluster, end - now >= lifeMs, { observed, needed, next, otherwise: end <= now ? 'fail' : 'warn' });
}

function inDays(ms: number): string {
  return `${Math.round(ms / DAY_MS)} days`;
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
): Promise<Judged[]> {
  const { licenceLifeMs: lifeMs } = deployment.readiness;
  const told = healths.flatMap(({ health }) => health.licence ?? []);
  const ends = told.flatMap(({ expiryTime }) => (expiryTime === undefined ? [] : [Date.parse(expiryTime)]));
  const asked = { name: 'licence', cluster: name, needed: `valid for at least ${inDays(lifeMs)}` };
  const next = `Renew the licence of ${name}: a node with an ended one does not start again.`;
  const until = (end: number) => endsIn(asked.name, name, end, { lifeMs, now, needed: asked.needed, next });
  const untold = (observed: string) => notCheckable(asked.name, name, { observed, needed: asked.needed });
  if (healths.length === 0) return [unread(asked, 'no node answers')];
  if (told.some(({ terminated }) => terminated === true))
    return [stops(part, check(asked.name, name, false, { observed: 'terminated', needed: asked.needed, next }))];
  if (ends.length > 0) return [stops(part, until(Math.min(...ends)))];
  if (part !== 'primary' || healths.every(({ health }) => health.enterprise === false))
    return [untold('its nodes tell no licence')];
  const own = access(name);
  return readChecks(execution.signal, asked, async (signal) => {
    const { expirationTime } = await own.client.sys.licenceStatus({ token: await own.credential(), signal });
    if (expirationTime === undefined) return untold('the service tells no end of its licence');
    return stops(part, until(Date.parse(expirationTime)));
  });
}

/** An old snapshot stops nobody, and is missed when all goes wrong. */
function snapshot({ access, deployment, execution, now }: ServiceContext, { name }: ClusterReading): Promise<Judged[]> {
  const { snapshots, snapshotAgeMs } = deployment.readiness;
  const own = access(name);
  const asked = {
    ...{ name: 'snapshot', cluster: name },
    needed: `a snapshot at most ${Math.round(snapshotAgeMs / 3_600_000)} h old`,
  };
  return readChecks(execution.signal, asked, async (signal) => {
    if (snapshots === undefined) {
      const observed = 'the inventory names no automatic snapshots (readiness.snapshots)';
      return notCheckable(asked.name, name, { observed, needed: asked.needed });
    }
    const options = { token: await own.credential(), signal };
    const { lastSnapshotEnd, lastSnapshotError, consecutiveErrors } = await own.client.sys.autoSnapshotStatus(
      snapshots.automatic,
      options,
    );
    const at = Date.parse(lastSnapshotEnd ?? '');
    const hours = Math.max(0, Math.round((now - at) / 360_000) / 10);
    const failed = lastSnapshotError !== undefined || (consecutiveErrors ?? 0) > 0;
    const age = Number.isFinite(at) ? `${hours} h old` : 'none was ever taken';
    return check(asked.name, name, !failed && now - at <= snapshotAgeMs, {
      observed: failed ? `the last one of "${snapshots.automatic}" failed` : age,
      needed: asked.needed,
      next: `Take a snapshot of ${name}, and see why the last one is old.`,
      otherwise: 'warn',
    });
  });
}

function auditDevices({ access, execution }: ServiceContext, { name }: ClusterReading): Promise<Judged[]> {
  const own = access(name);
  const asked = {
    ...{ name: 'audit-devices', cluster: name },
    needed: 'at least two: where the only one blocks, every authenticated call fails while health is good',
  };
  return readChecks(execution.signal, asked, async (signal) => {
    const devices = await own.client.sys.auditDevices({ token: await own.credential(), signal });
    return check(asked.name, name, devices.length > 1, {
      observed: devices.map(({ path }) => path).join(', ') || 'none: nothing is audited',
      needed: asked.needed,
      next: `Enable another audit device on ${name}, at a path that is writable on its secondaries too.`,
      otherwise: devices.length === 0 ? 'fail' : 'warn',
    });
  });
}
