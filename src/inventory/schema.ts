import { z } from 'zod';
import { SNAPSHOT_EVENTS } from '../contracts/names';
import { NOTIFICATION_EVENTS } from '../contracts/notifications';
import { pathsFilter, quiesceMethod, tokenSourceChoice } from '../contracts/input-members';
import type { GateName } from '../contracts/gates';
import { GATE_NAMES } from '../contracts/gates';
import { parsePublicKey } from '../documents/public-keys';
import {
  absolutePath,
  atMost,
  byName,
  clusterAddress,
  credential,
  credentialSource,
  duration,
  headerName,
  inMs,
  mistakesOf,
  name,
  origin,
  section,
  webAddress,
} from './schema-values';
import { triggers } from './triggers';

const publicKey = z.string().transform((line, context) => {
  const key = parsePublicKey(line.trim());
  if (key !== undefined) return key;
  context.addIssue({
    code: 'custom',
    message: 'a public key is "<kid>:<x>", as "runbook join" prints it after the name',
  });
  return z.NEVER;
});

const text = z.string().min(1);

const person = z
  .strictObject({
    groups: z.array(name).default([]),
    attestation: z.enum(['signed', 'principal', 'claimed']).default('signed'),
    /**
     * Ed25519 keys of this person; several while a key is being replaced. A person who must sign and has none has not
     * joined.
     */
    publicKeys: z.array(publicKey).default([]),
    /** The server's principal on this person's signals: the `sub` of a JWT, or of another type. */
    principal: z
      .union(
        [text.transform((sub) => ({ type: 'jwt', name: sub })), z.strictObject({ type: text, name: text })],
        'a principal is the "sub" of a JWT, or { type, name }',
      )
      .optional(),
  })
  .refine(({ attestation, principal }) => attestation !== 'principal' || principal !== undefined, {
    path: ['principal'],
    message: 'attestation "principal" needs a principal',
  });

const cluster = z
  .strictObject({
    addresses: z.array(origin).min(1, 'a cluster has at least one API address'),
    caFile: absolutePath.optional(),
    clusterId: text.optional(),
    advertisedClusterAddress: z.union(
      [z.literal('node-address'), clusterAddress],
      'an https address, or the word node-address',
    ),
    apiAddressForPeers: origin.optional(),
    caFileOnPeers: absolutePath.optional(),
    caPathOnPeers: absolutePath.optional(),
    credential,
    batchToken: credentialSource.optional(),
    ceremonyCredential: credentialSource.optional(),
  })
  .refine(({ caFileOnPeers, caPathOnPeers }) => caFileOnPeers === undefined || caPathOnPeers === undefined, {
    path: ['caPathOnPeers'],
    message: 'give either caFileOnPeers or caPathOnPeers, not both',
  });

/** Holders by name. */
const holders = z.array(name);

const ceremony = section({
  holders: holders.min(1, 'a ceremony needs holders'),
  /** Invited with the others, and asked if shares are still missing after a while. */
  standBy: holders.default([]),
  inviteStandByAfter: duration.prefault('10m'),
  collectFor: duration.prefault('30m'),
  useFor: duration.prefault('30m'),
  tokenSource: tokenSourceChoice.default('auto'),
  /** Who may give a run an operation token that people generated themselves. Defaults to the holders. */
  tokenProviders: z.array(name).min(1, 'list the people who may provide tokens, or omit the list').optional(),
  batchMargin: duration.prefault('30m'),
});

const gate = section({
  approvals: z.int().min(1).max(20),
  groups: z.array(name).min(1, 'a gate names the groups that approve'),
  excludeRequester: z.boolean().default(true),
  validFor: duration,
});

const FORCE_APPROVALS = 2;
const forceGate = gate.refine(({ approvals }) => approvals >= FORCE_APPROVALS, {
  path: ['approvals'],
  message: 'force needs at least two different people',
});
const optionalGates = Object.fromEntries(GATE_NAMES.map((each) => [each, gate.optional()])) as Readonly<
  Record<GateName, z.ZodOptional<typeof gate>>
>;

