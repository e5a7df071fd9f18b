import type { RunbookName } from '../../src/contracts/names';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import type { Deployment } from '../../src/inventory';
import { ENDPOINTS } from '../../src/vault';
import type { Rights, PolicyGrant } from '../checks/rights';
import { hclOf } from '../checks/rights';

/* The minimum rights of each kind of credential in the inventory: `runbook policy`. */

/** The kinds of credential for which a policy is printed, by their names in the inventory. */
export const POLICY_KINDS = ['credential', 'batchToken', 'ceremonyCredential'] as const;
export type PolicyKind = (typeof POLICY_KINDS)[number];

/** What a call of the client requires besides a token with the capability on its path (facts 1.7). */
export type Asked = 'none' | 'operation-token' | 'generation' | 'sudo' | 'token';
const ASKED: readonly (readonly [Asked, RegExp])[] = [
  ['none', /^sys\/(health|leader|seal-status|replication\/(.+\/)?status)$/],
  ['generation', /\/generate-operation-token\/|^sys\/generate-root\//],
  ['operation-token', /dr\/secondary\/(disable|promote|update-primary|reindex|merkle-check|operation-token\/delete)$/],
  ['sudo', /\/secondary-token$|^sys\/audit$|^sys\/auth\//],
];

/** A call in the client's table whose path is fixed except for parameters. */
export interface Call {
  /** For example `dr.primary.demote`. */
  readonly name: string;
  readonly method: string;
  readonly path: string;
}

function callsIn(table: object, prefix: string): readonly Call[] {
  return Object.entries(table).flatMap(([member, entry]: [string, object]) => {
    const name = `${prefix}${member}`;
    if (!('method' in entry && 'path' in entry)) return callsIn(entry, `${name}.`);
    return typeof entry.path === 'string' ? [{ name, method: String(entry.method), path: entry.path }] : [];
  });
}

const CALLS = callsIn(ENDPOINTS, '');

export function askedBy({ path }: Pick<Call, 'path'>): Asked {
  return ASKED.find(([, pattern]) => pattern.test(path))?.[0] ?? 'token';
}

const JOIN_DR = ['dr.primary.secondaryToken', 'dr.primary.revokeSecondary', 'dr.secondary.generatePublicKey'];
const FILTERS = [
  ...['read', 'write'].map((each) => `performance.primary.pathsFilter.${each}`),
  ...['primary', 'secondary'].map((side) => `performance.${side}.dynamicFilter`),
];
const JOIN_PERFORMANCE = [
  'performance.primary.secondaryToken',
  'performance.primary.revokeSecondary',
  'performance.secondary.generatePublicKey',
  ...FILTERS,
];
const REPOINT = [...JOIN_PERFORMANCE, 'performance.secondary.updatePrimary'];
const MARKER = ['keyValue.read', 'keyValue.write'];
/** Only if the inventory asks for it, and through the API. */
const SNAPSHOT = 'sys.raftSnapshot';
/** If the inventory says so, a quota of the run stops the clients. Leftover quotas are always searched for. */
const QUOTA = [
  ...['quotaConfig', 'writeQuotaConfig', 'rateLimitQuotas'],
  ...['rateLimitQuota', 'createRateLimitQuota', 'deleteRateLimitQuota'],
].map((each) => `sys.${each}`);
/** They read what the token is, and what it may do. */
const LOOK_UPS = ['sys.lookupSelf', 'sys.capabilitiesSelf'];
/** For every runbook: the token of a login is renewed, and revoked when the worker ends. */
const OF_ALL = [...LOOK_UPS, 'sys.renewSelf', 'sys.revokeSelf'];

/**
 * What each runbook calls with `credential`. A test checks that no call recorded in docs/endpoints.md is missing here.
 */
export const CALLS_OF: Readonly<Record<RunbookName, readonly string[]>> = {
  drSwitchover: ['dr.primary.demote', ...JOIN_DR, ...REPOINT, ...MARKER, ...QUOTA, SNAPSHOT],
  drFailover: [...JOIN_DR, ...REPOINT, ...MARKER, ...QUOTA],
  drRejoin: ['dr.primary.demote', ...JOIN_DR, ...MARKER, SNAPSHOT],
  performanceRejoin: ['performance.primary.demote', ...REPOINT, SNAPSHOT],
  drSecondaryOnboarding: ['dr.primary.enable', ...JOIN_DR, 'dr.secondary.enable', ...MARKER, SNAPSHOT],
  performanceSecondaryOnboarding: [
    ...['performance.primary.enable', 'performance.secondary.enable'],
    ...JOIN_PERFORMANCE,
    ...MARKER,
    SNAPSHOT,
  ],
  performancePromotion: [
    'performance.primary.demote',
    'performance.secondary.promote',
    ...REPOINT,
    ...MARKER,
    ...QUOTA,
    SNAPSHOT,
  ],
  secondaryRepointing: [...JOIN_DR, ...REPOINT],
  filterReconciliation: [...FILTERS, 'performance.primary.pathsFilter.delete'],
  secondaryDecommission: [
    ...['dr', 'performance'].map((kind) => `${kind}.primary.revokeSecondary`),
    ...['performance.secondary.disable', 'performance.secondary.updatePrimary', 'performance.primary.pathsFilter.read'],
  ],
  primaryEnablement: ['dr.primary.enable', 'performance.primary.enable', ...MARKER],
  replicationTeardown: ['dr.primary.disable', 'performance.primary.disable', 'performance.secondary.disable'],
  drReindex: [],
  operationTokenDisposal: [],
  operationTokenCeremony: [],
  rootTokenCeremony: ['readAttempt', 'startAttempt', 'cancelAttempt', 'update'].map(
    (each) => `sys.generateRoot.${each}`,
  ),
  ceremonyRehearsal: [],
  batchTokenRotation: ['sys.createBatchToken'],
  merkleCheck: [],
  readiness: [
    ...['sys.auditDevices', 'sys.autopilotState', 'sys.rateLimitQuotas'],
    'performance.primary.pathsFilter.read',
    ...MARKER,
  ],
  walSampler: [],
  deploymentStatus: [],
};

/** They set up, wipe or end replication, or generate a root token: not in the everyday policy unless requested. */
const ON_REQUEST: readonly RunbookName[] = [
  'drSecondaryOnboarding',
  'performanceSecondaryOnboarding',
  'secondaryDecommission',
  'primaryEnablement',
  'replicationTeardown',
  'rootTokenCeremony',
];

/** In a deployment with only one DR set, these find no performance replication; other runbooks may set it up. */
const EXISTING_REPLICATION_ONLY: readonly RunbookName[] = [
  'drSwitchover',
  'drFailover',
  'drRejoin',
  'secondaryRepointing',
  'readiness',
];
/** Not needed every day in a deployment with one DR set. */
const OF_SEVERAL_SETS = /^performance|^filter/;

/** The runbooks that a policy covers by default. */
export function runbooksOfEveryDay({ batchTokens, drSets }: Deployment): readonly RunbookName[] {
  const rotates = Object.keys(batchTokens).length > 0;
  const several = drSets.size > 1;
  return RUNBOOK_NAMES.filter(
    (name) =>
      !ON_REQUEST.includes(name) &&
      (rotates || name !== 'batchTokenRotation') &&
      (several || !OF_SEVERAL_SETS.test(name)),
  );
}

/**
 * The policy of one kind of credential of a deployment, for exactly these runbooks.
 *
 * @param runbooks - used for `credential` only; defaults to the everyday runbooks
 */
export function policyFor(
  deployment: Deployment,
  kind: PolicyKind = 'credential',
  runbooks: readonly RunbookName[] = runbooksOfEveryDay(deployment),
) {
  const rotations = Object.values(deployment.batchTokens);
  switch (kind) {
    case 'credential':
      return {
        name: 'runbooks',
        about: [`For "credential" of the clusters of ${deployment.name}. Runbooks: ${runbooks.join(', ') || 'none'}.`],
        grants: merged(grantsOf(deployment, runbooks)),
      };
    case 'batchToken':
      return {
        name: rotations[0]?.policy ?? 'runbooks-batch',
        about: [
          'For "batchToken": DR operations, and from version 2.0 the calls of a ceremony, by an orphan batch token.',
        ],
        grants: BATCH_TOKEN_GRANTS,
      };
    case 'ceremonyCredential':
      return {
        name: 'runbooks-ceremony',
        about: [
          'For "ceremonyCredential": an orphan batch token that holds a ceremony on a DR secondary of 2.0 or newer.',
        ],
        grants: merged(drCalls('generation').map((call) => grant(call))),
      };
  }
}

function grantsOf(deployment: Deployment, runbooks: readonly RunbookName[]): readonly PolicyGrant[] {
  const alone = deployment.drSets.size === 1;
  const callsOf = (name: RunbookName) =>
    alone && EXISTING_REPLICATION_ONLY.includes(name)
      ? CALLS_OF[name].filter((call) => !call.startsWith('performance.'))
      : CALLS_OF[name];
  const wanted = [...new Set([...OF_ALL, ...runbooks.flatMap(callsOf)])];
  return wanted.flatMap((name) => grantsOfCall(deployment, name));
}

function grantsOfCall(deployment: Deployment, name: string): readonly PolicyGrant[] {
  const { marker, batchTokens, snapshot, quiesce } = deployment;
  if (name === SNAPSHOT && (snapshot?.to ?? 'hook') === 'hook') return [];
  const rotations = Object.values(batchTokens);
  switch (name) {
    case 'keyValue.read':
    case 'keyValue.write': {
      const capabilities = name === 'keyValue.read' ? ['read'] : ['create', 'update'];
      const paths = [marker.path, `${marker.path}-after`].flatMap(markerPaths);
      return paths.map((path) => ({ path, capabilities }));
    }
    case 'performance.primary.pathsFilter.write':
      return [...CALLS.filter((call) => call.name === name).map(grant), BELOW_ANY_MOUNT];
    case 'sys.createBatchToken':
      return rotations.map(({ role }) => ({ path: `auth/token/create/${role}`, capabilities: ['update'] }));
    case 'sys.rateLimitQuota':
    case 'sys.createRateLimitQuota':
    case 'sys.deleteRateLimitQuota':
      return quiesce.by !== 'quota' ? [] : [{ path: 'sys/quotas/rate-limit/runbooks-*', capabilities: RUN_QUOTA }];
    case 'sys.quotaConfig':
    case 'sys.writeQuotaConfig':
      return quiesce.by !== 'quota' ? [] : [{ path: 'sys/quotas/config', capabilities: ['read', 'update'] }];
    default:
      return CALLS.filter((call) => call.name === name).map(grant);
  }
}

/**
 * A right that grants access to nothing, below every mount of up to four segments. Without any right below a mount, the
 * service does not report what is mounted at a path of a filter.
 */
const BELOW_ANY_MOUNT: PolicyGrant = { path: '+/+/+/+/runbooks-preflight', capabilities: ['read'] };

/** The path for a version 1 engine, and the paths for a version 2 engine, wherever its mount ends. */
export function markerPaths(path: string): readonly string[] {
  const segments = path.split('/');
  const versioned = segments.slice(1).map((_, index) => segments.toSpliced(index + 1, 0, 'data').join('/'));
  return [path, ...versioned];
}

function drCalls(...asked: readonly Asked[]): readonly Call[] {
  return CALLS.filter((call) => call.name.startsWith('dr.') && asked.includes(askedBy(call)));
}

function grant(call: Pick<Call, 'method' | 'path'>): PolicyGrant {
  const { method } = call;
  const [path = '', query] = call.path.split('?');
  const sudo = askedBy(call) === 'sudo' ? ['sudo'] : [];
  // If the object may not exist yet, its first write creates it.
  const more = /^(?!sys\/|auth\/)|\/paths-filter\//.test(path) ? ['create', 'update'] : ['update'];
  // A read by POST needs the same capabilities as a change.
  const reads = query === 'list=true' ? ['list'] : ['read'];
  const capabilities = method === 'GET' ? reads : method === 'DELETE' ? ['delete'] : more;
  return { path: path.replace(/:\w+/g, '+'), capabilities: [...capabilities, ...sudo] };
}

const RUN_QUOTA = ['create', 'read', 'update', 'delete'];
const ORDER = ['create', 'read', 'update', 'delete', 'list', 'sudo'];

/** One rule for each path, in the order of the paths. */
function merged(grants: readonly PolicyGrant[]): PolicyGrant[] {
  const byPath = new Map<string, Set<string>>();
  for (const { path, capabilities } of grants)
    byPath.set(path, new Set([...(byPath.get(path) ?? []), ...capabilities]));
  return [...byPath]
    .map(([path, capabilities]) => ({
      path,
      capabilities: [...capabilities].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b)),
    }))
    .sort((a, b) => (a.path < b.path ? -1 : 1));
}

