import type { SimulatedCluster } from '../cluster';
import {
  badRequest,
  permissionDenied,
  textField,
  type JsonObject,
  type JsonValue,
  type ServiceAnswer,
  type ServiceRequest,
} from '../messages';
import type { SimulatedNode } from '../node';
import type { Identity } from '../stored';
import type { GivenToken } from '../token-store';

/**

 * The credential that a route requires. `operation-token`: `dr_operation_token` in the body. `generation`: none before 2.0,
 * a token since. `token`: `X-Vault-Token` with the policy capability. `sudo`: the `sudo` capability as well.
 * `valid-token`: any valid token.
 */
export type Credential = 'none' | 'operation-token' | 'generation' | 'valid-token' | 'token' | 'sudo';

/** A request that reached the active node and was authorized. */
export class RouteCall {
  readonly now: number;
  readonly #requestId: string;

  constructor(
    readonly cluster: SimulatedCluster,
    readonly node: SimulatedNode,
    readonly request: ServiceRequest,
    /** Values of the `:name` segments of the path, and `rest` for a `*`. */
    private readonly parameters: Readonly<Record<string, string>>,
    private readonly caller: Identity | undefined,
  ) {
    this.now = cluster.service.now();
    this.#requestId = cluster.random.uuid();
  }

  get body(): JsonObject {
    return this.request.body;
  }

  /** The identity of the caller. Only for routes that require a token in the header. */
  get identity(): Identity {
    if (this.caller === undefined) throw permissionDenied();
    return this.caller;
  }

  parameter(name: string): string {
    return decodeURIComponent(this.parameters[name] ?? '');
  }

  /** A string field of the body; the empty string if it is absent. */
  text(name: string): string {
    return textField(this.body, name);
  }

  /** A required string field of the body. */
  required(name: string): string {
    const value = this.text(name);
    if (value === '') throw badRequest(`missing required field "${name}"`);
    return value;
  }

  flag(name: string): boolean {
    const value = this.text(name);
    if (value !== 'true' && value !== 'false' && value !== '')
      throw badRequest(`error converting input for field "${name}": expected type 'bool'`);
    return value === 'true';
  }

  /** A list of strings in the body, or a comma-separated string. */
  list(name: string): string[] {
    const value = this.body[name];
    if (value === undefined || value === null || value === '') return [];
    if (typeof value === 'string') return value.split(',').map((part) => part.trim());
    if (Array.isArray(value) && value.every((part) => typeof part === 'string')) return value;
    throw badRequest(`error converting input for field "${name}": expected a list of texts`);
  }

  /** The answer to a login, a token creation, or a renewal. */
  authenticated({ token, identity }: GivenToken): ServiceAnswer {
    const { accessor, policies, renewable, type, orphan, expiresAt } = identity;
    const leaseMs = expiresAt === null ? 0 : Math.max(0, expiresAt - this.now);
    return this.answer(null, {
      auth: {
        client_token: token,
        accessor,
        policies: [...policies],
        token_policies: [...policies],
        metadata: identity.meta ?? null,
        lease_duration: Math.round(leaseMs / 1_000),
        renewable,
        entity_id: '',
        token_type: type,
        orphan,
        mfa_requirement: null,
        num_uses: identity.usesLeft ?? 0,
      },
    });
  }

  /** The answer of a logical route, in the service's envelope. */
  answer(
    data: JsonValue,
    { warning, wrapInfo, auth }: { warning?: string; wrapInfo?: JsonObject; auth?: JsonObject } = {},
  ): ServiceAnswer {
    return {
      status: 200,
      body: {
        // The service builds a wrapped answer without the ID of its request.
        request_id: wrapInfo === undefined ? this.#requestId : '',
        lease_id: '',
        renewable: false,
        lease_duration: 0,
        data,
        wrap_info: wrapInfo ?? null,
        warnings: warning === undefined ? null : [warning],
        auth: auth ?? null,
        mount_type: 'system',
      },
    };
  }
}

export interface Route {
  readonly method: string;
  /** Path below `/v1/`, with `:name` for one segment and `*` for the rest. */
  readonly path: string;
  readonly credential: Credential;
  readonly run: (call: RouteCall) => ServiceAnswer | Promise<ServiceAnswer>;
}

/** Defines a route, such as `POST sys/seal`. */
export function route(what: string, credential: Credential, run: Route['run']): Route {
  const [method = '', path = ''] = what.split(' ');
  return { method, path, credential, run };
}
