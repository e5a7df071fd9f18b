import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { wantedSchedules } from '../../src/inventory';
import { loadInventory, parseInventory } from '../../src/inventory/load';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { formatPublicKey } from '../../src/documents/public-keys';
import { newSigningKey } from '../../src/keys/holder-keys';
import { adaKey, changed, EXAMPLE, mistakes, paymentsOf, withMembers } from './example';

const KEY = formatPublicKey(adaKey);

function lineOf(text: string, part: string): number {
  return text.slice(0, text.indexOf(part)).split('\n').length;
}

describe('an inventory', () => {
  it('is read with defaults, durations in milliseconds; a pager gets only urgent events', () => {
    const { deployments, people, temporal } = parseInventory(EXAMPLE, 'inventory.yaml');
    expect(temporal).toEqual({ uiAddress: 'http://127.0.0.1:8233' });
    expect(people.get('ada')).toMatchObject({
      name: 'ada',
      attestation: 'signed',
      publicKeys: [{ kid: adaKey.kid, x: adaKey.x }],
    });
    const payments = deployments.get('payments');
    expect(payments).toMatchObject({
      laboratory: false,
      ceremony: {
        holders: ['ben', 'cyd', 'dan'],
        collectForMs: 1_200_000,
        useForMs: 1_800_000,
        tokenSource: 'auto',
        batchMarginMs: 2_700_000,
      },
      gates: {
        plan: { excludeRequester: false, validForMs: 14_400_000 },
        go: { excludeRequester: true, validForMs: 600_000 },
      },
      limits: { lagWalEntries: 500, heartbeatAgeMs: 15_000, catchUpMs: 60_000, streamingMs: 600_000 },
      hooks: {
        quiesce: { kind: 'command', command: ['/opt/quiesce', '--all'], timeoutMs: 20_000, idempotent: false },
        fence: {
          kind: 'call',
          url: 'https://firewall.example/fence',
          headers: { authorization: { env: 'FENCE_TOKEN' } },
          timeoutMs: 30_000,
          idempotent: true,
        },
        snapshot: { kind: 'command', timeoutMs: 7_200_000 },
        probe: { kind: 'probe', expectStatus: [200, 204] },
      },
    });
    expect(payments?.clusters.get('east')).toMatchObject({ name: 'east', deployment: 'payments', drSet: 'main' });
    expect(payments?.clusters.get('eu')?.drSet).toBe('europe');
    expect([payments?.notifications, payments?.objectives]).toEqual([[], undefined]);
    const more = paymentsOf(
      withMembers(
        'objectives: { outage: 30s, loss: none }',
        'notifications:',
        '  - { name: chat, kind: slack, url: { env: CHAT } }',
        '  - { name: pager, kind: pagerduty, routingKey: { file: /run/key } }',
      ),
    );
    expect(more?.objectives).toEqual({ outageMs: 30_000, lossWalEntries: 0 });
    const [chat, pager] = more?.notifications ?? [];
    expect(chat).toMatchObject({ timeoutMs: 5_000, url: { env: 'CHAT' } });
    expect(chat?.events).toContain('protected-again');
    const wakes = ['waiting-for-people', 'parked', 'escalation', 'outage-started', 'critical-finding', 'service-alarm'];
    expect(pager?.events).toEqual(wakes);
  });

  it('accepts merge keys: the settings of one cluster serve for another, which may replace some of them', () => {
    const text = EXAMPLE.replace(/ {6}east:\n/, '      east: &east\n').replace(
      / {6}west:\n/,
      '      west:\n        <<: *east\n        clusterId: 5a1f0000-0000-4000-8000-000000000002\n',
    );
    const clusters = paymentsOf(text)?.clusters;
    const [east, west] = [clusters?.get('east'), clusters?.get('west')];
    expect(west?.addresses).toEqual(['https://10.2.0.4:8200']);
    expect(west?.caFile).toBe(east?.caFile);
    expect(east?.addresses).not.toEqual(west?.addresses);
  });

  it('is read from its file: a missing file is reported; the one in the documentation is valid', async () => {
    await expect(loadInventory('/nonexistent/inventory.yaml')).rejects.toMatchObject({ code: 'INVENTORY_INVALID' });
    const page = await readFile(join(__dirname, '../../docs/inventory.md'), 'utf8');
    const [example = '', more = ''] = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, block = '']) => block);
    expect(example).toContain('<kid>:<x>');
    for (const text of [example, example + more]) expect(mistakes(text.replaceAll('<kid>:<x>', KEY))).toEqual([]);
    expect(more).toContain('notifications:');
  });
});

