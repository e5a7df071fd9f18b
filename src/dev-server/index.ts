export { findTemporalExecutable, findTemporalServer } from './find-temporal-server';
export type { FindOptions, FoundExecutable, FoundServer, OnProgress } from './find-temporal-server';
export { startDevServer } from './start-dev-server';
export type { DevServer, DevServerOptions, TemporalServerAddresses } from './start-dev-server';
export { obtainTemporalServer } from './obtain-temporal-server';
export type { TemporalServer } from './obtain-temporal-server';
export { DEFAULT_NAMESPACE, DYNAMIC_CONFIG, SEARCH_ATTRIBUTES } from './settings';