/** The complete rights of a batch token for DR operations. The policy command writes exactly these. */
export const BATCH_TOKEN_GRANTS: readonly PolicyGrant[] = merged(
  [...drCalls('operation-token', 'generation'), ...CALLS.filter(({ name }) => LOOK_UPS.includes(name))].map(grant),
);

/** Without these a batch token is useless: promotion, and re-pointing the others. */
const ESSENTIAL = ['dr.secondary.promote', 'dr.secondary.updatePrimary'];
/** From version 2.0 of the service: with these the batch token opens the calls of a ceremony too. */
const CEREMONY_CALLS = ['readAttempt', 'startAttempt', 'update'].map(
  (each) => `dr.secondary.generateOperationToken.${each}`,
);

/** The rights that a batch token must have to be stored. */
export function neededGrants(ceremonyCalls: boolean): readonly PolicyGrant[] {
  const names = [...ESSENTIAL, ...(ceremonyCalls ? CEREMONY_CALLS : [])];
  return merged(CALLS.filter(({ name }) => names.includes(name)).map(grant));
}

/** Grants by path, in the form that the checks of a credential use. */
export function rightsIn(grants: readonly PolicyGrant[]): Rights {
  return Object.fromEntries(grants.map(({ path, capabilities }) => [path, capabilities]));
}

/** The command that writes the whole policy. One line: the Web UI joins the lines of a command. */
export function policyCommand(policy: string): string {
  return `printf '${hclOf(BATCH_TOKEN_GRANTS).replaceAll('\n', '\\n')}\\n' | vault policy write ${policy} -`;
}

/**
 * The command that creates the token role. A role for batch tokens cannot cap their lifetime (the service refuses
 * `token_explicit_max_ttl` there): the lifetime is requested with each token, and proven on it.
 */
export function roleCommand(role: string, policy: string): string {
  return `vault write auth/token/roles/${role} allowed_policies=${policy} orphan=true renewable=false token_type=batch`;
}

/** The policy line that allows one call. */
export function ruleFor(method: string, path: string): string {
  return hclOf([grant({ method, path })]);
}

/** One policy as a file: its purpose, and its rules. */
export function policyText({ about, grants }: Pick<ReturnType<typeof policyFor>, 'about' | 'grants'>): string {
  return [...about.map((line) => `# ${line}`), hclOf(grants)].join('\n');
}
