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
import type { GivenToken, Identity } from './tokens';

/**
 * What a route asks for. `operation-token`: `dr_operation_token` in the body. `generation`: nothing before 2.0, a token
 * since. `token`: `X-Vault-Token` with the policy capability; `sudo` asks for that too. `valid-token`: any that is
 * valid.
 */
export type Credential = 'none' | 'operation-token' | 'generation' | 'valid-token' | 'token' | 'sudo';

/** A request that reached the active node and was authorised. */
export class RouteCall {
  readonly now: number;
  readonly #requestId: string;

  constructor(
    readonly cluster: SimulatedCluster,
    readonly node: SimulatedNode,
    readonly request: ServiceRequest,
    /** Values of the `:name` parts of the path; `rest` of a `*`. */
    private readonly parameters: Readonly<Record<string, string>>,
    private readonly caller: Identity | undefined,
  ) {
    this.now = cluster.service.now();
    this.#requestId = cluster.random.uuid();
  }

  get body(): JsonObject {
    return this.request.body;
  }

  /** Who calls; a route that asks for no token of its own has nobody. */
  get identity(): Identity {
    if (this.caller === undefined) throw permissionDenied();
    return this.caller;
  }

  parameter(name: string): string {
    return decodeURIComponent(this.parameters[name] ?? '');
  }

  /** A text field of the body; the empty string where it is absent. */
  text(name: string): string {
    return textField(this.body, name);
  }

  /** A text field of the body that must be there. */
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

  /** A list of texts in the body; a comma-separated text is one too. */
  list(name: string): string[] {
    const value = this.body[name];
    if (value === undefined || value === null || value === '') return [];
    if (typeof value === 'string') return value.split(',').map((part) => part.trim());
    if (Array.isArray(value) && value.every((part) => typeof part === 'string')) return value;
    throw badRequest(`error converting input for field "${name}": expected a list of texts`);
  }

  /** The answer of a login, of a new token and of a renewed one. */
  authenticated({ token, identity }: GivenToken): ServiceAnswer {
    const { accessor, policies, renewable, type, orphan, expiresAt } = identity;
    const leaseMs = expiresAt === null ? 0 : Math.max(0, expiresAt - this.now);
    return this.answer(null, {
      auth: {
        client_token: token,
        accessor,
        policies: [...policies],
        token_policies: [...policies],
        metadata: null,
        lease_duration: Math.round(leaseMs / 1_000),
        renewable,
        entity_id: '',
        token_type: type,
        orphan,
        mfa_requirement: null,
        num_uses: 0,
      },
    });
  }

  /** The answer of a logical route, in its envelope. */
  answer(
    data: JsonValue,
    { warning, wrapInfo, auth }: { warning?: string; wrapInfo?: JsonObject; auth?: JsonObject } = {},
  ): ServiceAnswer {
    return {
      status: 200,
      body: {
        // A wrapped answer is built without its request's identity.
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
  /** Below `/v1/`, with `:name` for one segment and `*` for the rest. */
  readonly path: string;
  readonly credential: Credential;
  readonly run: (call: RouteCall) => ServiceAnswer | Promise<ServiceAnswer>;
}

/** A route; `POST sys/seal` as one text. */
export function route(what: string, credential: Credential, run: Route['run']): Route {
  const [method = '', path = ''] = what.split(' ');
  return { method, path, credential, run };
}
