export { startWorker } from './start-worker';
export type { RunningWorker, WorkerOptions } from './start-worker';
export { workerSettings } from './settings';
export type { WorkerSettings } from './settings';
export { createLogger } from './logging';
