import { createHash } from 'node:crypto';
import type { Hash } from 'node:crypto';

const BLOCK = 512;
/** The list of sums is short; its files are not kept. */
const LONGEST_LIST = 64 * 1024;
const LIST = 'SHA256SUMS';

/** A file that is being read: what is left of it, and of the zeros behind it. */
interface ArchiveFile {
  readonly name: string;
  readonly hash: Hash;
  left: number;
  padding: number;
}

/**
 * Reads the tar archive inside of a snapshot as it arrives, and holds each file against the list of sums in it. The service
 * may end a snapshot early with status 200 (hashicorp/vault issue 12168): one is whole only with `SHA256SUMS.sealed`, which
 * comes last.
 */
export class SnapshotArchive {
  readonly #sums = new Map<string, string>();
  #list = '';
  #rest = Buffer.alloc(0);
  #file: ArchiveFile | undefined;

  add(chunk: Uint8Array): void {
    let data = Buffer.concat([this.#rest, chunk]);
    while (data.length > 0) {
      if (this.#file) data = this.#read(this.#file, data);
      else if (data.length < BLOCK) break;
      else {
        this.#file = this.#begin(data.subarray(0, BLOCK));
        data = data.subarray(BLOCK);
      }
      this.#end();
    }
    this.#rest = data;
  }

  /** What stands against it; undefined where it is whole. */
  get mistake(): string | undefined {
    if (this.#file || this.#rest.length > 0) return 'it ends inside of a file';
    for (const name of ['meta.json', 'state.bin', LIST, `${LIST}.sealed`])
      if (!this.#sums.has(name)) return `it has no ${name}`;
    const listed = new Map(
      this.#list.split('\n').flatMap((line) => {
        const [, sum = '', name = ''] = /^([0-9a-f]{64}) [ *](.+)$/.exec(line) ?? [];
        return name === '' ? [] : [[name, sum] as const];
      }),
    );
    const wrong = ['meta.json', 'state.bin'].find((name) => listed.get(name) !== this.#sums.get(name));
    return wrong === undefined ? undefined : `${wrong} is not what ${LIST} says`;
  }

  #begin(header: Buffer): ArchiveFile | undefined {
    // The archive ends with blocks of zeros.
    if (header.every((byte) => byte === 0)) return undefined;
    const text = (from: number, to: number) => header.toString('latin1', from, to).replace(/\0.*$/s, '').trim();
    // Sizes beyond eleven octal digits are written in binary.
    const binary = ((header[124] ?? 0) & 0x80) !== 0;
    const left = binary ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 136), 8);
    if (!Number.isSafeInteger(left) || left < 0) throw new RangeError('not a tar archive');
    return { name: text(0, 100), hash: createHash('sha256'), left, padding: (BLOCK - (left % BLOCK)) % BLOCK };
  }

  #read(file: ArchiveFile, data: Buffer<ArrayBuffer>): Buffer<ArrayBuffer> {
    const content = data.subarray(0, file.left);
    file.hash.update(content);
    if (file.name === LIST && this.#list.length < LONGEST_LIST) this.#list += content.toString('utf8');
    file.left -= content.length;
    const padding = file.left === 0 ? Math.min(file.padding, data.length - content.length) : 0;
    file.padding -= padding;
    return data.subarray(content.length + padding);
  }

  #end(): void {
    if (this.#file?.left !== 0 || this.#file.padding !== 0) return;
    this.#sums.set(this.#file.name, this.#file.hash.digest('hex'));
    this.#file = undefined;
  }
}