/** `plan` and `go` are required. Other gates default to the policy of `plan`; `force` to at least two approvers. */
const gates = z
  .strictObject({ ...optionalGates, plan: gate, go: gate, force: forceGate.optional() })
  .transform((given) => {
    const { plan } = given;
    const force = { ...plan, approvals: Math.max(FORCE_APPROVALS, plan.approvals) };
    const policies = GATE_NAMES.map((each) => [each, given[each] ?? (each === 'force' ? force : plan)]);
    return Object.fromEntries(policies) as Readonly<Record<GateName, typeof plan>>;
  });

/** The paths that a performance secondary must not see, or the only paths that it may see. */
const wantedFilter = z.union([z.literal('none'), pathsFilter]);

/**
 * A change is one activity attempt, which Temporal ends after nine minutes. A late call needs half the budget more to
 * be seen. The default is longer than the 120 s that the vendor's own scenario allows after each (facts 13.10).
 */
const changeBudget = atMost(5 * 60_000, 'a change gets at most 5 minutes; retry continues it', '150s');

const limits = section({
  lagWalEntries: z.int().min(0).default(1000),
  heartbeatAge: duration.prefault('30s'),
  catchUp: duration.prefault('60s'),
  demote: changeBudget,
  promote: changeBudget,
  serviceReady: duration.prefault('150s'),
  streaming: duration.prefault('10m'),
  /** Lifetime of an activation token that a run issues and uses itself. */
  activationToken: atMost(24 * 3_600_000, 'an activation token is used at once: its TTL is at most 24h', '10m'),
  merkleEvidence: atMost(2_000, 'the comparison may take at most 2s of an outage', '2s'),
  /** How long the primary must have been silent before a failover. */
  primaryGone: duration.prefault('30s'),
  /** Minimum time after a change of the primary before a planned one. */
  coolDown: duration.prefault('30m'),
  /** How long the WAL index of a primary is watched if a hook or people attest that its clients are quiesced. */
  walStill: duration.prefault('2s'),
  /**
   * How much it may rise meanwhile: canaries, ends of leases. Each entry may also be the end of a client's slow write.
   */
  walStillEntries: z.int().min(0).max(100).default(2),
  unseal: duration.prefault('4h'),
  reindex: duration.prefault('12h'),
});

/** When people for whom a run waits are reminded, and when others are notified. */
const people = section({ remindAfter: duration.prefault('10m'), escalateAfter: duration.prefault('20m') });

/** The organization's objectives for a change of the primary. Reports compare with them; nothing waits for them. */
const objectives = z
  .strictObject({
    outage: duration.optional(),
    /** WAL entries; `none` asks for proof. */
    loss: z
      .union([z.literal('none').transform(() => 0), z.int().min(0)], 'a number of WAL entries, or the word none')
      .optional(),
    unprotected: duration.optional(),
  })
  .transform(({ outage, loss, unprotected }) => ({
    outageMs: outage?.ms,
    lossWalEntries: loss,
    unprotectedMs: unprotected?.ms,
  }));

/** Where a copy of a cluster's storage goes before a step that cannot be undone. */
const snapshotBefore = section({
  to: z.union([z.literal('hook'), absolutePath], 'the absolute path of a directory on the worker, or the word hook'),
  before: z
    .array(z.enum(SNAPSHOT_EVENTS))
    .min(1, 'list the events before which it is taken')
    .default([...SNAPSHOT_EVENTS]),
  timeout: atMost(5 * 3_600_000, 'a snapshot gets at most 5 hours', '30m'),
});

/** The limits that `readiness` compares with. */
const readiness = section({
  /**
   * A credential with less lifetime left is a warning, once at most a quarter of its lifetime is left: nothing renews
   * it.
   */
  tokenLife: duration.prefault('24h'),
  /** How long after the last check people are notified that none came: at least twice the interval of its Schedule. */
  overdueAfter: duration.prefault('26h'),
  clockSkew: duration.prefault('5s'),
  /** Maximum age of the newest sample of `walSampler`. */
  sampleAge: duration.prefault('15m'),
  /** Maximum age of a holder's last success in `ceremonyRehearsal`. */
  rehearsalAge: duration.prefault('90d'),
});

