export * from './load';
export * from './lookup';
export { addressMistake } from './schema-values';
export type * from './schema';
