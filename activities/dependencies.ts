import type { Client } from '@temporalio/client';
import type { Log } from '../src/contracts/log';
import type { Inventory } from '../src/inventory';
import type { KeyRecords, SealKeyring, SigningKey } from '../src/keys';
import type { Records } from './record';
import type { Timing } from './timing';

/** What the worker provides to the activities. None of it passes through Temporal. */
export interface ActivityDependencies {
  /** The inventory now in force. An attempt of an activity uses the same one from beginning to end. */
  readonly inventory: Inventory;
  /** Why the current inventory file is not in force; absent if it is. */
  readonly inventoryRefusal?: string | undefined;
  /** The ceremony keys of this host. */
  readonly keyRecords: KeyRecords;
  readonly sealKeyring: SealKeyring;
  /** Signs invitations; holders pin its public half. */
  readonly signingKey: SigningKey;
  /** Uses the worker's own connection: reads the history of the run and describes other runs. */
  readonly temporal: Client;
  /** The directory for report files of ended runs. */
  readonly reportDirectory: string | undefined;
  /** State of each deployment that outlives its runs. */
  readonly records: Records;
  /** For tests. */
  readonly timing?: Timing | undefined;
  readonly log: Log;
}
