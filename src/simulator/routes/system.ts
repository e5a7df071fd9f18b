import { createHash } from 'node:crypto';
import { gzipSync } from 'node:zlib';
import { ServiceFault, type JsonObject, type ServiceAnswer } from '../messages';
import { route, type Route, type RouteCall } from './route';

/** The preflight of the official command line's `kv` commands: any right below the mount is enough (facts 12). */
function mountForUi(call: RouteCall): ServiceAnswer {
  const { cluster, identity } = call;
  const path = call.parameter('rest');
  const mounted = cluster.mountOf(path);
  if (mounted === undefined || !cluster.tokens.mayBelow(identity, mounted.path)) {
    const text = `preflight capability check returned 403, please ensure client's policies grant access to path "${path}/"`;
    throw new ServiceFault(403, [text]);
  }
  const options = mounted.version === '2' ? { version: '2' } : null;
  return call.answer({ path: mounted.path, type: mounted.mountType, options, local: false });
}

function listAuditDevices(call: RouteCall): ServiceAnswer {
  const devices = [...call.cluster.auditDevices].map(([path, { type, local }]) => [
    path,
    { type, local, path, description: '', options: {} },
  ]);
  return call.answer(Object.fromEntries(devices) as JsonObject);
}

function licenceStatus(call: RouteCall): ServiceAnswer {
  const { licenceExpiry } = call.cluster;
  if (licenceExpiry === undefined) throw new ServiceFault(404, ['1 error occurred:\n\t* unsupported path\n\n']);
  const autoloaded = {
    expiration_time: licenceExpiry,
    termination_time: licenceExpiry,
    start_time: '2026-01-01T00:00:00Z',
  };
  return call.answer({ autoloading_used: true, autoloaded, persisted_autoload: autoloaded });
}

const BLOCK = 512;
/** More than one chunk of a connection. */
const STATE_BYTES = 200_000;

/** One file of a tar archive: its header, its bytes, and zeros up to the next block. */
function entry(name: string, content: Buffer): Buffer {
  const header = Buffer.alloc(BLOCK);
  const octal = (value: number, length: number) => `${value.toString(8).padStart(length - 1, '0')}\0`;
  header.write(name, 0);
  header.write(octal(0o600, 8), 100);
  header.write(octal(content.length, 12), 124);
  header.write('        0', 148);
  header.write('ustar\x0000', 257);
  header.write(
    octal(
      header.reduce((sum, byte) => sum + byte, 0),
      7,
    ),
    148,
  );
  return Buffer.concat([header, content, Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK)]);
}

/** What the service sends: the storage as it is kept, encrypted, and the sums of its parts, plain and sealed. */
function snapshot({ cluster, now }: RouteCall): ServiceAnswer {
  const meta = Buffer.from(
    JSON.stringify({ Version: 1, ID: `bolt-snapshot-${now}`, Index: 1, Term: 1, Size: STATE_BYTES }),
  );
  const state = cluster.random.bytes(STATE_BYTES);
  const sum = (content: Buffer) => createHash('sha256').update(content).digest('hex');
  const sums = Buffer.from(`${sum(meta)}  meta.json\n${sum(state)}  state.bin\n`);
  const files = {
    'meta.json': meta,
    'state.bin': state,
    SHA256SUMS: sums,
    'SHA256SUMS.sealed': cluster.random.bytes(96),
  };
  const entries = Object.entries(files).map(([name, content]) => entry(name, content));
  return { status: 200, bytes: gzipSync(Buffer.concat([...entries, Buffer.alloc(2 * BLOCK)])) };
}

/** System routes beside replication. */
export const SYSTEM_ROUTES: readonly Route[] = [
  route('GET sys/internal/ui/mounts/*', 'valid-token', mountForUi),
  route('GET sys/audit', 'sudo', listAuditDevices),
  route('GET sys/license/status', 'token', licenceStatus),
  // Harsh: a DR secondary serves none.
  route('GET sys/storage/raft/snapshot', 'token', snapshot),
];
