import type { GateName } from './gates';

/**
 * Everything dangerous that a plan can allow: an endpoint of the interface, a hook, or a token. Each with the gates that may
 * cover it. A plan says which of them does; an activity asks for the one that its own use of the endpoint needs.
 */
export const ENDPOINT_GATES = {
  'primary/enable': ['plan', 'wipe'],
  'primary/demote': ['plan', 'promote'],
  'primary/disable': ['disable'],
  'primary/secondary-token': ['wipe'],
  'primary/revoke-secondary': ['revoke'],
  'primary/paths-filter': ['filter', 'wipe'],
  'secondary/enable': ['wipe'],
  'secondary/promote': ['plan', 'promote', 'force'],
  'secondary/update-primary': ['plan', 'promote', 'unfence', 'repoint', 'revoke'],
  'secondary/disable': ['disable'],
  'secondary/reindex': ['reindex'],
  'quotas/rate-limit': ['plan', 'promote'],
  'hook/fence': ['promote'],
  'hook/unfence': ['unfence'],
  'root-token/generate': ['ceremony'],
  'operation-token/hand-over': ['ceremony'],
  'operation-token/take': ['plan', 'promote'],
  'record/forget-token': ['ceremony'],
} as const satisfies Readonly<Record<string, readonly [GateName, ...GateName[]]>>;
export type Endpoint = keyof typeof ENDPOINT_GATES;

/** A dangerous operation, apart from its clusters. */
export interface Operation {
  /** Absent: it belongs to no kind of replication. */
  readonly kind?: 'dr' | 'performance' | undefined;
  readonly endpoint: Endpoint;
  /** The gate whose policy must be met before an activity does it. */
  readonly gate: GateName;
}

/** Whether the gate may cover the endpoint. */
export function mayCover({ endpoint, gate }: Operation): boolean {
  return (ENDPOINT_GATES[endpoint] as readonly GateName[]).includes(gate);
}

/** Whether both are the same operation, whatever their clusters. */
export function isSameOperation(one: Operation, other: Operation): boolean {
  return one.kind === other.kind && one.endpoint === other.endpoint && one.gate === other.gate;
}

/** As errors name it, such as `dr/primary/demote at gate plan`. */
export function operationName({ kind, endpoint, gate }: Operation): string {
  return `${kind === undefined ? '' : `${kind}/`}${endpoint} at gate ${gate}`;
}
