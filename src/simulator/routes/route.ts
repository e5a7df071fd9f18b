import type { SimulatedCluster } from '../cluster';
import { envelope, type ServiceAnswer, type ServiceRequest } from '../messages';
import type { SimulatedNode } from '../node';
import type { ReplicationKind } from '../storage';
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

/** A replication route: root namespace only, except where nothing authorises it (the status endpoints). */
export function replicationRoute(
  methods: readonly string[],
  path: string,
  credential: Credential,
  run: Route['run'],
  { onDrSecondary = false }: { onDrSecondary?: boolean } = {},
): Route {
  const rootNamespaceOnly = credential !== 'none';
  return { methods, path: `sys/replication/${path}`, credential, onDrSecondary, rootNamespaceOnly, run };
}

/** The answer of a role change: null data and one warning. */
export function roleChangeAnswer(call: RouteCall, warning: string): ServiceAnswer {
  return envelope(call.requestId, null, { warnings: [warning] });
}

export const KINDS: readonly ReplicationKind[] = ['dr', 'performance'];
