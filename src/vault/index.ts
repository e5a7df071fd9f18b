export { ServiceClient, diagnoseServerError } from './service-client';
export { leaderNameText } from './nodes';
export { ENDPOINTS, apiPathOf } from './endpoints';
export { networkCodeOf, notingStart, readTrustedRoots } from './transport';
export { isNever } from './shape';
export type { GenerationEndpoints } from './service-client';
export type { JoinParameters } from './endpoints';
export type * from './answers';
export type { ClusterTarget, RequestBody, ServiceClientOptions, TokenGuard } from './types';
