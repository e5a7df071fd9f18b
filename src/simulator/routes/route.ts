import type { SimulatedCluster } from '../cluster';
import type { ServiceAnswer, ServiceRequest } from '../messages';
import type { SimulatedNode } from '../node';
import type { Identity } from '../tokens';

/**
 * What a route asks for. `operation-token`: `dr_operation_token` in the body. `generation`: nothing before 2.0, a token
 * since. `token`: `X-Vault-Token` with the policy capability; `sudo` asks for that too.
 */
export type Credential = 'none' | 'operation-token' | 'generation' | 'token' | 'sudo';

/** A request that reached the active node and was authorised. */
export interface RouteCall {
  readonly cluster: SimulatedCluster;
  readonly node: SimulatedNode;
  readonly request: ServiceRequest;
  /** Values of the `:name` parts of the path; `*` is the rest. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly identity: Identity | undefined;
  readonly requestId: string;
  readonly now: number;
}

export interface Route {
  readonly methods: readonly string[];
  /** Below `/v1/`, with `:name` for one segment and `*` for the rest. */
  readonly path: string;
  readonly credential: Credential;
  /** Whether a DR secondary serves it. */
  readonly onDrSecondary: boolean;
  /** Restricted routes exist in the root namespace only. */
  readonly rootNamespaceOnly: boolean;
  readonly run: (call: RouteCall) => ServiceAnswer | Promise<ServiceAnswer>;
}

/** A route; `POST sys/seal` as one text. */
export function route(
  what: string,
  credential: Credential,
  run: Route['run'],
  options: { readonly onDrSecondary?: boolean; readonly rootNamespaceOnly?: boolean } = {},
): Route {
  const [method = '', path = ''] = what.split(' ');
  return { methods: [method], path, credential, onDrSecondary: false, rootNamespaceOnly: false, run, ...options };
}
