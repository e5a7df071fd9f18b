import { createHash } from 'node:crypto';
import { open, readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Transform } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import type { Hash } from 'node:crypto';
import type { Authority, ChangeResult, OnCluster } from '../../src/contracts/activities';
import type { SnapshotEvent } from '../../src/contracts/names';
import { snapshotOf } from '../../src/moves/every-run';
import type { Operation } from '../../src/contracts/operations';
import { planIn } from '../../src/contracts/plan';
import { RunbookError, errnoOf, isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { verifyOperation } from '../approvals/authority';
import type { ClusterAccess } from '../clusters';
import { onCluster } from '../execution';
import type { Execution } from '../execution';
import { callHook } from '../hooks/run-hook';
import { resultOf } from '../read-act-confirm';
import { ANSWER_BUDGET_MS, awaitIdentityOf } from '../tokens/operation-token';
import type { Rights } from '../checks/rights';

/* A copy of a cluster's storage before an irreversible operation: a raft snapshot of the service, or a hook. */

const COMING: Readonly<Record<SnapshotEvent, (operation: Operation) => boolean>> = {
  demotion: ({ endpoint }) => endpoint === 'primary/demote',
  wipe: ({ endpoint }) => endpoint === 'secondary/enable',
  'forced-promotion': ({ endpoint, gate }) => endpoint === 'secondary/promote' && gate === 'force',
};

interface SnapshotInput extends OnCluster {
  readonly event: SnapshotEvent;
  /** From the plan that allows demoting, wiping or forcibly promoting this cluster. */
  readonly authority: Authority;
}

/**
 * The snapshot that the inventory requires before an event, for its plan. A DR secondary serves no snapshot: there,
 * only a hook can take one.
 */
export function snapshotWanted(
  { snapshot }: Pick<Deployment, 'snapshot'>,
  event: SnapshotEvent,
  cluster: string,
  isDrSecondary = false,
) {
  const to = snapshot?.before.includes(event) ? snapshot.to : undefined;
  const byApi = to !== undefined && to !== 'hook';
  const wanted = to !== undefined && !(byApi && isDrSecondary);
  const rights: Rights = wanted && byApi ? { 'sys/storage/raft/snapshot': ['read'] } : {};
  return {
    wanted,
    rights,
    move: wanted && { step: snapshotOf(cluster), note: `before its ${event}, ${byApi ? `into ${to}` : 'by the hook'}` },
    warning:
      byApi &&
      isDrSecondary &&
      `No snapshot of ${cluster} is taken before its ${event}: a DR secondary serves none, and the inventory has no hook for it.`,
  };
}

/** Takes the snapshot that the inventory requires before this event. By the API it is complete, or there is none. */
export async function takeSnapshot(input: SnapshotInput): Promise<ChangeResult> {
  const { deployment, cluster, event } = input;
  const { execution, clusters, access } = onCluster(input);
  const wanted = clusters.deployment(deployment).snapshot;
  // Called only if the approved plan includes a snapshot.
  if (!wanted?.before.includes(event))
    throw new RunbookError('PRECONDITION_FAILED', `No snapshot of ${cluster} was taken: the inventory was changed.`, {
      ...{ cluster, observed: `the inventory wants no snapshot before a ${event}` },
      needed: 'the snapshot that the approved plan includes',
      next: 'Restore the inventory that the approvals were given for, and decide retry; or abort and start again.',
    });
  await verifyComing(input, access);
  if (wanted.to === 'hook') return callHook({ deployment, hook: 'snapshot', from: cluster, to: cluster });
  const calledAt = Date.now();
  const at = new Date(calledAt).toISOString().replace(/[-:.]/g, '');
  const name = `${deployment}-${cluster}-${at}-before-${event}-${execution.run.rid}.snap`;
  await removePartials(wanted.to, `.${deployment}-${cluster}-`, `-${execution.run.rid}.snap.partial`);
  const { bytes, sha256 } = await download(execution, access, { ...wanted, directory: wanted.to, name });
  const observed = `snapshot of ${cluster}: ${join(wanted.to, name)}, ${bytes} bytes, SHA-256 ${sha256}`;
  return resultOf({ outcome: 'done', calls: 1, calledAt }, observed);
}

/** A cluster is copied only if an approved plan is about to demote, wipe or forcibly promote it. */
async function verifyComing(
  { deployment, cluster, event, authority }: SnapshotInput,
  access: ClusterAccess,
): Promise<void> {
  const { clusterId } = await awaitIdentityOf(access, ANSWER_BUDGET_MS);
  const coming = planIn(authority.plan.text)?.operations.find(
    (operation) => operation.on.cluster === cluster && operation.on.clusterId === clusterId && COMING[event](operation),
  );
  if (coming === undefined)
    throw new RunbookError('NOT_APPROVED', `The plan includes no ${event} of ${cluster}.`, {
      observed: `cluster ID ${clusterId}, and no operation of the plan that calls for this snapshot`,
      needed: `an approved plan for the ${event} of ${cluster}`,
      next: 'Start the runbook again; its gates ask for what is missing.',
    });
  await verifyOperation({ deployment, authority }, coming);
}

/** Removes the files of killed attempts of this run, which may be as large as the storage. */
async function removePartials(directory: string, start: string, end: string): Promise<void> {
  const names = await readdir(directory).catch((): string[] => []);
  for (const name of names)
    if (name.startsWith(start) && name.endsWith(end)) await rm(join(directory, name)).catch(() => undefined);
}

/** Writes a partial file first, and renames it only when all of it is on disk. */
async function download(
  { signal }: Pick<Execution, 'signal'>,
  access: ClusterAccess,
  { directory, name, timeoutMs }: { readonly directory: string; readonly name: string; readonly timeoutMs: number },
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const { client, entry } = access;
  if (!(await stat(directory).catch(() => undefined))?.isDirectory())
    throw refused(
      entry.name,
      `${directory} is not a directory on this worker`,
      'Create it on every worker, for the worker alone (mode 0700).',
    );
  const partial = join(directory, `.${name}.partial`);
  const file = await open(partial, 'wx', 0o600).catch((error: unknown) => {
    throw notWritten(entry.name, directory, error);
  });
  try {
    const [hash, archive] = [createHash('sha256'), new SnapshotArchive()];
    let bytes = 0;
    const consume = async (body: AsyncIterable<Uint8Array>) => {
      const written = new Transform({
        transform: (chunk: Buffer, _encoding, done) => {
          hash.update(chunk);
          bytes += chunk.length;
          file.appendFile(chunk).then(
            () => done(undefined, chunk),
            (error: unknown) => done(notWritten(entry.name, directory, error)),
          );
        },
      });
      await pipeline(Readable.from(body), written, createGunzip(), async (unpacked: AsyncIterable<Buffer>) => {
        for await (const chunk of unpacked) archive.add(chunk);
      }).catch((error: unknown) => {
        throw isOfArchive(error) ? refused(entry.name, 'it is not a complete gzip archive') : error;
      });
    };
    const node = await client.activeNode({ signal });
    await client.sys.raftSnapshot(consume, { token: await access.credential(), signal, timeoutMs, node });
    if (archive.mistake !== undefined) throw refused(entry.name, archive.mistake);
    await file.sync();
    await file.close();
    await rename(partial, join(directory, name));
    return { bytes, sha256: hash.digest('hex') };
  } catch (error) {
    await file.close().catch(() => undefined);
    await rm(partial, { force: true });
    throw isRunbookError(error, 'NOT_FOUND')
      ? refused(entry.name, 'its storage is not raft', 'Use hooks.snapshot.')
      : error;
  }
}

/** Whether the data is not gzip, or is truncated. Every other error is one of the connection or the disk. */
function isOfArchive(error: unknown): boolean {
  return error instanceof RangeError || errnoOf(error)?.startsWith('Z_') === true;
}

function notWritten(cluster: string, directory: string, error: unknown): RunbookError {
  const observed = `the worker cannot write into ${directory} (${errnoOf(error) ?? 'unknown reason'})`;
  const next =
    'Free disk space, correct its permissions, or name it in ReadWritePaths= of the systemd unit (EROFS); then retry.';
  return refused(cluster, observed, next);
}

function refused(cluster: string, observed: string, next?: string): RunbookError {
  return new RunbookError('RESPONSE_INVALID', `No snapshot of ${cluster} was taken.`, {
    cluster,
    retryable: false,
    outcomeKnown: true,
    observed,
    needed: 'a complete snapshot: an archive with SHA256SUMS.sealed, whose files match SHA256SUMS',
    next:
      next ?? `Nothing was kept, and ${cluster} was not changed. Check the log of ${cluster}, then retry; or abort.`,
  });
}

const BLOCK = 512;
/** The list of checksums is short. The files themselves are not kept in memory. */
const LONGEST_LIST = 64 * 1024;
const LIST = 'SHA256SUMS';
/** The files of a complete snapshot. Others are skipped: an archive may hold any number of them. */
const FILES: readonly string[] = ['meta.json', 'state.bin', LIST, `${LIST}.sealed`];

/** A file that is being read, and how much of it is left. */
interface ArchiveFile {
  readonly name: string;
  /** Absent for a file that is skipped. */
  readonly hash: Hash | undefined;
  left: number;
}

/**
 * Reads the tar archive inside a snapshot as it arrives, and compares each file with the checksums in it. The service
 * may truncate a snapshot with status 200 (hashicorp/vault issue 12168): a snapshot is complete only with
 * `SHA256SUMS.sealed`, which comes last.
 */
export class SnapshotArchive {
  readonly #sums = new Map<string, string>();
  #list = '';
  #rest = Buffer.alloc(0);
  #file: ArchiveFile | undefined;

  add(chunk: Uint8Array): void {
    const data = Buffer.concat([this.#rest, chunk]);
    const whole = data.length - (data.length % BLOCK);
    for (let at = 0; at < whole; at += BLOCK) this.#read(data.subarray(at, at + BLOCK));
    this.#rest = data.subarray(whole);
  }

  /** What is wrong with the archive; undefined if it is complete. */
  get mistake(): string | undefined {
    if (this.#file || this.#rest.length > 0) return 'it ends in the middle of a file';
    for (const name of FILES) if (!this.#sums.has(name)) return `it has no ${name}`;
    const listed = new Map(
      this.#list.split('\n').flatMap((line) => {
        const [, sum = '', name = ''] = /^([0-9a-f]{64}) [ *](.+)$/.exec(line) ?? [];
        return name === '' ? [] : [[name, sum] as const];
      }),
    );
    const wrong = ['meta.json', 'state.bin'].find((name) => listed.get(name) !== this.#sums.get(name));
    return wrong === undefined ? undefined : `${wrong} does not match ${LIST}`;
  }

  #begin(header: Buffer): ArchiveFile | undefined {
    // The archive ends with blocks of zeros.
    if (header.every((byte) => byte === 0)) return undefined;
    const text = (from: number, to: number) => header.toString('latin1', from, to).replace(/\0.*$/s, '').trim();
    // Sizes beyond eleven octal digits are written in binary.
    const binary = ((header[124] ?? 0) & 0x80) !== 0;
    const left = binary ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8);
    if (!Number.isSafeInteger(left) || left < 0) throw new RangeError('not a tar archive');
    const name = text(0, 100);
    return { name, hash: FILES.includes(name) ? createHash('sha256') : undefined, left };
  }

  /** Reads a header, or a block of the file that the header names; the last block is padded with zeros. */
  #read(block: Buffer): void {
    const file = this.#file ?? this.#begin(block);
    if (file && file === this.#file) {
      const content = block.subarray(0, file.left);
      file.hash?.update(content);
      if (file.name === LIST && this.#list.length < LONGEST_LIST) this.#list += content.toString('utf8');
      file.left -= content.length;
    }
    if (file?.left === 0 && file.hash) this.#sums.set(file.name, file.hash.digest('hex'));
    this.#file = file?.left === 0 ? undefined : file;
  }
}
