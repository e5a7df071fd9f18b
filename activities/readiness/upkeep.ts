import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { connect } from 'node:tls';
import type { Check } from '../../src/contracts/plan';
import { errnoOf, RunbookError } from '../../src/errors';
import type { ClusterEntry } from '../../src/inventory';
import { check, notCheckable } from '../checks/check';
import { readChecks, stops, unread } from './point';
import type { Judged } from './point';
import type { ClusterReading, ServiceContext } from './topology';

/* What keeps a cluster in order beside replication: certificates, licence, audit devices. */

const DAY_MS = 86_400_000;

export async function upkeepChecks(context: ServiceContext): Promise<Judged[]> {
  const primaries = context.sets.flatMap(({ primaries: [primary] }) => primary ?? []);
  const checks = await Promise.all([
    ...context.clusters.flatMap((each) => [certificate(context, each), licence(context, each)]),
    ...primaries.map((each) => auditDevices(context, each)),
  ]);
  return checks.flat();
}

/** Certificates of the API addresses, by a handshake with each node that answers: the CA vouches for those. */
async function certificate(
  { access, deployment, execution, now }: ServiceContext,
  { name, part, observation }: ClusterReading,
): Promise<Judged[]> {
  const { entry } = access(name);
  const { certificateLifeMs: lifeMs } = deployment.readiness;
  const asked = lasting('certificate', name, lifeMs);
  const next = `Renew the certificates of the API listeners of ${name}.`;
  const secure = observation.nodes.filter(({ address }) => address.startsWith('https:'));
  if (secure.length === 0)
    return [notCheckable(asked.name, name, { ...asked, observed: 'its API addresses are plain http on loopback' })];
  const answering = secure.filter(({ reachable }) => reachable);
  if (answering.length === 0) return [unread(asked, 'no node answers')];
  return readChecks(execution.signal, asked, async (signal) => {
    const ends = await Promise.all(answering.map(({ address }) => certificateEnd(entry, address, signal)));
    return stops(part, endsIn(asked, Math.min(...ends) - now, lifeMs, next));
  });
}

function lasting(name: string, cluster: string, lifeMs: number) {
  return { name, cluster, needed: `valid for at least ${Math.round(lifeMs / DAY_MS)} days` };
}

/** What has ended is red, what ends soon a warning. */
function endsIn(
  { name, cluster, needed }: ReturnType<typeof lasting>,
  leftMs: number,
  lifeMs: number,
  next: string,
): Check {
  const days = Math.floor(Math.abs(leftMs) / DAY_MS);
  const observed = leftMs <= 0 ? `ended ${days} days ago` : `${days} days left`;
  return check(name, cluster, leftMs >= lifeMs, { observed, needed, next, otherwise: leftMs <= 0 ? 'fail' : 'warn' });
}

/** When the certificate of a node ends, epoch ms, by one handshake; nothing is sent. */
async function certificateEnd({ name, caFile }: ClusterEntry, address: string, signal: AbortSignal): Promise<number> {
  const { hostname, port } = new URL(address);
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8');
  const host = hostname.replace(/^\[|\]$/g, '');
  const servername = isIP(host) === 0 ? host : '';
  const socket = connect({ host, port: Number(port) || 443, servername, ca });
  socket.on('error', () => undefined);
  try {
    await once(socket, 'secureConnect', { signal });
    return Date.parse(socket.getPeerCertificate().valid_to);
  } catch (error) {
    const observed = errnoOf(error) ?? 'the connection ended';
    throw new RunbookError('UNREACHABLE', 'no TLS handshake', { cluster: name, observed });
  } finally {
    socket.destroy();
  }
}

/** As health tells it. */
function licence({ deployment, now }: ServiceContext, { name, part, healths }: ClusterReading): Judged {
  const { licenceLifeMs: lifeMs } = deployment.readiness;
  const asked = lasting('licence', name, lifeMs);
  const next = `Renew the licence of ${name}: a node with an ended one does not start again.`;
  const told = healths.flatMap(({ health }) => health.licence ?? []);
  const ends = told.flatMap(({ expiryTime }) => (expiryTime === undefined ? [] : [Date.parse(expiryTime)]));
  if (healths.length === 0) return unread(asked, 'no node answers');
  if (told.some(({ terminated }) => terminated === true))
    return stops(part, check(asked.name, name, false, { ...asked, observed: 'terminated', next }));
  if (ends.length === 0) return notCheckable(asked.name, name, { ...asked, observed: 'its nodes tell no licence' });
  return stops(part, endsIn(asked, Math.min(...ends) - now, lifeMs, next));
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
