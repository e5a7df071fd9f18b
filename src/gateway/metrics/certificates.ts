import { readFile } from 'node:fs/promises';
import { connect } from 'node:tls';
import type { Deployment } from '../../inventory';
import type { Sample } from './names';
import { expiry } from './readings';

/** A node that does not answer must not delay a scrape. */
const CONNECT_MS = 2_500;

/** When the first certificate of each cluster's nodes expires. It connects, and sends nothing: no credential is needed. */
export async function certificates({ name: deployment, clusters }: Deployment): Promise<readonly Sample[]> {
  const each = await Promise.all(
    [...clusters.values()].map(async ({ name: cluster, addresses, caFile }) => {
      const ca = caFile === undefined ? undefined : await readFile(caFile);
      const ends = await Promise.all(addresses.map((address) => certificateEnd(new URL(address), ca)));
      const known = ends.filter((end) => end !== undefined);
      return known.length === 0 ? [] : [expiry({ deployment, cluster, credential: 'certificate' }, Math.min(...known))];
    }),
  );
  return each.flat();
}

/** Epoch milliseconds; 0 if it has expired; undefined if the node does not answer or is not who it should be. */
function certificateEnd({ protocol, hostname, port }: URL, ca: Buffer | undefined): Promise<number | undefined> {
  if (protocol !== 'https:') return Promise.resolve(undefined);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({ host, port: Number(port || 443), ca, rejectUnauthorized: true, timeout: CONNECT_MS });
    const end = (at: number | undefined) => {
      clearTimeout(timer);
      socket.destroy();
      resolve(at);
    };
    const timer = setTimeout(() => end(undefined), CONNECT_MS);
    socket.once('secureConnect', () => end(Date.parse(socket.getPeerCertificate().valid_to)));
    socket.once('error', (error: NodeJS.ErrnoException) => end(error.code === 'CERT_HAS_EXPIRED' ? 0 : undefined));
  });
}
