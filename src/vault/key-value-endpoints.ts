import { RunbookError } from '../errors';
import { Secret } from '../secret';
import { fetchAccepted, fetchIfPresent, segment } from './answers';
import type { Accepted, CallOptions, Caller } from './types';

/** Values of key-value engines; paths of version 1: the mount and the key, e.g. `runbooks/marker`. */
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

  /** One secret entry of a key, with the version to replace; undefined where the key or the entry does not exist. */
  async readSecret(place: SecretPlace, options?: CallOptions): Promise<StoredSecret | undefined> {
    const request = { method: 'GET', path: secretPath(place), effect: 'reads' } as const;
    return fetchIfPresent(this.caller, request, options, (body) => {
      const data = body.child('data') ?? body.missing('data');
      const entries = place.version === 1 ? data : data.child('data');
      const value = entries?.filledText(place.field);
      const version = place.version === 1 ? undefined : data.child('metadata')?.neededNumber('version');
      return { value: value === undefined ? undefined : new Secret('batch-token', value), version };
    });
  }

  /**
   * Replaces a key by one secret entry. On a version 2 engine only where its version is still `replaces` (0: there is
   * none): BAD_REQUEST otherwise. A version 1 engine has no such check.
   */
  async writeSecret(
    place: SecretPlace,
    value: Secret,
    replaces: number | undefined,
    options?: CallOptions,
  ): Promise<Accepted> {
    const entries = { [place.field]: value };
    const body = place.version === 1 ? entries : { data: entries, options: { cas: replaces ?? 0 } };
    const request = { method: 'POST', path: secretPath(place), body, effect: 'changes' } as const;
    return fetchAccepted(this.caller, request, options);
  }
}

/** Where one secret stands in a key-value engine. */
interface SecretPlace {
  /** Mount of the engine, such as `secret`. */
  readonly mount: string;
  /** Path of the key below it. */
  readonly path: string;
  /** Version of the engine. */
  readonly version: 1 | 2;
  /** Entry of the key. */
  readonly field: string;
}

export interface StoredSecret {
  /** Undefined where the key has no such entry. */
  readonly value: Secret<'batch-token'> | undefined;
  /** Of a version 2 engine. */
  readonly version: number | undefined;
}

function secretPath({ mount, path, version }: SecretPlace): string {
  return keyPath(version === 1 ? `${mount}/${path}` : `${mount}/data/${path}`);
}

function keyPath(path: string): string {
  const segments = path.split('/');
  if (segments.length < 2) throw new RunbookError('INVALID_INPUT', '"path" must be a mount and a key');
  return segments.map((part) => segment('path', part)).join('/');
}
