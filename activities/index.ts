import type { OfKind } from '../src/contracts/activities';
import { INPUT_MEMBERS, OF_KIND } from './inputs';
import * as offered from './offered';

export { Clusters } from './clusters';
export { interceptActivities } from './execution';
export { Records } from './record';
export { sweepLedger, raiseRecordAlarm } from './tokens/token-ledger';
export { notifyOverdueReadiness } from './readiness/summary';
export { watchSampler } from './alarms/no-samples';

/** The activities that workers offer, by their Temporal names. They run only inside {@link interceptActivities}. */
export const activities = { ...offered };

/** Workflows import this as a type only: no activity code gets into their bundle. */
export type RunbookActivities = typeof activities;

type InputOf<K extends keyof RunbookActivities> = Parameters<RunbookActivities[K]>[0];
/** The member names of all activity inputs. */
type Member = { [K in keyof RunbookActivities]: keyof InputOf<K> }[keyof RunbookActivities];
/** The activities whose input always has a kind of replication. */
type OfOneKind = {
  [K in keyof RunbookActivities]: InputOf<K> extends OfKind ? K : never;
}[keyof RunbookActivities];
/** A table with exactly these names. */
type Exactly<T, N extends PropertyKey> = Readonly<Record<N, unknown>> & {
  readonly [K in keyof T]: K extends N ? unknown : never;
};

// Each input is checked before its activity runs: a name that only one side has must not compile.
void (INPUT_MEMBERS satisfies Exactly<typeof INPUT_MEMBERS, Member>);
void (OF_KIND satisfies Exactly<typeof OF_KIND, OfOneKind>);
export { TIMING } from './timing';
export type { ActivityDependencies } from './dependencies';
