import type { RunbookError } from '../errors';
import type { Secret } from '../secret';

/** One cluster of the service, as the client needs it. */
export interface ClusterTarget {
  readonly name: string;
  /** API addresses of the nodes, e.g. `https://10.1.0.4:8200`. Plain HTTP is accepted on loopback only. */
  readonly addresses: readonly string[];
  /** PEM file with the only roots that are trusted; read again on every use. Absent: the system's roots. */
  readonly caFile?: string;
  /** PEM files with which this client shows itself, read again on every use. */
  readonly clientCertificate?: { readonly certificateFile: string; readonly keyFile: string };
}

/** What every call accepts. */
export interface CallOptions {
  /** Sent as `X-Vault-Token`, and in no other place. */
  readonly token?: Secret;
  readonly signal?: AbortSignal;
  /** Milliseconds for one request to one node, from connect to the last byte. Default: 4 000. */
  readonly timeoutMs?: number;
  /** Exactly this address of the target; no other node is tried and no redirect is followed. */
  readonly node?: string;
}

/** What a caller asks for anyway, in the wave of its read, and what tells who leads as `sys/leader` does. */
export interface LeaderEvidence {
  /** `every node`: all answered, and this one alone says that it leads: they agree anew, unless it was forgotten. */
  readonly of: 'itself' | 'every node';
  readonly leads: (node: string) => Promise<boolean>;
}

export interface ServiceClientOptions {
  /** Told, redacted, of what was odd in an answer but did not prevent its use. */
  onWarning?(warning: string): void;
  /** Looks after the tokens of the calls. */
  readonly tokens?: TokenGuard;
}

/** Whoever keeps the tokens that a client sends. */
export interface TokenGuard {
  /** @throws RunbookError where this token is not for this cluster; nothing is sent then */
  demandOwn(token: Secret): void;
  /**
   * Another token in the place of one that was refused (403). The call is sent once more with it, and never again; a
   * change of roles is left to the caller, which reads its credential anew.
   *
   * @param about.repeated - that call was refused too: nothing but the refusal is wanted
   * @throws RunbookError the refusal, with what people can do
   */
  instead(
    token: Secret,
    refusal: RunbookError,
    request: RequestDescription,
    about: { readonly repeated: boolean; readonly signal?: AbortSignal },
  ): Promise<Secret>;
}

export type HttpMethod = 'GET' | 'POST' | 'DELETE';

/** A member of a request body. Secrets are revealed while the body is serialised. */
export type BodyValue = string | boolean | number | readonly string[] | Secret | RequestBody;

/** Members of a request body; absent ones are left out. */
export interface RequestBody {
  readonly [name: string]: BodyValue | undefined;
}

/** One call of the interface, before a node is chosen for it. */
export interface RequestDescription {
  readonly method: HttpMethod;
  /** Below `/v1/`, every variable segment percent-encoded. */
  readonly path: string;
  readonly body?: RequestBody;
  /** `reads` may be sent again, to any node; `changes` only where it certainly had no effect. */
  readonly effect: 'reads' | 'changes';
  /** Status codes that carry data on this path although they are errors elsewhere. */
  readonly dataStatuses?: ReadonlySet<number>;
  /** Those of them by which a node speaks for itself alone: another node is asked too, where none is named. */
  readonly nodeStatuses?: ReadonlySet<number>;
  /** Every node answers for itself: no need to look for the active one first. */
  readonly anyNode?: boolean;
  /** The roles of clusters change with it, and the leader with them. */
  readonly changesRoles?: boolean;
  /** Takes the body of a 200 as it arrives: it may be larger than memory. What it throws ends the call. */
  readonly consume?: (body: AsyncIterable<Uint8Array>) => Promise<void>;
  /** 503 of this call means that the secondary has not caught up, unless the node is sealed. */
  readonly unavailableMeansBehind?: boolean;
}

/** An answer with a success status (or one of `dataStatuses`). */
export interface ServiceAnswer {
  readonly status: number;
  readonly node: string;
  /** The first JSON document of the body; `undefined` where there was none. */
  readonly body: unknown;
}
