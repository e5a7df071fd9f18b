export { findTemporalServer } from './find-temporal-server';
export { startDevServer } from './start-dev-server';
export type { TemporalServerAddresses } from './start-dev-server';
export { obtainTemporalServer } from './obtain-temporal-server';
export type { TemporalServer } from './obtain-temporal-server';
export { DYNAMIC_CONFIG, SEARCH_ATTRIBUTES } from './settings';
