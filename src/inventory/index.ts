export * from './load';
export * from './lookup';
export type * from './schema';
