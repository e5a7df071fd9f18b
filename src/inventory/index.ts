export { loadInventory, parseInventory } from './load';
export {
  approversOf,
  countsIn,
  decidersOf,
  drSetOf,
  endOfTerm,
  findCluster,
  findDeployment,
  holdersOf,
  outOfTerm,
  rosterAt,
} from './lookup';
export type { RosterAt } from './lookup';
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
  NotificationTarget,
  Person,
  ProbeHook,
  WantedFilter,
} from './schema';
