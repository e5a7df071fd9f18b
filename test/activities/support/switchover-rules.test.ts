/** The pure rules of step 0: each says yes and no, with what was observed and what is needed. */
import { planDigest } from '../../../activities/approvals/planning';
import type { CredentialFacts } from '../../../activities/checks/credentials';
import { switchoverChecks } from '../../../activities/plans/dr-switchover';
import type { SwitchoverObserved } from '../../../activities/plans/dr-switchover';
import type { CeremonyEntry, TokenFacts } from '../../../activities/checks/tokens';
import { compareVersions } from '../../../activities/checks/versions';
import type { ClusterObservation, ReplicationObservation } from '../../../src/contracts/observations';
import type { Check } from '../../../src/contracts/plan';
import { drSwitchoverInput } from '../../../src/contracts/runbook-inputs';
import type { Deployment } from '../../../src/inventory';

const MARKER = 'kv/runbooks-marker';
const DEMOTE = 'sys/replication/dr/primary/demote';
const SECONDARY_TOKEN = 'sys/replication/dr/primary/secondary-token';
const PROMOTE = 'sys/replication/dr/secondary/promote';
const UPDATE_PRIMARY = 'sys/replication/dr/secondary/update-primary';
const ATTEMPT = 'sys/replication/dr/secondary/generate-operation-token/attempt';

const peer = { id: 'n', connected: true, clusterAddress: 'https://a:8201', heartbeatAgeMs: 1_000 };
const node = (more: object = {}) => ({
  address: 'https://n:8200',
  reachable: true,
  initialized: true,
  sealed: false,
  version: '1.21.4+ent',
  ...more,
});

function cluster(name: string, dr: Partial<ReplicationObservation>, more: object = {}): ClusterObservation {
  return {
    cluster: name,
    at: 1,
    reachable: true,
    nodes: [node()],
    activeNode: 'https://n:8200',
    clusterId: `id-${name}`,
    version: '1.21.4+ent',
    dr: { mode: 'disabled', peers: [], ...dr },
    performance: { mode: 'disabled', peers: [] },
    ...more,
  };
}
const PRIMARY = { mode: 'primary', state: 'running', setId: 's', lastWal: '100', merkleRoot: 'r' };
const SECONDARY = {
  mode: 'secondary',
  state: 'stream-wals',
  setId: 's',
  lastRemoteWal: '100',
  merkleRoot: 'r',
  peers: [peer],
};
const from = (dr: Partial<ReplicationObservation> = {}, more: object = {}) =>
  cluster('east', { ...PRIMARY, ...dr }, more);
const to = (dr: Partial<ReplicationObservation> = {}, more: object = {}) =>
  cluster('west', { ...SECONDARY, ...dr }, { attempt: { started: false, progress: 0, required: 3 }, ...more });

const CREDENTIAL: CredentialFacts = {
  usable: true,
  capabilities: { [DEMOTE]: ['update'], [SECONDARY_TOKEN]: ['sudo', 'update'], [MARKER]: ['create'] },
};
const BATCH: CredentialFacts = {
  usable: true,
  type: 'batch',
  orphan: true,
  ttlSeconds: 7_200,
  capabilities: { [PROMOTE]: ['update'], [UPDATE_PRIMARY]: ['update'] },
};
const deployment = {
  limits: {
    lagWalEntries: 10,
    heartbeatAgeMs: 5_000,
    coolDownMs: 1_800_000,
  },
  marker: { path: MARKER },
  ceremony: { holders: ['ada', 'bert', 'cleo'], standBy: [], terms: [], groups: [], batchMarginMs: 1_800_000 },
  shareGroups: [],
} as unknown as Deployment;

const NOW = Date.parse('2026-11-21T12:00:00Z');