/** How often a Schedule starts a run, in milliseconds; undefined: there is no such Schedule. */
const interval = (least: string, most: string, usual: string) => {
  const message = `an interval from ${least} to ${most}, or the word off`;
  const inRange = (ms: number) => ms >= duration.parse(least).ms && ms <= duration.parse(most).ms;
  const off = z.literal(['off', false]).transform(() => undefined);
  const every = duration.transform(({ ms }) => ms).refine(inRange, message);
  return z.union([off, every], message).prefault(usual);
};

/** How often the Schedules that `runbook schedules apply` creates start the runs that nobody waits for. */
const schedules = z.strictObject({
  walSampler: interval('30s', '15m', '1m'),
  readiness: interval('5m', '7d', '1h'),
  /** Only if `batchTokens` has an entry. */
  batchTokenRotation: interval('5m', '7d', '1h'),
});

/** When people are notified of what `walSampler` sees. */
const alarms = section({
  /** How many samples in a row must show something bad. */
  afterSamples: z.int().min(1).max(60).default(2),
});

/** A token role or policy of the service. */
const objectName = z.string().regex(/^[A-Za-z0-9][\w.-]*$/, 'the name of a role or policy of the service');
const pathOfKey = z
  .string()
  .regex(/^[^/\s]+(\/[^/\s]+)*$/, 'a path without a leading or trailing slash')
  .refine(
    (path) => !path.split('/').some((part) => part === '.' || part === '..'),
    'a path without . or .. as a segment',
  );

/** How `batchTokenRotation` creates the batch token of one DR set. */
const batchTokenRotation = section({
  role: objectName.default('runbooks-batch'),
  policy: objectName.default('runbooks-batch'),
  ttl: atMost(768 * 3_600_000, 'the service caps a batch token at 768h: 32d', '8h'),
});

/** How clients are quiesced during a planned change of the primary. Defaults to the hooks. */
const quiesce = z.union(
  [
    quiesceMethod.transform((by): { by?: z.infer<typeof quiesceMethod> | undefined; exempt: string[] } => ({
      by,
      exempt: [],
    })),
    /** `exempt`: path prefixes that a quota does not limit, besides the paths that runs call. */
    z.strictObject({ by: quiesceMethod.optional(), exempt: z.array(pathOfKey).max(100).default([]) }),
  ],
  'one of hook, quota, attested; or { by, exempt: [PATH] }',
);

/* Outside the service: how clients are stopped and released, how service is probed, who is notified of runs. */

/** Temporal ends a longer attempt. A hook that takes longer must start the work, which is then watched elsewhere. */
const LONGEST_MS = 150_000;
/** A snapshot may take long. */
const LONGEST_SNAPSHOT_MS = 5 * 3_600_000;

/** Headers that the call sets itself, or that would change where it goes. */
const RESERVED_HEADERS =
  /^(host|connection|content-(length|type)|transfer-encoding|upgrade|expect|te|trailer|keep-alive)$/i;

const hookHeader = headerName.refine((header) => !RESERVED_HEADERS.test(header), 'the call sets this header itself');

/**
 * A command on the worker, or an HTTP call. Distinguished by `url`, so that each mistake is reported at its own place.
 */
const hook = (longestMs = LONGEST_MS) => {
  const common = {
    timeout: atMost(longestMs, `a hook of this kind gets at most ${longestMs / 1000} s`, '30s'),
    /** Whether it is safe to repeat: only then is it retried without asking anybody. */
    idempotent: z.boolean().default(false),
  };
  const command = z
    .strictObject({
      command: z
        .array(z.string().min(1))
        .min(1)
        .refine((words) => words[0]?.startsWith('/'), 'a command starts with the absolute path of a program'),
      ...common,
    })
    .transform((given) => ({ kind: 'command' as const, ...inMs(given) }));
  const call = z
    .strictObject({
      url: webAddress,
      /** The value of each header is read from its source at every use. */
      headers: z.record(hookHeader, credentialSource).default({}),
      caFile: absolutePath.optional(),
      ...common,
    })
    .transform((given) => ({ kind: 'call' as const, ...inMs(given) }));
  return z.unknown().transform((value, context): z.infer<typeof command> | z.infer<typeof call> => {
    const isCall = typeof value === 'object' && value !== null && 'url' in value;
    const parsed = (isCall ? call : command).safeParse(value);
    if (parsed.success) return parsed.data;
    for (const { path, message } of parsed.error.issues.flatMap(mistakesOf))
      context.addIssue({ code: 'custom', path: [...path], message });
    return z.NEVER;
  });
};

