import { z } from 'zod';
import { tokenSourceChoice } from '../contracts/inputs/common';
import { parsePublicKey } from '../keys/signing-keys';
import { batchTokenRotation } from './batch-token-schema';
import { hooks } from './hook-schema';
import { notifications, people } from './notification-schema';
import { readiness } from './readiness-schema';
import { credentialSource, duration, name, origin } from './schema-values';

const publicKey = z.string().transform((line, context) => {
  const key = parsePublicKey(line.trim());
  if (key !== undefined) return key;
  context.addIssue({ code: 'custom', message: 'a public key is "<kid>:<x>" as "runbook keys init" prints it' });
  return z.NEVER;
});

const text = z.string().min(1);

const person = z
  .strictObject({
    groups: z.array(name).default([]),
    attestation: z.enum(['signed', 'principal', 'claimed']),
    /** Ed25519 keys of this person; several while a key is replaced. */
    publicKeys: z.array(publicKey).default([]),
    /** The server's principal on this person's signals: the `sub` of a JWT, or of another type. Needed where the attestation is `principal`. */
    principal: z
      .union(
        [text.transform((sub) => ({ type: 'jwt', name: sub })), z.strictObject({ type: text, name: text })],
        'a principal is the "sub" of a JWT, or { type, name }',
      )
      .optional(),
  })
  .superRefine((value, context) => {
    if (value.attestation === 'signed' && value.publicKeys.length === 0) {
      context.addIssue({ code: 'custom', path: ['publicKeys'], message: 'a person who signs needs a public key' });
    }
    if (value.attestation === 'principal' && value.principal === undefined) {
      context.addIssue({ code: 'custom', path: ['principal'], message: 'attestation "principal" needs the principal' });
    }
  });

const cluster = z.strictObject({
  addresses: z.array(origin).min(1, 'a cluster has at least one API address'),
  caFile: z.string().startsWith('/', 'a file is given by its absolute path').optional(),
  clusterId: z.string().min(1).optional(),
  advertisedClusterAddress: z.union([z.literal('node-address'), origin], 'an https address, or the word node-address'),
  apiAddressForPeers: origin.optional(),
  caFileOnPeers: z.string().startsWith('/', 'a file is given by its absolute path').optional(),
  credential: credentialSource,
  batchToken: credentialSource.optional(),
  ceremonyCredential: credentialSource.optional(),
});

/** A holder by name, or with the term of office. */
const holder = z.union([
  name.transform((each): { name: string; from?: string | undefined; until?: string | undefined } => ({ name: each })),
  z
    .strictObject({ name, from: z.iso.date().optional(), until: z.iso.date().optional() })
    .refine(({ from, until }) => from === undefined || until === undefined || from <= until, {
      path: ['until'],
      message: 'the term ends before it begins',
    }),
]);

const ceremony = z
  .strictObject({
    holders: z.array(holder).min(1, 'a ceremony needs holders'),
    /** Invited with the others, and asked where shares are missing after a while or somebody declines. */
    standBy: z.array(holder).default([]),
    inviteStandByAfter: duration.prefault('10m'),
    /** At least so many shares must come from people of each of these groups: our policy, not the service's. */
    groups: z.array(z.strictObject({ group: name, shares: z.int().min(1).max(20) })).default([]),
    collectFor: duration.prefault('30m'),
    useFor: duration.prefault('30m'),
    tokenSource: tokenSourceChoice.default('auto'),
    /** Who may give a run an operation token that people generated themselves; the holders where nobody is listed. */
    tokenProviders: z.array(name).min(1, 'list who may provide tokens, or leave it out').optional(),
    batchMargin: duration.prefault('30m'),
  })
  .transform(({ collectFor, useFor, batchMargin, inviteStandByAfter, holders, standBy, ...rest }) => ({
    ...rest,
    holders: holders.map((each) => each.name),
    standBy: standBy.map((each) => each.name),
    /** From when until when somebody is a holder, where that is limited. */
    terms: [...holders, ...standBy].filter((each) => each.from !== undefined || each.until !== undefined),
    inviteStandByAfterMs: inviteStandByAfter,
    collectForMs: collectFor,
    useForMs: useFor,
    batchMarginMs: batchMargin,
  }));

const gate = z
  .strictObject({
    approvals: z.int().min(1).max(20),
    groups: z.array(name).min(1, 'a gate names the groups that approve'),
    excludeRequester: z.boolean().default(true),
    validFor: duration,
  })
  .transform(({ validFor, ...rest }) => ({ ...rest, validForMs: validFor }));

const FORCE_APPROVALS = 2;
const forceGate = gate.refine(({ approvals }) => approvals >= FORCE_APPROVALS, {
  path: ['approvals'],
  message: 'force needs two different people at least',
});

const defaultForce = (plan: z.output<typeof gate>) => ({
  ...plan,
  approvals: Math.max(FORCE_APPROVALS, plan.approvals),
});

