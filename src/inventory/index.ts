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
export type {
  BatchTokenRotationEntry,
  BatchTokenSink,
  BatchTokenSource,
  CallHook,
  CeremonyPolicy,
  ClusterEntry,
  CommandHook,
  CredentialSource,
  Deployment,
  GatePolicy,
  HookEntry,
  HookName,
  Inventory,
  KeyValuePlace,
  Limits,
  NotificationTarget,
  Person,
  ProbeHook,
  WantedFilter,
} from './types';
