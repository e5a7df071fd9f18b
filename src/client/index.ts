export { ServiceClient } from './service-client';
export { decodeOneTimePassword } from './generation-attempt';
export { diagnoseServerError } from './diagnose';
export type { Accepted, CallOptions, ClusterTarget, EpochSeconds, ServiceClientOptions } from './types';
export type { ActivationToken, ActivationTokenClaims } from './activation-token';
export type { GeneratedTokenKind, GenerationAttempt } from './generation-attempt';
export type { GenerationEndpoints, StartAttemptParameters } from './generation-endpoints';
export type { DrAuthorisation, DrEndpoints, DrSecondaryEndpoints, ReindexParameters } from './dr-endpoints';
export type {
  PathsFilterEndpoints,
  PerformanceEndpoints,
  PerformancePrimaryEndpoints,
  PerformanceSecondaryEndpoints,
} from './performance-endpoints';
export type { PrimaryEndpoints, SecondaryEndpoints, SecondaryPublicKey } from './replication-endpoints';
export type {
  EnablePrimaryParameters,
  EnableSecondaryParameters,
  PromoteParameters,
  SecondaryTokenParameters,
  UpdatePrimaryParameters,
} from './replication-parameters';
export type {
  DrPrimaryStatus,
  DrStatus,
  InactiveStatus,
  PerformancePrimaryStatus,
  PerformanceStatus,
  ReplicationPeer,
  ReplicationStatus,
  SecondaryStatus,
} from './replication-status';
export type { DynamicFilter, FilterMode, PathsFilter } from './filters';
export type { CorruptedPage, MerkleReport, MerkleSubtree } from './merkle-report';
export type { KeyValueEndpoints, SecretPlace, StoredSecret } from './key-value-endpoints';
export type { SysEndpoints } from './sys-endpoints';
export type {
  Capabilities,
  CreatedToken,
  HaNode,
  Health,
  Leader,
  SealStatus,
  TokenFacts,
  TokenRole,
} from './sys-shapes';
export type { AuditDevice, AutoSnapshotStatus, LicenceStatus } from './sys-site-shapes';
