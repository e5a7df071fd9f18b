export type * from './inputs';
export type * from './results';
export type * from './failover';
export type * from './rejoin';
export type * from './onboarding';
export type * from './performance-promotion';
export type * from './filters';
export type * from './decommission';
export type * from './trees';
export type * from './token-disposal';
export type * from './generation';
export type * from './readiness';
export type * from './batch-tokens';

/*
 * What activities give and take beside their own inputs. Names only: no address, path or credential passes through
 * Temporal. Times are epoch milliseconds unless the name says otherwise.
 */
