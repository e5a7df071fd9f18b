import type { RunbookError } from '../errors';
import type { Secret } from '../secret';

/** The cluster that a client calls. */
export interface ClusterTarget {
  readonly name: string;
  /** API addresses of the nodes, such as `https://10.1.0.4:8200`. Plain HTTP is accepted only on loopback. */
  readonly addresses: readonly string[];
  /** PEM file with the only trusted roots; read again on every use. Default: Node's built-in roots. */
  readonly caFile?: string;
  /** PEM files of the client's certificate and key; read again on every use. */
  readonly clientCertificate?: { readonly certificateFile: string; readonly keyFile: string };
}

/** Options of every call. */
export interface CallOptions {
  /** Sent only as the header `X-Vault-Token`. */
  readonly token?: Secret;
  readonly signal?: AbortSignal;
  /** Time limit of one request to one node in milliseconds, from connecting to the last byte. Default: 4,000. */
  readonly timeoutMs?: number;
  /** The only address to use, one of the target's; no other node is tried. */
  readonly node?: string;
}

/** Evidence of which node leads, as good as `sys/leader`, from requests that the caller makes together with its read anyway. */
export interface LeaderEvidence {
  /**
   * `every node`: all nodes answered, and only this one reports that it leads. This renews their agreement, unless
   * `forgetActiveNode` was called since the last agreement.
   */
  readonly of: 'itself' | 'every node';
  readonly leads: (node: string) => Promise<boolean>;
}

export interface ServiceClientOptions {
  /** Receives redacted warnings about answers that were unusual but could be used. */
  onWarning?(warning: string): void;
  /** Manages the tokens of the calls. */
  readonly tokens?: TokenGuard;
}

/** Manages the tokens that a client sends. */
export interface TokenGuard {
  /** @throws RunbookError if this token is not for this cluster; nothing is sent then. */
  demandOwn(token: Secret): void;
  /**
   * Returns a replacement for a token that was refused (403). The call is sent once more with it. A change of roles is
   * not sent again: the caller reads its credential again and repeats the call.
   *
   * @param about.repeated - the replacement was refused too: only the error for the refusal is wanted
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

/** A member of a request body. Secrets are revealed only when the body is serialized. */
type BodyValue = string | boolean | number | readonly string[] | Secret | RequestBody;

/** Members of a request body; undefined members are omitted. */
export interface RequestBody {
  readonly [name: string]: BodyValue | undefined;
}

/** One call of the interface, before a node is chosen for it. */
export interface RequestDescription {
  readonly method: HttpMethod;
  /** Path below `/v1/`, with every variable segment percent-encoded. */
  readonly path: string;
  readonly body?: RequestBody;
  /** `reads`: may be sent again, to any node. `changes`: may be sent again only if it certainly had no effect. */
  readonly effect: 'reads' | 'changes';
  /** Status codes that carry data on this path although they are errors elsewhere. */
  readonly dataStatuses?: ReadonlySet<number>;
  /** The `dataStatuses` that describe only the node and not its cluster: another node is asked too, unless one is given. */
  readonly nodeStatuses?: ReadonlySet<number>;
  /** Every node answers for itself, so the active node need not be found first. */
  readonly anyNode?: boolean;
  /** The call changes the role of the cluster, which may also change its leader. */
  readonly changesRoles?: boolean;
  /** Streams the body of a 200, which may be larger than memory. An error that it throws ends the call. */
  readonly consume?: (body: AsyncIterable<Uint8Array>) => Promise<void>;
  /** The answer may be larger than 1 MiB. */
  readonly longAnswer?: boolean;
  /** The service wraps the answer of this call by itself. Any other wrapped answer is refused. */
  readonly mayBeWrapped?: boolean;
  /** A 503 of this call means that the secondary has not caught up, unless the node is sealed. */
  readonly unavailableMeansBehind?: boolean;
}

/** An answer with a success status (or one of `dataStatuses`). */
export interface ServiceAnswer {
  readonly status: number;
  readonly node: string;
  /** The first JSON document of the body; `undefined` if there is none. */
  readonly body: unknown;
}
