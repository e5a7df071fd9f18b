import { RunbookError } from '../errors';
import { fetchAccepted, fetchIfPresent, segment } from './answers';
import type { Accepted, CallOptions, Caller } from './types';

/** Values of a key-value engine, version 1 paths: the mount and the key, e.g. `runbooks/marker`. */
export class KeyValueEndpoints {
  constructor(private readonly caller: Caller) {}

  /** The entries of a key; `undefined` where it does not exist. */
  async read(path: string, options?: CallOptions): Promise<Readonly<Record<string, string>> | undefined> {
    const request = { method: 'GET', path: keyPath(path), effect: 'reads' } as const;
    return fetchIfPresent(this.caller, request, options, (body) => {
      const data = body.child('data') ?? body.missing('data');
      return Object.fromEntries(
        data.names().flatMap((name) => {
          const value = data.text(name);
          return value === undefined ? [] : [[name, value] as const];
        }),
      );
    });
  }

  /** Replaces the entries of a key. */
  async write(path: string, data: Readonly<Record<string, string>>, options?: CallOptions): Promise<Accepted> {
    const request = { method: 'POST', path: keyPath(path), body: data, effect: 'changes' } as const;
    return fetchAccepted(this.caller, request, options);
  }
}

function keyPath(path: string): string {
  const segments = path.split('/');
  if (segments.length < 2) throw new RunbookError('INVALID_INPUT', '"path" must be a mount and a key');
  return segments.map((part) => segment('path', part)).join('/');
}