const QUIESCE = "quiesce: { command: [/opt/quiesce, '--all'], timeout: 20s }";
const HOLDERS = 'holders: [ben, cyd, dan]';
const ROTATED = 'batchTokens: { main: {} }\n    limits: {';
const CALL = 'quiesce: { url: "https://hooks.example/quiesce"';
/** One more member of the deployment; one target of notifications. */
const member = (text: string) => ['    drSets:', `    ${text}\n    drSets:`] as const;
const ofTarget = (text: string) => member(`notifications:\n      - { name: a, ${text} }`);
const CHAT = 'kind: slack, url: { env: A }';

it('schedules have intervals, or are off; the sampler ends its samples before its next run begins', () => {
  const of = (...members: readonly string[]) => {
    // A rotation creates it instead.
    const payments = paymentsOf(withMembers(...members).replace(/ +batchToken: .*\n/, ''));
    return payments === undefined ? [] : wantedSchedules(payments);
  };
  const shown = (...members: readonly string[]) =>
    of(...members).map((each) => [each.scheduleId, each.everyMs, each.offsetMs]);
  expect(shown()).toEqual([
    ['walSampler:payments', 60_000, 0],
    ['readiness:payments', 3_600_000, 0],
  ]);
  expect(
    shown('schedules: { walSampler: off, readiness: false, batchTokenRotation: 30m }', 'batchTokens: { europe: {} }'),
  ).toEqual([['batchTokenRotation:payments', 1_800_000, 0]]);
  // One lock for all rotations of a deployment.
  expect(shown('schedules: { walSampler: off, readiness: off }', 'batchTokens: { main: {}, europe: {} }')).toEqual([
    ['batchTokenRotation:payments:main', 3_600_000, 0],
    ['batchTokenRotation:payments:europe', 3_600_000, 1_800_000],
  ]);
  const samples = ['30s', '1m', '15m'].map((every) => of(`schedules: { walSampler: ${every} }`)[0]?.input);
  expect(samples).toMatchObject([{ samples: 5 }, { samples: 11 }, { samples: 179 }]);
  for (const { runbook, input } of of('batchTokens: { main: {}, europe: {} }')) RUNBOOK_INPUTS[runbook].parse(input);
  for (const wrong of ['29s', '16m', '1', 'on'])
    expect(mistakes(withMembers(`schedules: { walSampler: ${wrong} }`)).join()).toContain(
      'deployments.payments.schedules.walSampler: an interval from 30s to 15m, or the word off',
    );
});

