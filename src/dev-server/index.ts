export { findTemporalServer } from './find-temporal-server';
export { obtainTemporalServer, startDevServer } from './start-dev-server';
export type { TemporalServer, TemporalServerAddresses } from './start-dev-server';
export { DYNAMIC_CONFIG } from './settings';