function world(more: Partial<SwitchoverObserved> = {}): SwitchoverObserved {
  return {
    input: drSwitchoverInput.parse({ deployment: 'payments', to: 'west', reason: 'a test' }),
    deployment,
    from: from(),
    to: to(),
    others: [],
    performanceSecondaries: [],
    credential: CREDENTIAL,
    tokenSource: 'ceremony',
    tokens: { ceremony: { access: 'not-needed' } },
    otherCeremonies: [],
    changes: {},
    now: NOW,
    ...more,
  };
}
const change = (minutesAgo: number) => ({
  runbook: 'drFailover',
  runId: 'a-run',
  cluster: 'west',
  at: NOW - minutesAgo * 60_000,
});
const ceremony = (access: CeremonyEntry['access']): Partial<SwitchoverObserved> => ({
  tokens: { ceremony: { access } },
});
const credential = (more: Partial<CredentialFacts>) => ({ credential: { ...CREDENTIAL, ...more } });
const batch = (
  more: Partial<CredentialFacts>,
  batchTaken: TokenFacts['batchTaken'] = 'taken',
): Partial<SwitchoverObserved> => ({
  tokenSource: 'batch',
  tokens: { batch: { ...BATCH, ...more }, batchTaken },
});
const acknowledged = drSwitchoverInput.parse({
  deployment: 'payments',
  to: 'west',
  reason: 'a test',
  acknowledgeNewerSecondary: true,
});
const version = (text: string) => ({ nodes: [node({ version: text })], version: text });

const COOL_DOWN = 'cool-down since the last change of the primary';

