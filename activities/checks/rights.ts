/** Paths with the capabilities needed on each, all of them; `create|update` means either one. */
export type Rights = Readonly<Record<string, readonly string[]>>;

/** A path in a policy, with its capabilities. */
export interface PolicyGrant {
  readonly path: string;
  readonly capabilities: readonly string[];
}

/** Rules in HCL, as `vault policy write` takes them. */
export function hclOf(grants: readonly PolicyGrant[]): string {
  return grants
    .map(({ path, capabilities }) => `path "${path}" { capabilities = ["${capabilities.join('", "')}"] }`)
    .join('\n');
}

export const DEMOTE = 'sys/replication/dr/primary/demote';
export const PROMOTE = 'sys/replication/dr/secondary/promote';
export const UPDATE_PRIMARY = 'sys/replication/dr/secondary/update-primary';
export const ATTEMPT = 'sys/replication/dr/secondary/generate-operation-token/attempt';
