export * from './load';
export * from './lookup';
export type * from './schema';
export { inputOfTrigger } from './triggers';
export { TRUSTED, caFilesNamedIn, filesNamedIn, whyNotTrusted, whyPlanted } from './trusted-files';
export { clusterAddress } from './schema-values';
export * from './schedules';
