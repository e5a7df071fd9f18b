import type { RunbookName } from '../../src/contracts/names';
import { ROUTES } from '../../src/simulator/router';
import type { Credential } from '../../src/simulator/routes/route';
import type { EndpointRow } from './endpoint-page';
import { INTERFACE_ROWS } from './endpoint-page';

/** The inventory's default marker; the one beside it is written when a cluster has become primary. */
const MARKER = 'kv/runbooks-marker';

/** One path of a policy. */
interface Grant {
  readonly path: string;
  readonly capabilities: readonly string[];
}

/** One policy of docs/operations.md. */
export interface LeastPrivilege {
  readonly name: string;
  /** For whom, and how the token is made. */
  readonly about: string;
  readonly grants: readonly Grant[];
}

/** The calls of the client outside of the table that need a token. A test sees that no activity makes another one. */
export const SYS_GRANTS: Readonly<Record<string, readonly Grant[]>> = {
  'sys.lookupSelf': [{ path: 'auth/token/lookup-self', capabilities: ['read'] }],
  'sys.capabilitiesSelf': [{ path: 'sys/capabilities-self', capabilities: ['update'] }],
  'sys.auditDevices': [{ path: 'sys/audit', capabilities: ['read', 'sudo'] }],
  'sys.licenceStatus': [{ path: 'sys/license/status', capabilities: ['read'] }],
  'sys.autoSnapshotStatus': [{ path: 'sys/storage/raft/snapshot-auto/status/+', capabilities: ['read'] }],
  'keyValue.read': [{ path: MARKER, capabilities: ['read'] }],
  'keyValue.write': [MARKER, `${MARKER}-after`].map((path) => ({ path, capabilities: ['create', 'update'] })),
};

/** The names and the place that the inventory has for batch tokens where it says nothing else. */
const BATCH_ROLE = 'runbooks-batch';
const BATCH_PLACE = 'secret/data/runbooks/batch-token';

/** Calls for batch tokens, which need rights that no other runbook has any use for. */
export const BATCH_GRANTS: Readonly<Record<string, readonly Grant[]>> = {
  'sys.createBatchToken': [{ path: `auth/token/create/${BATCH_ROLE}`, capabilities: ['update'] }],
  'sys.tokenRole': [{ path: `auth/token/roles/${BATCH_ROLE}`, capabilities: ['read'] }],
  'sys.policy': [{ path: `sys/policies/acl/${BATCH_ROLE}`, capabilities: ['read'] }],
};
/** Where a rotation makes the role and the policy itself. */
export const BATCH_ROLE_GRANTS: Readonly<Record<string, readonly Grant[]>> = {
  'sys.writeBatchTokenRole': [{ path: `auth/token/roles/${BATCH_ROLE}`, capabilities: ['create'] }],
  'sys.writePolicy': [{ path: `sys/policies/acl/${BATCH_ROLE}`, capabilities: ['create', 'update'] }],
};
/** On the other deployment that keeps the token. */
export const BATCH_SINK_GRANTS: Readonly<Record<string, readonly Grant[]>> = {
  'keyValue.readSecret': [{ path: BATCH_PLACE, capabilities: ['read'] }],
  'keyValue.writeSecret': [{ path: BATCH_PLACE, capabilities: ['create', 'update'] }],
};

/** What runbooks that only move the primary never call. */
const NOT_FOR_CHANGES_OF_PRIMARY = [
  'dr.primary.enable',
  'dr.primary.disable',
  'dr.secondary.enable',
  'performance.primary.enable',
  'performance.primary.demote',
  'performance.primary.disable',
  'performance.primary.pathsFilter.delete',
  'performance.secondary.enable',
  'performance.secondary.promote',
  'performance.secondary.disable',
];

type Allows = (call: string) => boolean;
const everything: Allows = () => true;
const changesOfPrimary: Allows = (call) => !NOT_FOR_CHANGES_OF_PRIMARY.includes(call);
const observation: Allows = (call) => call === 'performance.primary.pathsFilter.read' || /^sys\./.test(call);

/** Runbooks for which a policy is enough: docs/endpoints.md must have none of them at a call that it does not allow. */
export const ENOUGH_FOR: readonly { readonly runbooks: readonly RunbookName[]; readonly allows: Allows }[] = [
  { runbooks: ['drSwitchover', 'drFailover', 'drRejoin', 'readiness'], allows: changesOfPrimary },
  { runbooks: ['readiness', 'walSampler'], allows: observation },
];

