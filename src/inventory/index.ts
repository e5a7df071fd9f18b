export * from './credentials';
export * from './list-key';
export { InventoryInForce, inventoryDigest } from './in-force';
export { loadInventory, parseInventory } from './load';
export type { ClusterEntry, Deployment, Inventory } from './load';
export * from './lookup';
export type * from './schema';
