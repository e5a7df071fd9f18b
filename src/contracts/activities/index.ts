export type * from './inputs';
export type * from './results';
export type * from './rejoin';
export type * from './onboarding';
export type * from './performance-promotion';
export type * from './filters';
export type * from './generation';

/*
 * What activities give and take beside their own inputs. Names only: no address, path or credential passes through
 * Temporal. Times are epoch milliseconds unless the name says otherwise.
 */
