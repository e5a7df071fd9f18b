export { loadInventory, parseInventory } from './load';
export { drSetOf, findCluster, findDeployment, holdersOf } from './lookup';
export { describeSource, readCredential, readSecret, readSigningKey } from './credentials';
export type {
  CeremonyPolicy,
  ClusterEntry,
  CommandHook,
  CredentialSource,
  Deployment,
  GatePolicy,
  HookEntry,
  Inventory,
  Limits,
  Person,
  ProbeHook,
} from './types';
