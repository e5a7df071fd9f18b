export { loadInventory, parseInventory } from './load';
export { approversOf, countsIn, decidersOf, drSetOf, findCluster, findDeployment, holdersOf } from './lookup';
export { endOfTerm, outOfTerm, rosterAt } from './roster';
export type { RosterAt, Term } from './roster';
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
