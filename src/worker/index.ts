export { startWorker } from './start-worker';
export type { RunningWorker, WorkerOptions } from './start-worker';
export { inventoryPath, taskQueueSetting, workerSettings } from './settings';
export type { KeyStorage, WorkerSettings } from './settings';
export { createLogger } from './logging';