const probe = z
  .strictObject({
    url: webAddress,
    expectStatus: z.array(z.int().min(100).max(599)).min(1).default([200]),
    timeout: duration.prefault('5s'),
    caFile: absolutePath.optional(),
  })
  .transform((given) => ({ kind: 'probe' as const, ...inMs(given) }));

/** How clients and old primaries are stopped, redirected and released, and how service is probed. */
export const hooks = z
  .strictObject({
    quiesce: hook().optional(),
    release: hook().optional(),
    traffic: hook().optional(),
    fence: hook().optional(),
    unfence: hook().optional(),
    snapshot: hook(LONGEST_SNAPSHOT_MS).optional(),
    probe: probe.optional(),
  })
  .default({});

/** A proxy learns the host of a target and nothing else: the connection through it is encrypted. */
const proxyAddress = z.string().refine((text) => {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}, 'an http(s) address without a user name or password');

/** The members of every target. Temporal gives a notification little time: a slow target counts as down. */
const target = <K extends string>(kind: K, events: readonly (typeof NOTIFICATION_EVENTS)[number][]) => ({
  name,
  kind: z.literal(kind),
  timeout: atMost(10_000, 'a target gets at most 10 s', '5s'),
  caFile: absolutePath.optional(),
  /** Only for this target. A password is given as a source of the complete address. */
  proxy: z.union([proxyAddress, credentialSource], 'the address of a proxy, or { env } or { file } with it').optional(),
  events: z
    .array(z.enum(NOTIFICATION_EVENTS))
    .min(1, 'a target without events would never be notified')
    .default([...events]),
});

const webhook = z.strictObject({
  ...target('webhook', NOTIFICATION_EVENTS),
  /** The complete address: anybody who knows it may post. */
  url: credentialSource,
  /** Sent as `Authorization: Bearer ...`. */
  token: credentialSource.optional(),
  /** Signs each message by the headers of Standard Webhooks; several during a rotation. */
  secret: credentialSource.optional(),
});

const slack = z.strictObject({ ...target('slack', NOTIFICATION_EVENTS), url: credentialSource });

/** An Adaptive Card for a workflow of Microsoft Teams ("when a webhook request is received"). */
const teams = z.strictObject({ ...target('teams', NOTIFICATION_EVENTS), url: credentialSource });

const pagerduty = z.strictObject({
  ...target('pagerduty', [
    ...(['waiting-for-people', 'parked', 'escalation', 'outage-started', 'critical-finding', 'service-alarm'] as const),
  ]),
  routingKey: credentialSource,
  /** Where events are enqueued; override it for a relay. */
  url: webAddress.default('https://events.pagerduty.com/v2/enqueue'),
});

/** Who is notified of what happens in runs. */
export const notifications = z
  .array(z.discriminatedUnion('kind', [webhook, slack, teams, pagerduty]).transform(inMs))
  .default([]);

