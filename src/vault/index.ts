export { ServiceClient } from './service-client';
export { ENDPOINTS } from './endpoints';
export { diagnoseServerError } from './diagnose';
export type { GenerationEndpoints } from './service-client';
export type { JoinParameters } from './endpoints';
export type {
  ActivationToken,
  AuditDevice,
  DynamicFilter,
  GeneratedTokenKind,
  GenerationAttempt,
  Health,
  MerkleReport,
  MerkleSubtree,
  PathsFilter,
  QuotaConfig,
  RateLimitQuota,
  ReplicationPeer,
  ReplicationStatus,
  SecondaryPublicKey,
  StoredSecret,
  TokenFacts,
  TokenRole,
} from './answers';
export type { ServiceClientOptions } from './types';
