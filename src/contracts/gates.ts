/** The gates of the inventory. Each has a policy of who must approve. */
export const GATE_NAMES = [
  'plan',
  'go',
  'promote',
  'force',
  'unfence',
  'wipe',
  'repoint',
  'filter',
  'revoke',
  'disable',
  'reindex',
  'ceremony',
] as const;
export type GateName = (typeof GATE_NAMES)[number];