const deployment = z.strictObject({
  laboratory: z.boolean().default(false),
  clusters: byName(cluster).refine(({ size }) => size > 0, 'a deployment needs a cluster'),
  /** Members of each DR set, as listed. */
  drSets: z
    .record(name, z.array(name).min(1, 'a DR set has at least one cluster'))
    .transform((sets): ReadonlyMap<string, readonly string[]> => new Map(Object.entries(sets))),
  ceremony,
  gates,
  /** Groups whose members decide about parked steps, besides those of the gates. */
  operators: z.array(name).default(['operators']),
  /** By DR set: how its batch token is renewed. */
  batchTokens: z.record(name, batchTokenRotation).default({}),
  /** The wanted paths filter of each performance secondary. */
  pathsFilters: z.record(name, wantedFilter).default({}),
  limits: limits.prefault({}),
  marker: z
    .strictObject({ path: z.string().regex(/^[^/\s]+(\/[^/\s]+)+$/, 'a path such as kv/runbooks-marker') })
    .default({ path: 'kv/runbooks-marker' }),
  hooks,
  snapshot: snapshotBefore.optional(),
  quiesce: quiesce.default({ exempt: [] }),
  notifications,
  people: people.prefault({}),
  objectives: objectives.optional(),
  readiness: readiness.prefault({}),
  schedules: schedules.prefault({}),
  alarms: alarms.prefault({}),
  /** What `walSampler` starts when it notices that no DR primary answers. The run waits at its gates, as always. */
  onNoPrimary: z.strictObject({ start: z.literal('drFailover') }).optional(),
});

/** The inventory file (docs/inventory.md). Checks single members; `checks.ts` checks them against each other. */
export const inventorySchema = z.strictObject({
  version: z.literal(1, 'this program reads inventories of version 1'),
  temporal: z.strictObject({ uiAddress: z.url({ protocol: /^https?$/ }).optional() }).prefault({}),
  workers: z.strictObject({ signingKey: credentialSource }),
  people: byName(person),
  deployments: byName(deployment).refine(({ size }) => size > 0, 'an inventory needs a deployment'),
  /** Which messages of incident tools start a run. */
  triggers,
});

export type ParsedInventory = z.infer<typeof inventorySchema>;
export type ParsedDeployment = z.infer<typeof deployment> & { readonly name: string };
export type ParsedGate = z.infer<typeof gate>;

export type { Login } from './schema-values';
export type { Trigger } from './triggers';
/** Where a secret is read from: an environment variable, or a file that is read again at every use. */
export type CredentialSource = z.infer<typeof credentialSource>;
/** A holder, approver or operator. The inventory sets the required attestation; a document cannot lower it. */
export type Person = Readonly<z.infer<typeof person>> & { readonly name: string };
/** How the batch token of a DR set is renewed. Times in milliseconds. */
export type BatchTokenRotationEntry = Readonly<z.infer<typeof batchTokenRotation>>;
/** Where a batch token is read from; `record` if a rotation creates it. */
export type BatchTokenSource = CredentialSource | 'record';
export type WantedFilter = Readonly<z.infer<typeof wantedFilter>>;
/** Lag limit in WAL entries, time limits in milliseconds. */
export type Limits = z.infer<typeof limits>;
type Hooks = z.infer<typeof hooks>;
/** The hooks that change something; the probe only reads. */
export type HookName = Exclude<keyof Hooks, 'probe'>;
/** A hook: a program to run on the worker, or an HTTP call. */
export type HookEntry = NonNullable<Hooks[HookName]>;
export type CommandHook = Extract<HookEntry, { kind: 'command' }>;
export type CallHook = Extract<HookEntry, { kind: 'call' }>;
/** A target that is notified of what happens in runs. */
export type NotificationTarget = Readonly<z.infer<typeof notifications>[number]>;

/** One cluster: the API addresses of its nodes and the sources of its credentials. */
export type ClusterEntry = Readonly<Omit<Parsed<ParsedDeployment['clusters']>, 'batchToken'>> & {
  readonly batchToken?: BatchTokenSource | undefined;
  readonly deployment: string;
  /** The DR set to which it belongs. This is membership, not a role. */
  readonly drSet: string;
};

type Parsed<M> = M extends ReadonlyMap<string, infer T> ? T : never;

/** A named group of clusters that replicate among themselves. States membership, never roles. */
export type Deployment = Readonly<Omit<ParsedDeployment, 'clusters'>> & {
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** Holders and stand-by holders on the roster whose key is not listed yet. */
  readonly notJoined: readonly string[];
};

/** Everything that the worker knows about the site. */
export interface Inventory extends Pick<ParsedInventory, 'temporal' | 'workers' | 'triggers'> {
  readonly people: ReadonlyMap<string, Person>;
  readonly deployments: ReadonlyMap<string, Deployment>;
}
