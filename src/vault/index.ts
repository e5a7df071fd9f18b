export { ServiceClient } from './service-client';
export { ENDPOINTS, apiPathOf } from './endpoints';
export { diagnoseServerError } from './diagnose';
export type { GenerationEndpoints } from './service-client';
export type { JoinParameters } from './endpoints';
export type {
  ActivationToken,
  DynamicFilter,
  GeneratedTokenKind,
  GenerationAttempt,
  Health,
  KeyPlace,
  LoginToken,
  MerkleReport,
  MerkleSubtree,
  PathsFilter,
  QuotaConfig,
  RateLimitQuota,
  ReplicationPeer,
  ReplicationStatus,
  SecondaryPublicKey,
  SecretPlace,
  StoredSecret,
  TokenRole,
} from './answers';
export type { ClusterTarget, RequestBody, ServiceClientOptions, TokenGuard } from './types';
