export { listKey } from './list-key';
export type { PersonKey } from './list-key';
export { InventoryInForce, inventoryDigest } from './in-force';
export { loadInventory, parseInventory } from './load';
export {
  approversOf,
  countsIn,
  decidersOf,
  drSetOf,
  endOfTerm,
  findCluster,
  findDeployment,
  hasJoined,
  holdersOf,
  outOfTerm,
  rosterAt,
  voiceless,
} from './lookup';
export type { RosterAt, Voiceless } from './lookup';
export { describeSource, readCredential, readSecret, readSigningKey } from './credentials';
export type { ClusterEntry, Deployment, Inventory } from './load';
export type {
  BatchTokenRotationEntry,
  BatchTokenSink,
  BatchTokenSource,
  CallHook,
  CeremonyPolicy,
  CommandHook,
  CredentialSource,
  GatePolicy,
  HookEntry,
  HookName,
  KeyValuePlace,
  Limits,
  Login,
  NotificationTarget,
  Person,
  ProbeHook,
  WantedFilter,
} from './schema';
