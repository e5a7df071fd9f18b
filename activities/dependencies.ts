import type { Client } from '@temporalio/client';
import type { Logger } from 'pino';
import type { Inventory } from '../src/inventory';
import type { KeyRecords, SealKeyring, SigningKey } from '../src/keys';
import type { Timing } from './deadline';
import type { Records } from './record';

/** What the worker gives the activities. Nothing of it passes through Temporal. */
export interface ActivityDependencies {
  /** As it is in force now: an attempt of an activity works with one from its beginning to its end. */
  readonly inventory: Inventory;
  /** Why the inventory's file as it is now is not in force; absent where it is. */
  readonly inventoryRefusal?: string | undefined;
  /** The ceremony keys of this host. */
  readonly keyRecords: KeyRecords;
  readonly sealKeyring: SealKeyring;
  /** Signs invitations; holders pin its public half. */
  readonly signingKey: SigningKey;
  /** Over the worker's own connection: reads the run's own history and describes other runs. */
  readonly temporal: Client;
  /** Where reports of ended runs are kept as files too. */
  readonly reportDirectory: string | undefined;
  /** What outlives runs, of each deployment. */
  readonly records: Records;
  /** For tests. */
  readonly timing?: Timing | undefined;
  readonly log: Logger;
}