/** The policies, derived from the table of endpoints and from what each route of the service asks for. */
export function leastPrivilegePolicies(): readonly LeastPrivilege[] {
  const ordinary: readonly Credential[] = ['token', 'sudo'];
  return [
    {
      name: 'runbooks-switchover',
      about:
        'For `credential` of every cluster, where the runbooks only move the primary: `drSwitchover`, `drFailover`, `drRejoin` and `readiness`. A service token that outlives the longest run, such as `vault token create -orphan -policy=runbooks-switchover -period=24h`. DR secondaries share the tokens of their primary; a performance secondary needs one of its own.',
      grants: grantsFor(changesOfPrimary, ordinary),
    },
    {
      name: 'runbooks-all',
      about: 'For `credential` of every cluster, where every runbook is used.',
      grants: grantsFor(everything, ordinary),
    },
    {
      name: 'runbooks-batch',
      about:
        'For `batchToken`: authorises DR operations instead of an operation token, and the calls of a ceremony from version 2.0. By a token role with `orphan=true` and `token_type=batch`, with a life that is longer than a run and as short as you can renew it: a batch token cannot be revoked. Emptying this policy takes every right away from it.',
      grants: merged([
        ...grantsFor(everything, ['operation-token', 'generation']),
        ...always(['sys.lookupSelf', 'sys.capabilitiesSelf']),
      ]),
    },
    {
      name: 'runbooks-ceremony',
      about:
        'For `ceremonyCredential`, from version 2.0 of the service: an orphan batch token that may hold a ceremony on a DR secondary and nothing else.',
      grants: grantsFor(everything, ['generation']),
    },
    {
      name: 'runbooks-batch-rotation',
      about:
        'Beside another policy of `credential` on the DR primary, where `batchTokenRotation` runs: makes tokens by the role `runbooks-batch`, and may read the role and `runbooks-batch`. Put the names of the inventory in the place of `runbooks-batch` where they differ. It cannot widen what the tokens may do.',
      grants: merged([...always(['sys.lookupSelf', 'sys.capabilitiesSelf']), ...Object.values(BATCH_GRANTS).flat()]),
    },
    {
      name: 'runbooks-batch-setup',
      about:
        'Beside the one above, and only for the one run with `createRoleAndPolicy`: a person who may write a policy decides what the tokens may do. Better: a person writes policy and role once, and nobody has this.',
      grants: merged(Object.values(BATCH_ROLE_GRANTS).flat()),
    },
    {
      name: 'runbooks-batch-sink',
      about:
        "For `credential` of the *other* deployment that keeps a batch token (`sink: { keyValue: ... }`), here at `secret/data/runbooks/batch-token` of a version 2 engine. Anybody who may read there may carry out DR operations: no people's tokens.",
      grants: merged([...always(['sys.capabilitiesSelf']), ...Object.values(BATCH_SINK_GRANTS).flat()]),
    },
    {
      name: 'runbooks-readiness',
      about:
        'For `credential` on a worker that runs `readiness`, `walSampler` and nothing else. `credential-rights` is red there, and says truly that this token moves nothing.',
      grants: grantsFor(observation, ordinary),
    },
  ];
}

function always(calls: readonly string[]): readonly Grant[] {
  return calls.flatMap((call) => SYS_GRANTS[call] ?? []);
}

/** What calls need of one kind of credential. */
function grantsFor(allows: Allows, credentials: readonly Credential[]): readonly Grant[] {
  const fromTable = INTERFACE_ROWS.filter((row) => allows(row.method) && credentials.includes(credentialOf(row))).map(
    (row) => ({ path: pathOf(row).replace(/:\w+/g, '+'), capabilities: capabilitiesOf(row) }),
  );
  const beside = credentials.includes('token') ? Object.keys(SYS_GRANTS).filter(allows) : [];
  return merged([...fromTable, ...always(beside)]);
}

function pathOf({ endpoint }: EndpointRow): string {
  return endpoint.replace(/^\w+ \//, '');
}

/** What a route of the simulated service asks for: the table of facts 1.7. */
export function credentialOf(row: EndpointRow): Credential {
  const [method = ''] = row.endpoint.split(' ');
  const route = ROUTES.find(
    (each) => each.method === method && each.path.replace(/:\w+/g, ':id') === pathOf(row).replace(/:\w+/g, ':id'),
  );
  if (!route) throw new Error(`the simulated service has no route ${row.endpoint}`);
  return route.credential;
}

function capabilitiesOf(row: EndpointRow): string[] {
  const sudo = credentialOf(row) === 'sudo' ? ['sudo'] : [];
  if (row.endpoint.startsWith('GET')) return ['read', ...sudo];
  if (row.endpoint.startsWith('DELETE')) return ['delete', ...sudo];
  return [...(row.endpoint.endsWith(':id') ? ['create'] : []), 'update', ...sudo];
}

const ORDER = ['create', 'read', 'update', 'delete', 'sudo'];

/** One rule for each path, in the order of the paths. */
function merged(grants: readonly Grant[]): Grant[] {
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

/** A policy in HCL, as `vault policy write` takes it. */
export function hclOf({ grants }: LeastPrivilege): string {
  return grants
    .map(
      ({ path, capabilities }) =>
        `path "${path}" { capabilities = [${capabilities.map((each) => `"${each}"`).join(', ')}] }`,
    )
    .join('\n');
}

export const POLICIES_BEGIN = '<!-- policies: generated, see test/least-privilege.test.ts -->';
export const POLICIES_END = '<!-- policies: end -->';

/** The part of docs/operations.md as it must be. */
export function policiesPart(): string {
  return [
    POLICIES_BEGIN,
    '',
    '## Least-privilege policies',
    '',
    'One policy for each kind of credential of the inventory. They are derived from the [table of endpoints](endpoints.md); `UPDATE_DOCS=1 npx jest test/least-privilege.test.ts` regenerates this part, and a test carries out a switchover with tokens that have exactly these policies. Write them on the DR primary (they reach its secondaries with everything else). Where the inventory has another `marker.path`, put it in the place of `kv/runbooks-marker`.',
    '',
    ...leastPrivilegePolicies().flatMap((policy) => [
      `### \`${policy.name}\``,
      '',
      policy.about,
      '',
      '```hcl',
      hclOf(policy),
      '```',
      '',
    ]),
    POLICIES_END,
  ].join('\n');
}
