import { z } from 'zod';

/** Names of deployments and clusters, as the inventory gives them. */
export const deploymentName = z.string().regex(/^[a-z0-9-]+$/, 'must be lowercase letters, digits and hyphens');
export const clusterName = z.string().regex(/^[a-z0-9-]+$/, 'must be lowercase letters, digits and hyphens');

/** A kind of replication. */
export const replicationKind = z.enum(['dr', 'performance']);
export type ReplicationKind = z.infer<typeof replicationKind>;

/** Where the token for DR operations comes from (design: token source). */
export const tokenSource = z.enum(['batch', 'ceremony', 'provided']);
export type TokenSource = z.infer<typeof tokenSource>;

/** `auto`: the batch token if it is ready, otherwise the key holders. `provided` is only ever chosen by people. */
export const tokenSourceChoice = z.enum(['auto', ...tokenSource.options]);
export type TokenSourceChoice = z.infer<typeof tokenSourceChoice>;

/** How clients are quiesced while a primary is changed: by people's hooks, the service's own quota, or their word. */
export const quiesceMethod = z.enum(['hook', 'quota', 'attested']);
export type QuiesceMethod = z.infer<typeof quiesceMethod>;

/** The DR operations, as sealed tokens and invitations name them. */
export const tokenUse = z.enum([
  'dr.promote',
  'dr.update-primary',
  'dr.disable',
  'dr.reindex',
  'dr.merkle-check',
  'dr.operation-token.delete',
]);
export type TokenUse = z.infer<typeof tokenUse>;

/** How an activation token leaves the primary: encrypted to the secondary's public key, or response-wrapped. */
export const activationForm = z.enum(['auto', 'public-key', 'wrapped']);

/** A paths filter of a performance secondary, as the interface accepts it (4.2). */
export const pathsFilter = z.strictObject({
  mode: z.enum(['allow', 'deny']).default('allow'),
  /** An empty list is written as such: `allow` nothing keeps everything away, `deny` nothing keeps nothing away. */
  paths: z.array(z.string().min(1)),
});

/** What an id in the paths of the interface can be. */
export const secondaryId = z
  .string()
  .regex(/^(?!\.{1,2}$)[^\s/\\?#%]{1,200}$/, 'an id must not contain spaces or any of / \\ ? # %');

/** A secondary of another team, which is not a cluster of the inventory. */
export const outsideSecondary = z.strictObject({
  /** The id of its activation token and of its paths filter: its cluster ID. */
  id: secondaryId,
  /** What `secondary/generate-public-key` returned there. Only the cluster that made it can use the token. */
  publicKey: z.string().regex(/^[A-Za-z0-9+/]{16,4000}={0,2}$/, 'the base64 text of secondary_public_key'),
  /** Lifetime of the token. The run waits that long. */
  ttl: z
    .string()
    .regex(/^(([1-9]\d?|1\d\d|2[0-3]\d|240)m|[1-4]h)$/, 'minutes or hours, at most 4h')
    .default('30m'),
});
export type OutsideSecondary = z.infer<typeof outsideSecondary>;

/** Addresses of a primary for its secondary, as `update_primary_addrs` accepts them. */
export const clusterAddress = z
  .string()
  .regex(
    /^(https:\/\/)?([\w.-]+|\[[\da-fA-F:]+\]):\d{1,5}$/,
    'a cluster address is host:port, with or without https://',
  );

const isoTime = z.iso.datetime({ offset: true });

/** A change window: nothing is changed before `notBefore`, and nothing dangerous is begun after `notAfter`. */
export const changeWindow = z
  .strictObject({ notBefore: isoTime.optional(), notAfter: isoTime })
  .refine(({ notBefore, notAfter }) => notBefore === undefined || Date.parse(notBefore) < Date.parse(notAfter), {
    message: 'notBefore must be earlier than notAfter',
  });
export type ChangeWindow = z.infer<typeof changeWindow>;

/** Without slash: it is never the key of another run's or deployment's notifications. */
export const incidentKey = z
  .string()
  .regex(/^[\w.:@=+-]{1,255}$/, 'at most 255 letters, digits and characters of _ . : @ = + -');

/** Members of the input of every runbook. */
export const asked = {
  /** A deployment of the inventory. */
  deployment: deploymentName,
  reason: z.string().trim().min(3).max(500),
  /** Who requests the run. A claim, shown as such, unless authentication is on. */
  requestedBy: z.string().trim().min(1).max(100).optional(),
  /** A ticket, change number or incident, for status, notifications and report. */
  ticket: z.string().trim().min(1).max(100).optional(),
  /** The `dedup_key` of the incident at PagerDuty in which this run's notifications land. */
  incidentKey: incidentKey.optional(),
  /** Only reads, and returns the plan. Takes no lock. */
  dryRun: z.boolean().default(false),
};

/** Members of the input of every runbook that changes something behind a gate. */
export const askedForChange = { ...asked, window: changeWindow.optional() };