/** `plan` and `go` are given; every other gate takes the policy of `plan` where none is, and `force` two approvers. */
const gates = z
  .strictObject({
    plan: gate,
    go: gate,
    promote: gate.optional(),
    force: forceGate.optional(),
    unfence: gate.optional(),
    wipe: gate.optional(),
    repoint: gate.optional(),
    filter: gate.optional(),
    revoke: gate.optional(),
    disable: gate.optional(),
    reindex: gate.optional(),
    ceremony: gate.optional(),
  })
  .transform((given) => ({
    plan: given.plan,
    go: given.go,
    promote: given.promote ?? given.plan,
    force: given.force ?? defaultForce(given.plan),
    unfence: given.unfence ?? given.plan,
    wipe: given.wipe ?? given.plan,
    repoint: given.repoint ?? given.plan,
    filter: given.filter ?? given.plan,
    revoke: given.revoke ?? given.plan,
    disable: given.disable ?? given.plan,
    reindex: given.reindex ?? given.plan,
    ceremony: given.ceremony ?? given.plan,
  }));

/** What a performance secondary must not see, or all that it may see. */
const wantedFilter = z.union([
  z.literal('none'),
  z.strictObject({ mode: z.enum(['allow', 'deny']), paths: z.array(z.string().min(1)).min(1) }),
]);

/** A change is one attempt of an activity: Temporal ends it after nine minutes, and a call taken last is seen within half more. */
const LONGEST_CHANGE_MS = 5 * 60_000;
const changeBudget = duration
  .prefault('60s')
  .refine((milliseconds) => milliseconds <= LONGEST_CHANGE_MS, 'a change is given 5 minutes at most; retry goes on');

const limits = z
  .strictObject({
    lagWalEntries: z.int().min(0).default(1000),
    heartbeatAge: duration.prefault('30s'),
    catchUp: duration.prefault('60s'),
    demote: changeBudget,
    promote: changeBudget,
    serviceReady: duration.prefault('60s'),
    streaming: duration.prefault('10m'),
    merkleEvidence: duration.prefault('30s'),
    /** How long the primary must have been silent before a failover. */
    primaryGone: duration.prefault('30s'),
    /** After a change of the primary, before a planned one. */
    coolDown: duration.prefault('30m'),
    unseal: duration.prefault('4h'),
    /** How long people are waited for who open the calls of a ceremony, and who close them again. */
    reindex: duration.prefault('12h'),
  })
  .transform((value) => ({
    lagWalEntries: value.lagWalEntries,
    heartbeatAgeMs: value.heartbeatAge,
    catchUpMs: value.catchUp,
    demoteMs: value.demote,
    promoteMs: value.promote,
    serviceReadyMs: value.serviceReady,
    streamingMs: value.streaming,
    merkleEvidenceMs: value.merkleEvidence,
    primaryGoneMs: value.primaryGone,
    coolDownMs: value.coolDown,
    unsealMs: value.unseal,
    reindexMs: value.reindex,
  }));

const deployment = z.strictObject({
  laboratory: z.boolean().default(false),
  clusters: z.record(name, cluster).refine((value) => Object.keys(value).length > 0, 'a deployment has clusters'),
  drSets: z.record(name, z.array(name).min(1, 'a DR set has at least one cluster')),
  ceremony,
  gates,
  /** Groups whose members decide about parked steps, beside those of the gates. */
  operators: z.array(name).default(['operators']),
  /** Clusters that may be wiped by an onboarding; each entry serves once. */
  /** By DR set: how its batch token is made anew, and where it is kept. */
  batchTokens: z.record(name, batchTokenRotation).default({}),
  /** The wanted paths filter of each performance secondary. */
  pathsFilters: z.record(name, wantedFilter).default({}),
  limits: limits.prefault({}),
  marker: z
    .strictObject({ path: z.string().regex(/^[^/\s]+(\/[^/\s]+)+$/, 'a path such as kv/runbooks-marker') })
    .default({ path: 'kv/runbooks-marker' }),
  hooks,
  notifications,
  people,
  readiness: readiness.prefault({}),
});

/** The inventory file (docs/inventory.md). Members only; what members say of each other is checked in `checks.ts`. */
export const inventorySchema = z.strictObject({
  version: z.literal(1, 'this program reads inventories of version 1'),
  temporal: z
    .strictObject({
      uiAddress: z.url({ protocol: /^https?$/ }).optional(),
      namespace: z.string().min(1).default('default'),
    })
    .prefault({}),
  workers: z.strictObject({
    signingKey: credentialSource,
  }),
  people: z.record(name, person),
  deployments: z
    .record(name, deployment)
    .refine((value) => Object.keys(value).length > 0, 'an inventory has deployments'),
});

export type ParsedInventory = z.infer<typeof inventorySchema>;