describe('mistakes', () => {
  it('are reported all at once, in order, each with line, column and path', () => {
    const text = EXAMPLE.replace("uiAddress: 'http", "uiAddress: 'ftp")
      .replace('validFor: 4h', 'validFor: 4 hours')
      .replace('caFile: /etc/runbooks/ca.pem', 'caFiles: /etc/runbooks/ca.pem')
      .replace("        addresses: ['https://10.2.0.4:8200']\n", '');
    const found = mistakes(text);
    expect(found.map((line) => line.split(': ')[1])).toEqual([
      'temporal.uiAddress',
      'deployments.payments.clusters.east.caFiles',
      'deployments.payments.clusters.west.addresses',
      'deployments.payments.gates.plan.validFor',
    ]);
    const caFiles = lineOf(text, 'caFiles');
    expect(found[1]).toBe(`inventory.yaml:${caFiles}:9: deployments.payments.clusters.east.caFiles: unknown field`);
    expect(found[2]).toContain(`inventory.yaml:${lineOf(text, '      west:')}:7: `);
    expect(found[2]).toContain('missing');
  });

  it('are reported together with the contradictions between members that are right by themselves', () => {
    const text = EXAMPLE.replace("uiAddress: 'http", "uiAddress: 'ftp")
      .replace('caFile: /etc/runbooks/ca.pem', 'caFiles: /etc/runbooks/ca.pem')
      .replace('[ben, cyd, dan]', '[ben, cyd, eve]');
    expect(mistakes(text).map((line) => line.split(': ')[1])).toEqual([
      'temporal.uiAddress',
      'deployments.payments.clusters.east.caFiles',
      'deployments.payments.ceremony.holders[2]',
    ]);
  });

  it('are not reported for a member that only follows from a wrong one', () => {
    const text = EXAMPLE.replace('[ben, cyd, dan]', '[ben, cyd, eve]').replace(
      'ceremony: {',
      'ceremony: { unknown: 1,',
    );
    const plan = 'plan: { approvals: 1, groups: [nobody], validFor: 4 hours }';
    const found = mistakes(text.replace(/plan: \{[^}]*\}/, plan));
    expect(found.filter((line) => line.includes('gates.plan')).map((line) => line.split(': ')[1])).toEqual([
      'deployments.payments.gates.plan.validFor',
    ]);
  });

  it('a second document in the file is named in plain words', () => {
    expect(mistakes(`${EXAMPLE}\n---\nversion: 1\n`)).toEqual([
      expect.stringContaining('a second document begins here ("---"): keep one document in the file'),
    ]);
  });

  it('in names are listed with the names that there are', () => {
    const text = EXAMPLE.replace('[ben, cyd, dan]', '[ben, cid, dan]').replace(
      'main: [east, west]',
      'main: [east, wset]',
    );
    const found = mistakes(text).map((line) => line.split(': ').slice(1).join(': '));
    expect(found).toEqual([
      expect.stringContaining('cluster west is in no DR set'),
      'deployments.payments.drSets.main[1]: this deployment has no cluster wset; there are: east, eu, west',
      'deployments.payments.ceremony.holders[1]: cid is not among the people of this inventory; there are: ada, ben, cyd, dan',
    ]);
  });

  it.each([
    ['an unknown holder', '[ben, cyd, dan]', '[ben, cyd, eve]', 'ceremony.holders[2]: eve is not among the people'],
    ['no holders', '[ben, cyd, dan]', '[]', 'a ceremony needs holders'],
    ['a holder whom only JavaScript knows', '[ben, cyd, dan]', '[constructor]', 'constructor is not among the people'],
    ['who stands by is nobody', HOLDERS, `${HOLDERS}, standBy: [eve]`, 'standBy[0]: eve is not among the people'],
    ['stand-by twice', HOLDERS, 'holders: [ben], standBy: [cyd, cyd]', 'standBy[1]: cyd is listed twice'],
    [
      'holder and stand-by',
      HOLDERS,
      `${HOLDERS}, standBy: [dan]`,
      'dan is already a holder: stand-by holders are asked',
    ],
    [
      'stand-by holders who are never asked',
      `${HOLDERS}, `,
      'holders: [ben], standBy: [cyd], inviteStandByAfter: 20m, ',
      'inviteStandByAfter: stand-by holders would never be asked: collectFor ends first',
    ],
    ['a cluster in two DR sets', 'europe: [eu]', 'europe: [eu, west]', 'cluster west is already in DR set main'],
    ['a cluster that only JavaScript knows', 'europe: [eu]', 'europe: [eu, constructor]', 'has no cluster constructor'],
    ['an address twice', 'https://10.2.0.4:8200', 'https://10.1.0.5:8200', 'cluster east already has this address'],
    ['plain http', 'http://127.0.0.1:8300', 'http://10.9.0.1:8300', 'plain http is allowed on loopback addresses only'],
    [
      'an address with a path',
      'https://10.2.0.4:8200',
      'https://10.2.0.4:8200/v1',
      'an address must not contain a path',
    ],
    ['a password', 'https://10.2.0.4:8200', 'https://a:b@10.2.0.4:8200', 'must not contain a user name or password'],
    ['no address at all', "['https://10.2.0.4:8200']", '[]', 'a cluster has at least one API address'],
    ['a bad name', '      west:', '      West_1:', 'lowercase letters, digits and hyphens'],
    ['a longer comparison in an outage', 'heartbeatAge: 15s', 'merkleEvidence: 3s', 'at most 2s of an outage'],
    ['a change without end', 'heartbeatAge: 15s', 'promote: 6m', 'a change gets at most 5 minutes'],
    ['a duration of nothing', 'heartbeatAge: 15s', 'heartbeatAge: 0s', 'a positive number with a unit'],
    ['too few approvers', 'plan: { approvals: 1', 'plan: { approvals: 2', '2 needed, but only 1 may approve'],
    [
      'force by one person',
      '      go: {',
      '      force: { approvals: 1, groups: [approvers], validFor: 1h }\n      go: {',
      'force needs at least two different people',
    ],
    ['a group of nobody', '[approvers], validFor: 10m', '[approvers, none], validFor: 10m', 'nobody is in group none'],
    ['a principal without a name', "principal: 'user:dan'", 'principal: { type: certificate }', 'or { type, name }'],
    ['a principal without a principal', ", principal: 'user:dan'", '', 'needs a principal'],
    ['a mistyped key', `'${KEY}'`, `'${KEY.slice(0, -2)}AA'`, 'a public key is'],
    ['a login', '{ env: EU_TOKEN }', '{ approle: { roleId: a } }', 'a source is { env: VARIABLE } or'],
    ['a relative hook', '/opt/quiesce', 'quiesce', 'absolute path of a program'],
    ['a command and a call', QUIESCE, `${CALL}, command: [/opt/quiesce] }`, 'hooks.quiesce.command: unknown field'],
    [
      'a header in the file',
      QUIESCE,
      `${CALL}, headers: { a: Bearer-1 } }`,
      'the inventory never contains the secret itself',
    ],
    ['a reserved header', QUIESCE, `${CALL}, headers: { Host: { env: HOST } } }`, 'the call sets this header itself'],
    ['a hook by plain http', QUIESCE, `${CALL.replace('https', 'http')} }`, 'plain http is allowed on loopback'],
    ['a hook that takes longer than an attempt may', 'timeout: 20s', 'timeout: 20m', 'gets at most 150 s'],
    ['two sources of a batch token', 'limits: {', ROTATED, 'kept in the record: remove batchToken'],
    // What a target of notifications may not be.
    ['an address that everybody could read', ...ofTarget('kind: slack, url: https://hooks.example/x'), 'a source is'],
    ['no event at all', ...ofTarget(`${CHAT}, events: []`), 'never be notified'],
    ['a long time limit', ...ofTarget(`${CHAT}, timeout: 1m`), 'at most 10 s'],
    ['two targets of one name', ...ofTarget(`${CHAT} }\n      - { name: a, ${CHAT}`), 'a is listed twice'],
    ['an objective in words', ...member('objectives: { loss: some }'), 'WAL entries, or the word none'],
    ['another version', 'version: 1', 'version: 2', 'inventories of version 1'],
  ])('%s', (_what, from, to, message) => {
    const found = mistakes(changed(from, to));
    expect(found.length).toBeGreaterThan(0);
    expect(found.join('\n')).toContain(message);
    for (const line of found) expect(line).toMatch(/^inventory\.yaml:\d+:\d+: /);
  });

  it('token source batch without a batch token', () => {
    const text = changed('        batchToken: { file: /run/runbooks/east-batch }\n', '').replace('auto', 'batch');
    expect(mistakes(text).join('\n')).toContain('ceremony.tokenSource: token source "batch" needs a batchToken');
  });

  it('a gate whose group could only claim, except in a laboratory', () => {
    const both = changed('groups: [approvers], validFor: 10m', 'groups: [approvers, security], validFor: 10m').replace(
      'ben: { groups: [holders]',
      'ben: { groups: [security]',
    );
    const found = mistakes(both).join('\n');
    expect(found).toContain('gates.go.approvals: only claims could satisfy this gate, and claims count only in a');
    expect(found).toContain('ben has no key. Remove attestation: claimed; each of them runs "runbook join"');
    expect(mistakes(both.replace('  payments:\n', '  payments:\n    laboratory: true\n'))).toEqual([]);
  });

  it('one key of two people', () => {
    const ben = 'ben: { groups: [holders], attestation: claimed';
    const text = changed(ben, `${ben}, publicKeys: ['${KEY}']`);
    expect(mistakes(text)).toEqual([
      `inventory.yaml:${lineOf(text, ben)}:64: people.ben.publicKeys[0]: the same public key is listed for ada`,
    ]);
  });

  it('one cluster in two deployments', () => {
    const [, payments = ''] = EXAMPLE.split('deployments:\n');
    const other = payments
      .replace('payments:', 'orders:')
      .replace(/ *clusterId: .*\n/, '')
      .replaceAll('//10.', '//10.9');
    expect(mistakes(`${EXAMPLE}${other}`).join('\n')).toContain(
      'orders.clusters.east: deployment payments already has a cluster of this name',
    );
  });

  it.each([
    ['broken YAML', 'version: 1\npeople: [', 'inventory.yaml:2:'],
    ['a key twice', 'version: 1\nversion: 1\n', 'inventory.yaml:2:1'],
    ['an unknown alias', 'version: *nobody\n', 'inventory.yaml:1:'],
    ['nothing', '', 'inventory.yaml:1:1'],
    ['a list', '- 1\n', 'inventory.yaml:1:1'],
  ])('%s', (_what, text, place) => {
    expect(mistakes(text)[0]).toContain(place);
  });

  it('show no secret that somebody put in place of a source', () => {
    const token = 'hvs.CAESIJ3dKxGZ0bYt2lPq0w8canary';
    const d = (JSON.parse(newSigningKey().jwk.reveal()) as { d: string }).d;
    const texts = [
      changed('{ env: EU_TOKEN }', token),
      changed('{ env: EU_TOKEN }', `{ token: ${token} }`),
      changed('{ env: EU_TOKEN }', `{ ${token}: 1 }`),
      changed('{ env: EU_TOKEN }', `{ env: ${token} }`),
      changed('{ env: EU_TOKEN }', `{ env: ${token}`),
      changed('signingKey: { file: /run/runbooks/workers-signing.jwk }', `signingKey: { d: "${d}" }`),
    ];
    for (const text of texts) {
      const found = mistakes(text).join('\n');
      expect(found).not.toBe('');
      expect(found).not.toContain('canary');
      expect(found).not.toContain(d);
    }
  });
});
