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

/**
 * Every dangerous operation with the gate whose policy must be met before an activity does it. The activities look it up here and
 * in the inventory, and never take a gate's name from their input.
 */
export const OPERATION_GATES = {
  'dr.primary.demote': 'plan',
  'dr.primary.quiesce-by-quota': 'plan',
  'dr.primary.enable': 'plan',
  'dr.primary.disable': 'disable',
  'dr.primary.revoke-secondary': 'revoke',
  'dr.secondary.promote': 'promote',
  // Parts of a switchover that was approved as a whole, whichever of its two clusters ends as primary.
  'dr.secondary.promote-after-demotion': 'plan',
  'dr.secondary.repoint-after-switchover': 'plan',
  'performance.secondary.repoint-after-switchover': 'plan',
  'dr.secondary.promote-force': 'force',
  'dr.secondary.enable': 'wipe',
  // Another team wipes its cluster with it.
  'dr.primary.secondary-token': 'wipe',
  'performance.primary.secondary-token': 'wipe',
  'performance.primary.paths-filter-for-secondary': 'wipe',
  'dr.secondary.disable': 'disable',
  'dr.secondary.forget-primary': 'revoke',
  'dr.secondary.reindex': 'reindex',
  'dr.secondary.repoint-by-token': 'repoint',
  'dr.secondary.repoint-by-addresses': 'repoint',
  // Parts of a failover and of a rejoin that were approved as a whole, so nobody is asked again.
  'dr.secondary.repoint-after-promotion': 'promote',
  'dr.secondary.repoint-after-unfence': 'unfence',
  'performance.secondary.repoint-after-unfence': 'unfence',
  'performance.primary.demote': 'promote',
  'performance.primary.quiesce-by-quota': 'promote',
  'performance.primary.enable': 'plan',
  'performance.primary.disable': 'disable',
  'performance.primary.revoke-secondary': 'revoke',
  'performance.primary.paths-filter': 'filter',
  'performance.secondary.promote': 'promote',
  'performance.secondary.promote-force': 'force',
  'performance.secondary.enable': 'wipe',
  'performance.secondary.disable': 'disable',
  'performance.secondary.forget-primary': 'revoke',
  'performance.secondary.repoint-by-token': 'repoint',
  'performance.secondary.repoint-by-addresses': 'repoint',
  // As above, for either kind of promotion.
  'performance.secondary.repoint-after-promotion': 'promote',
  // Part of an onboarding whose wipe was approved.
  'dr.primary.enable-for-secondary': 'wipe',
  'performance.primary.enable-for-secondary': 'wipe',
  'hook.fence': 'promote',
  'hook.unfence': 'unfence',
  'root-token.generate': 'ceremony',
  'operation-token.hand-over': 'ceremony',
  // A token that the record keeps is sealed again for the run that people approved.
  'operation-token.take': 'plan',
  'operation-token.take-for-failover': 'promote',
  // An orphan leaves the record, and the alarm about it ends.
  'record.forget-token': 'ceremony',
} as const satisfies Readonly<Record<string, GateName>>;

export type GatedOperation = keyof typeof OPERATION_GATES;
