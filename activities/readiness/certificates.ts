import { connect } from 'node:tls';
import { readFile } from 'node:fs/promises';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import { errnoOf, RunbookError } from '../../src/errors';
import type { ClusterEntry } from '../../src/inventory';
import type { Look } from './look';
import { inspect } from './look';
import { severity } from './nodes';
import type { Question } from './point';
import { holds, judged, notCheckable } from './point';
import type { ClusterView, World } from './world';

const DAY_MS = 86_400_000;

/** What one node showed in its TLS handshake. */
interface SeenCertificate {
  readonly address: string;
  /** End of its validity, epoch ms. */
  readonly validTo: number;
  /** Why the CA of the inventory does not vouch for it; absent where it does. */
  readonly refused?: string;
}

/** Certificates of the API addresses, by a handshake with each node. */
export function certificates(look: Look, { clusters, deployment }: World): Promise<ReadinessPoint[]> {
  return Promise.all(
    clusters.map(async (view) => {
      const { entry } = look.clusters.of(deployment.name, view.name);
      const question = certificateQuestion(view, deployment.readiness.certificateLifeMs);
      const secure = entry.addresses.filter((address) => address.startsWith('https:'));
      if (secure.length === 0) return notCheckable(question, 'its API addresses are plain http on loopback');
      const answering = secure.filter((address) =>
        view.observation.nodes.some((node) => node.address === address && node.reachable),
      );
      return inspect(
        look,
        [question],
        (signal) => Promise.all((answering.length > 0 ? answering : secure).map((each) => shake(entry, each, signal))),
        (seen) => judgeCertificates(view, seen, deployment.readiness.certificateLifeMs, look.now),
      );
    }),
  ).then((points) => points.flat());
}

function certificateQuestion({ name }: ClusterView, lifeMs: number): Question {
  return {
    id: 'certificate',
    cluster: name,
    source: 'api',
    needed: `trusted, and valid for at least ${Math.round(lifeMs / DAY_MS)} days`,
    next: `Renew the certificates of the API listeners of ${name}.`,
  };
}

/** The one that ends first counts. Pure. */
export function judgeCertificates(
  view: ClusterView,
  seen: readonly SeenCertificate[],
  lifeMs: number,
  now: number,
): ReadinessPoint[] {
  const question = certificateQuestion(view, lifeMs);
  const refused = seen.find((each) => each.refused !== undefined);
  if (refused) return judged(question, severity(view.part), `${refused.address}: ${refused.refused}`);
  const first = seen.toSorted((a, b) => a.validTo - b.validTo)[0];
  if (!first || !Number.isFinite(first.validTo)) return notCheckable(question, 'no certificate tells its end');
  const observed = `${first.address}: ${inDays(first.validTo - now)}`;
  if (first.validTo <= now) return judged(question, severity(view.part), observed);
  return holds(question, first.validTo - now >= lifeMs, 'warn', observed);
}

/** How long something lives, in days. */
export function inDays(ms: number): string {
  const days = Math.floor(Math.abs(ms) / DAY_MS);
  return ms <= 0 ? `ended ${days} days ago` : `${days} days left`;
}

/** One handshake; nothing is sent. Also an untrusted certificate is looked at: its end is worth knowing. */
async function shake({ name, caFile }: ClusterEntry, address: string, signal: AbortSignal): Promise<SeenCertificate> {
  const { hostname, port } = new URL(address);
  const ca = caFile === undefined ? undefined : await readFile(caFile, 'utf8');
  return new Promise((resolve, reject) => {
    const host = hostname.replace(/^\[|\]$/g, '');
    const socket = connect({
      host,
      port: Number(port) || 443,
      servername: /^[\d.:]+$/.test(host) ? '' : host,
      ca,
      rejectUnauthorized: false,
    });
    const fail = (error: Error): void => {
      socket.destroy();
      reject(
        new RunbookError('UNREACHABLE', 'no TLS handshake', { cluster: name, observed: errnoOf(error) ?? error.name }),
      );
    };
    const stop = (): void => fail(new Error('aborted'));
    signal.addEventListener('abort', stop, { once: true });
    socket.once('error', fail);
    socket.once('secureConnect', () => {
      signal.removeEventListener('abort', stop);
      const validTo = Date.parse(socket.getPeerCertificate().valid_to);
      const reason: unknown = socket.authorizationError;
      const refused = socket.authorized ? {} : { refused: refusalOf(reason) };
      socket.destroy();
      resolve({ address, validTo, ...refused });
    });
  });
}

/** A code of the TLS library, such as `DEPTH_ZERO_SELF_SIGNED_CERT`. */
function refusalOf(reason: unknown): string {
  if (reason instanceof Error) return 'code' in reason ? String(reason.code) : reason.name;
  return typeof reason === 'string' ? reason : 'not trusted';
}
