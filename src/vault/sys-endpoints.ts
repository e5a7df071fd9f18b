import { RunbookError } from '../errors';
import { dataOf, fetchAccepted, fetchAnswer, fetchIfPresent, segment } from './answers';
import { GenerationEndpoints } from './generation-endpoints';
import { readReplicationStatus } from './replication-status';
import type { ReplicationStatus } from './replication-status';
import {
  readCapabilities,
  readCreatedToken,
  readHaNodes,
  readHealth,
  readLeader,
  readSealStatus,
  readTokenFacts,
  readTokenRole,
} from './sys-shapes';
import type {
  Capabilities,
  CreatedToken,
  HaNode,
  Health,
  Leader,
  SealStatus,
  TokenFacts,
  TokenRole,
} from './sys-shapes';
import { readAuditDevices, readAutoSnapshotStatus, readLicenceStatus } from './sys-site-shapes';
import type { AuditDevice, AutoSnapshotStatus, LicenceStatus } from './sys-site-shapes';
import type { Accepted, CallOptions, Caller, RequestDescription } from './types';

/** Statuses of `sys/health` that describe the node instead of failing the read. */
const HEALTH_STATUSES: ReadonlySet<number> = new Set([200, 429, 472, 473, 474, 501, 503, 530]);

/** The reads and the few calls outside of the replication interface that runbooks need (facts 1.5 to 1.7, 5.7). */
export class SysEndpoints {
  /** Root token generation; the same flow as for operation tokens, in the same single slot. */
  readonly generateRoot: GenerationEndpoints<'root-token'>;

  constructor(private readonly caller: Caller) {
    this.generateRoot = new GenerationEndpoints(caller, 'sys/generate-root', 'root-token');
  }

  /** State of a node. Unauthenticated; a sealed or standing-by node is an answer, not an error. */
  health(options?: CallOptions): Promise<Health> {
    const request = { ...read('sys/health'), anyNode: true, dataStatuses: HEALTH_STATUSES };
    return fetchAnswer(this.caller, request, options, readHealth);
  }

  /** Who a node holds to be active. Unauthenticated. */
  leader(options?: CallOptions): Promise<Leader> {
    return fetchAnswer(this.caller, { ...read('sys/leader'), anyNode: true }, options, (body) => readLeader(body));
  }

  /** Unauthenticated; answers on sealed nodes too. */
  sealStatus(options?: CallOptions): Promise<SealStatus> {
    return fetchAnswer(this.caller, { ...read('sys/seal-status'), anyNode: true }, options, (body) =>
      readSealStatus(body),
    );
  }

  /** Both kinds of replication at once. Unauthenticated. */
  replicationStatus(options?: CallOptions): Promise<ReplicationStatus> {
    return fetchAnswer(this.caller, read('sys/replication/status'), options, (body) =>
      readReplicationStatus(dataOf(body)),
    );
  }

  /** The nodes of the cluster as the active one sees them. Needs a token. */
  haStatus(options?: CallOptions): Promise<readonly HaNode[]> {
    return fetchAnswer(this.caller, read('sys/ha-status'), options, (body) => readHaNodes(body));
  }

  /** The audit devices. Needs a token with `read` and `sudo`. */
  auditDevices(options?: CallOptions): Promise<readonly AuditDevice[]> {
    return fetchAnswer(this.caller, read('sys/audit'), options, (body) => readAuditDevices(body));
  }

  /** The licence in use. Needs a token; a DR secondary answers with an operation token only. */
  licenceStatus(options?: CallOptions): Promise<LicenceStatus> {
    return fetchAnswer(this.caller, read('sys/license/status'), options, (body) => readLicenceStatus(body));
  }

  /** How the automatic snapshots of one configuration went. Needs a token. Enterprise, on raft storage. */
  autoSnapshotStatus(parameters: { readonly name: string }, options?: CallOptions): Promise<AutoSnapshotStatus> {
    const path = `sys/storage/raft/snapshot-auto/status/${segment('name', parameters.name)}`;
    return fetchAnswer(this.caller, read(path), options, (body) => readAutoSnapshotStatus(body));
  }

  /** What the token of the call may do on each path, e.g. `['update', 'sudo']`. */
  async capabilitiesSelf(paths: readonly string[], options?: CallOptions): Promise<Capabilities> {
    if (paths.length === 0) throw new RunbookError('INVALID_INPUT', '"paths" must not be empty');
    const request = { method: 'POST', path: 'sys/capabilities-self', body: { paths }, effect: 'reads' } as const;
    return fetchAnswer(this.caller, request, options, (body) => readCapabilities(body, paths));
  }

  /** Facts of the token of the call. */
  lookupSelf(options?: CallOptions): Promise<TokenFacts> {
    return fetchAnswer(this.caller, read('auth/token/lookup-self'), options, (body) => readTokenFacts(body));
  }

  /** Makes a token by a token role (facts 5.7). `ttl`: Go duration. Check `tokenType` of the answer. */
  async createBatchToken(
    parameters: { readonly role: string; readonly ttl?: string; readonly policies?: readonly string[] },
    options?: CallOptions,
  ): Promise<CreatedToken> {
    const path = `auth/token/create/${segment('role', parameters.role)}`;
    const body = { type: 'batch', ttl: parameters.ttl, policies: parameters.policies };
    const request = { method: 'POST', path, body, effect: 'changes' } as const;
    return fetchAnswer(this.caller, request, options, (answer) => readCreatedToken(answer));
  }

  /** A token role; undefined where there is none. */
  async tokenRole(role: string, options?: CallOptions): Promise<TokenRole | undefined> {
    return fetchIfPresent(this.caller, read(tokenRolePath(role)), options, readTokenRole);
  }

  /** Makes a role for orphan batch tokens, or makes it one. */
  async writeBatchTokenRole(
    parameters: { readonly role: string; readonly allowedPolicies: readonly string[] },
    options?: CallOptions,
  ): Promise<Accepted> {
    const { role, allowedPolicies } = parameters;
    const body = { allowed_policies: allowedPolicies, orphan: true, renewable: false, token_type: 'batch' };
    const request = { method: 'POST', path: tokenRolePath(role), body, effect: 'changes' } as const;
    return fetchAccepted(this.caller, request, options);
  }

  /** The text of an ACL policy; undefined where there is none. */
  async policy(name: string, options?: CallOptions): Promise<string | undefined> {
    return fetchIfPresent(this.caller, read(policyPath(name)), options, (body) => dataOf(body).text('policy') ?? '');
  }

  /** Writes an ACL policy, in HCL. */
  async writePolicy(
    parameters: { readonly name: string; readonly policy: string },
    options?: CallOptions,
  ): Promise<Accepted> {
    const body = { policy: parameters.policy };
    const request = { method: 'POST', path: policyPath(parameters.name), body, effect: 'changes' } as const;
    return fetchAccepted(this.caller, request, options);
  }
}

function tokenRolePath(role: string): string {
  return `auth/token/roles/${segment('role', role)}`;
}

function policyPath(name: string): string {
  return `sys/policies/acl/${segment('name', name)}`;
}

function read(path: string): RequestDescription {
  return { method: 'GET', path, effect: 'reads' };
}
