import { lstatSync } from 'node:fs';
import { lstat, realpath, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Stats } from 'node:fs';
import { errnoOf } from '../errors';
import type { Inventory } from './schema';

const FILE_MEMBERS: ReadonlySet<string> = new Set(['file', 'caFile', 'certificateFile', 'keyFile']);

/** Certificates and secret files, each once. Excludes files that a worker writes itself, and files on other machines. */
export function filesNamedIn(inventory: Inventory): readonly string[] {
  return [...new Set(filesIn(inventory, FILE_MEMBERS))];
}

/** The CA files, each once. */
export function caFilesNamedIn(inventory: Inventory): readonly string[] {
  return [...new Set(filesIn(inventory, new Set(['caFile'])))];
}

function filesIn(value: unknown, of: ReadonlySet<string>): string[] {
  if (typeof value !== 'object' || value === null) return [];
  const members: [string, unknown][] =
    value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  return members.flatMap(([name, member]) =>
    of.has(name) && typeof member === 'string' ? [member] : filesIn(member, of),
  );
}

/**
 * Why another user of this host could change a file, or put another one in its place; undefined if nobody can. Links are
 * followed, because Kubernetes replaces the link behind a file: what they lead to counts, and so does each directory above it.
 *
 * @returns undefined also if there is no such file
 */
export async function whyNotTrusted(path: string): Promise<string | undefined> {
  try {
    const real = await realpath(path);
    if (isOthers(await stat(real), false)) return described(real, await stat(real));
    for (let directory = dirname(real); ; directory = dirname(directory)) {
      const facts = await lstat(directory);
      if (isOthers(facts, true)) return described(directory, facts);
      if (directory === dirname(directory)) return undefined;
    }
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return undefined;
    return `${path}: ${errnoOf(error) ?? 'it cannot be examined'}`;
  }
}

/**
 * Why a file that is adopted or replaced may have been planted: it is a link or no plain file, or another user owns or can
 * write it. What holds for the directories above it is left to {@link whyNotTrusted}.
 *
 * @returns undefined also if there is no such file
 */
export function whyPlanted(path: string): string | undefined {
  const facts = lstatSync(path, { throwIfNoEntry: false });
  if (facts === undefined) return undefined;
  if (facts.isSymbolicLink()) return `${path}: a link`;
  if (!facts.isFile()) return `${path}: no plain file`;
  return isOthers(facts, false) ? described(path, facts) : undefined;
}

/** @param mayBeSticky - in a sticky directory others can only add files */
function isOthers({ uid, mode }: Stats, mayBeSticky: boolean): boolean {
  const isSticky = mayBeSticky && (mode & 0o1000) !== 0;
  return (uid !== 0 && uid !== process.getuid?.()) || ((mode & 0o022) !== 0 && !isSticky);
}

function described(path: string, { uid, mode }: Stats): string {
  return `${path}: owner ${uid}, mode ${(mode & 0o1777).toString(8)}`;
}

/** What {@link whyNotTrusted} needs, as text. */
export const TRUSTED =
  'owned by root or by this user, and not writable by other users, as are the directories above it';
