export { ServiceClient, diagnoseServerError } from './service-client';
export { leaderNameText } from './nodes';
export { ENDPOINTS, apiPathOf } from './endpoints';
export {
  SOUND_CA_FILES,
  caFileFaults,
  readTrustedRoots,
  tlsConnector,
  tlsFailureOf,
  verifyingTls,
} from './certificates';
export { networkCodeOf, notingStart } from './transport';
export { isNever } from './shape';
export type { TlsFailure } from './certificates';
export type { GenerationEndpoints } from './service-client';
export type { JoinParameters } from './endpoints';
export type * from './answers';
export type { ClusterTarget, RequestBody, ServiceClientOptions, TokenGuard } from './types';