/** Check, the world in which it is not ok, verdict, and a part of what was observed. */
const NOT_OK: readonly (readonly [string, Partial<SwitchoverObserved>, Check['verdict'], string])[] = [
  [COOL_DOWN, { changes: { last: change(29) } }, 'fail', 'drFailover 29 min ago (run a-run)'],
  [COOL_DOWN, { changes: undefined }, 'not-checkable', 'the record does not tell'],
  [
    'every node answers',
    { from: from({}, { nodes: [node(), node({ reachable: false, error: 'UNREACHABLE: x' })] }) },
    'fail',
    'UNREACHABLE',
  ],
  ['every node is unsealed', { to: to({}, { nodes: [node(), node({ sealed: true })] }) }, 'fail', 'sealed'],
  [
    'every node is unsealed',
    { to: to({}, { nodes: [node({ initialized: false, sealed: undefined })] }) },
    'fail',
    'not read',
  ],
  [
    'one active node',
    { to: to({}, { reachable: false, activeNode: undefined, error: 'NO_ACTIVE_NODE: none' }) },
    'fail',
    'NO_ACTIVE_NODE',
  ],
  ['DR primary', { from: from({ mode: 'secondary' }) }, 'fail', 'secondary'],
  ['DR primary', { from: from({ state: 'idle' }) }, 'fail', 'idle'],
  ['DR primary', { from: from({}, { dr: undefined }) }, 'fail', 'not readable'],
  ['DR secondary, streaming', { to: to({ mode: 'primary' }) }, 'fail', 'primary'],
  ['DR secondary, streaming', { to: to({ state: 'merkle-diff' }) }, 'fail', 'merkle-diff'],
  ['same DR set', { to: to({ setId: 'another' }) }, 'fail', 'another'],
  ['same DR set', { from: from({ setId: undefined }), to: to({ setId: undefined }) }, 'fail', 'none'],
  ['one DR primary', { to: to({ mode: 'primary' }) }, 'fail', 'east, west'],
  ['one DR primary', { others: [cluster('south', PRIMARY)] }, 'fail', 'east, south'],
  ['one DR primary', { from: from({ mode: 'secondary' }) }, 'fail', 'none'],
  [
    'connection alive by heartbeat',
    { to: to({ peers: [{ ...peer, heartbeatAgeMs: 5_001 }] }) },
    'fail',
    'connected, heartbeat 5.0 s old',
  ],
  ['connection alive by heartbeat', { to: to({ peers: [{ ...peer, connected: false }] }) }, 'fail', 'disconnected'],
  ['connection alive by heartbeat', { to: to({ peers: [] }) }, 'fail', 'no peer told'],
  ['replication lag', { to: to({ lastRemoteWal: '89' }) }, 'fail', '11 WAL entries'],
  [
    'replication lag',
    { from: from({ lastWal: '18446744073709551615' }), to: to({ lastRemoteWal: '18446744073709551604' }) },
    'fail',
    '11 WAL entries',
  ],
  ['replication lag', { to: to({ lastRemoteWal: '0', merkleRoot: 'other' }) }, 'fail', 'last remote WAL 0'],
  [
    'replication lag',
    { from: from({ lastWal: undefined }), to: to({ merkleRoot: undefined }) },
    'fail',
    'last WAL not told',
  ],
  ['versions in order', { from: from({}, version('1.21.5+ent')) }, 'fail', '1.21.4+ent'],
  ['versions in order', { to: to({}, version('2.0.0+ent')) }, 'fail', '2.0.0+ent'],
  [
    'versions in order',
    { to: to({}, { nodes: [node(), node({ version: '2.0.0+ent' })] }) },
    'fail',
    '1.21.4+ent, 2.0.0+ent',
  ],
  ['versions in order', { from: from({}, { nodes: [node({ version: undefined })] }) }, 'fail', 'not told'],
  ['no reindex under way', { to: to({ reindexInProgress: true }) }, 'fail', 'in progress'],
  ['Merkle tree not corrupted', { from: from({ corruptedMerkleTree: true }) }, 'fail', 'corrupted'],
  [
    'generation slot free',
    { to: to({}, { attempt: { started: true, fingerprint: 'theirs', progress: 1, required: 3 } }) },
    'fail',
    'somebody else with key theirs, progress 1 of 3',
  ],
  [
    'generation slot free',
    { to: to({}, { attempt: { started: true, progress: 0, required: 3 } }) },
    'fail',
    'somebody else with a one-time password, progress 0 of 3',
  ],
  [
    'generation slot free',
    { to: to({}, { attempt: { started: true, progress: 0, required: 3 } }), ownFingerprint: 'ours' },
    'fail',
    'somebody else',
  ],
  ['generation slot free', { to: to({}, { attempt: undefined }) }, 'not-checkable', 'not readable'],
  ['credential works', credential({ usable: false, error: 'PERMISSION_DENIED' }), 'fail', 'PERMISSION_DENIED'],
  ['credential works', credential({ usable: false, error: 'AUDIT_DEVICE_BLOCKED' }), 'fail', 'AUDIT_DEVICE_BLOCKED'],
  ['credential lives long enough', credential({ ttlSeconds: 1_799 }), 'fail', '1799 s left'],
  [`credential may call ${DEMOTE}`, credential({ capabilities: {} }), 'fail', 'none'],
  [
    `credential may call ${SECONDARY_TOKEN}`,
    credential({ capabilities: { ...CREDENTIAL.capabilities, [SECONDARY_TOKEN]: ['update'] } }),
    'fail',
    'update',
  ],
  [
    `credential may call ${MARKER}`,
    credential({ capabilities: { ...CREDENTIAL.capabilities, [MARKER]: ['read'] } }),
    'fail',
    'read',
  ],
  [
    'enough key holders',
    { to: to({}, { attempt: { started: false, progress: 0, required: 4 } }) },
    'fail',
    '3 holders',
  ],
  ['enough key holders', { to: to({}, { attempt: undefined }) }, 'not-checkable', 'threshold not readable'],
  ['ceremony calls allowed', ceremony('refused'), 'warn', 'refused'],
  ['ceremony calls allowed', ceremony('no-credential'), 'warn', 'no-credential'],
  ['ceremony calls allowed', ceremony('open'), 'warn', 'open to everybody'],
  [
    'batch token taken by the secondary',
    {
      ...batch({ capabilities: { ...BATCH.capabilities, [ATTEMPT]: ['read'] } }, 'refused'),
      to: to({}, version('2.0.3+ent')),
    },
    'fail',
    'refused',
  ],
  ['batch token taken by the secondary', batch({}, 'not-checkable'), 'not-checkable', 'before version 2.0'],
  [
    'batch token taken by the secondary',
    { ...batch({}, 'refused'), to: to({}, version('2.0.3+ent')) },
    'not-checkable',
    'its policy does not let it',
  ],
  ['batch token', batch({ usable: false, error: 'TOKEN_SOURCE_UNAVAILABLE' }), 'fail', 'TOKEN_SOURCE_UNAVAILABLE'],
  ['batch token', batch({ type: 'service' }), 'fail', 'service'],
  ['batch token', batch({ orphan: false }), 'fail', 'not orphan'],
  ['batch token lives long enough', batch({ ttlSeconds: 1_000 }), 'fail', '1000 s left'],
  ['batch token may promote and update-primary', batch({ capabilities: { [PROMOTE]: ['update'] } }), 'fail', 'none'],
  [
    'other clusters can be read',
    { others: [cluster('south', {}, { reachable: false, error: 'UNREACHABLE: x' })] },
    'warn',
    'UNREACHABLE',
  ],
];

