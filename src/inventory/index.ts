export * from './credentials';
export * from './list-key';
export * from './load';
export * from './lookup';
export type * from './schema';