it('everything in order: no verdict fails or warns', () => {
  for (const each of [world(), world(batch({}))])
    expect(switchoverChecks(each).filter(({ verdict }) => verdict === 'fail' || verdict === 'warn')).toEqual([]);
});

it.each(NOT_OK)('%s is not ok (case %#)', (name, more, verdict, observed) => {
  const judged = switchoverChecks(world(more)).filter((each) => each.name === name && each.verdict !== 'ok');
  expect(judged).toHaveLength(1);
  expect(judged[0]).toMatchObject({ verdict, observed: expect.stringContaining(observed) as string });
  expect(judged[0]?.needed).toBeTruthy();
  if (verdict !== 'not-checkable') expect(judged[0]?.next).toBeTruthy();
});

it('every precondition is in the table of those that can fail', () => {
  const names = [world(), world(batch({}))].flatMap((each) => switchoverChecks(each).map(({ name }) => name));
  const tabled = new Set<string>(NOT_OK.map(([name]) => name));
  expect([...new Set(names)].filter((name) => !tabled.has(name))).toEqual(['exit: a token for the way back']);
});

it.each([
  [
    'our own attempt in the slot',
    {
      to: to({}, { attempt: { started: true, fingerprint: 'ours', progress: 1, required: 3 } }),
      ownFingerprint: 'ours',
    },
  ],
  ['lag just at the limit', { to: to({ lastRemoteWal: '90' }) }],
  ['a secondary ahead of what the primary said a moment before', { to: to({ lastRemoteWal: '101' }) }],
  ['nothing streamed yet, but equal roots', { to: to({ lastRemoteWal: '0' }) }],
  ['a heartbeat whose age is not told', { to: to({ peers: [{ ...peer, heartbeatAgeMs: undefined }] }) }],
  ['a newer secondary, acknowledged', { to: to({}, version('2.0.0+ent')), input: acknowledged }],
  ['optional status fields missing', { from: from({ reindexInProgress: undefined, corruptedMerkleTree: undefined }) }],
  [
    'root rights',
    credential({ capabilities: { [DEMOTE]: ['root'], [SECONDARY_TOKEN]: ['root'], [MARKER]: ['root'] } }),
  ],
  ['a token without an end', credential({ ttlSeconds: undefined })],
  ['from 2.0 with a token that the secondary accepts', ceremony('accepted')],
  ['a batch token without a told end', batch({ ttlSeconds: undefined })],
  ['the last change of the primary just as long ago as the cool-down', { changes: { last: change(30) } }],
  ['a change of the primary long ago', { changes: { last: change(1441) } }],
] as readonly (readonly [string, Partial<SwitchoverObserved>])[])('%s is no reason to refuse', (_name, more) => {
  expect(switchoverChecks(world(more)).filter(({ verdict }) => verdict === 'fail')).toEqual([]);
});

it.each([
  ['1.21.4', '1.21.4', 0],
  ['1.21.4+ent', '1.21.4', 0],
  ['v1.21.4', '1.21.4+ent.hsm', 0],
  ['1.21.4', '1.21.10', -1],
  ['2.0.0', '1.21.4', 1],
  ['1.21', '1.21.0', 0],
  ['1.9.9', '1.10.0', -1],
  ['2.0.0-rc1', '2.0.0', 0],
  ['', '0.0.1', -1],
])('version %s against %s', (a, b, sign) => {
  expect(Math.sign(compareVersions(a, b))).toBe(sign);
  // + 0: Math.sign(-0) is -0.
  expect(Math.sign(compareVersions(b, a)) + 0).toBe(-sign + 0);
});

it('the digest of a plan is SHA-256 of its text, byte for byte', () => {
  expect(planDigest('')).toBe('47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU');
  expect(planDigest('{"a":1}')).not.toBe(planDigest('{"a": 1}'));
  expect(planDigest('ü')).toBe(planDigest('\u00fc'));
});
