/** A call reaches the right node, and what changes something is never sent twice. */
import { Secret } from '../../src/secret';
import { tooSlow } from '../support/by-hand';
import { ScriptedCluster, failureOf } from './support/scripted-cluster';
import { deadAddress } from './support/scripted-server';
import type { ScriptedServer } from './support/scripted-server';

const DEMOTE = 'POST sys/replication/dr/primary/demote';
const STATUS = 'GET sys/replication/dr/status';
const disabled = { json: { data: { mode: 'disabled' } } };
const unavailable = { status: 503, json: { errors: ['Vault is in standby mode'] } };

/** For a leader that is not listed. */
const next =
  'Wait until a listed node leads. If none does, add the API address of every node of east to the inventory.';

describe('the choice of the node', () => {
  const cluster = new ScriptedCluster();
  let first: ScriptedServer;
  let second: ScriptedServer;

  beforeEach(async () => {
    first = await cluster.node();
    second = await cluster.node();
    first.standby(second.address);
    second.active();
  });
  afterEach(() => cluster.release());

  const bothClient = () => cluster.client([first.address, second.address]);

  it('prefers the active node for reads and changes, and asks for it once', async () => {
    second.on(STATUS, disabled).on(DEMOTE, { status: 204 });
    const client = bothClient();
    await client.dr.status();
    await client.dr.primary.demote();
    expect(first.calls).toEqual([]);
    expect(second.calls).toEqual([STATUS, DEMOTE]);
    expect(second.requests).toHaveLength(3);
  });

  it('asks again for the active node after it was ordered to forget it', async () => {
    first.on(STATUS, disabled);
    second.on(STATUS, disabled);
    const client = bothClient();
    expect(await client.activeNode()).toBe(second.address);
    first.active();
    second.standby(first.address);
    expect(await client.activeNode()).toBe(second.address);
    client.forgetActiveNode();
    expect(await client.activeNode()).toBe(first.address);
  });

  it('asks another node for the health of the cluster if the first is sealed, and reports the sealed one alone', async () => {
    const sealed = { status: 503, json: { initialized: true, sealed: true, version: '1.21.4' } };
    first.on('GET sys/health', sealed);
    const serves = { status: 200, json: { initialized: true, sealed: false, cluster_id: 'c', version: '1.21.4' } };
    second.on('GET sys/health', serves);
    expect(await bothClient().sys.health()).toMatchObject({ sealed: false, clusterId: 'c' });
    expect(await bothClient().sys.health({ node: first.address })).toMatchObject({ sealed: true });
    second.on('GET sys/health', sealed);
    expect(await bothClient().sys.health()).toMatchObject({ sealed: true, status: 503 });
  });

  it('waits for no unresponsive node alone if each reports only itself', async () => {
    const third = await cluster.node();
    const client = cluster.client([first.address, second.address, third.address]);
    const health = { json: { initialized: true, sealed: false, cluster_id: 'c', version: '1.21.4' } };
    for (const node of [first, second]) node.on('GET sys/health', { action: 'hang' });
    third.on('GET sys/health', health);
    const asked = () => client.sys.health({ timeoutMs: 1_500 });
    expect(await tooSlow(1_400, async () => expect(await asked()).toMatchObject({ clusterId: 'c' }))).toEqual([]);
    third.on('GET sys/health', { action: 'hang' });
    const silent = { code: 'REQUEST_TIMEOUT', retryable: true, outcomeKnown: true };
    expect(await tooSlow(5_500, async () => expect(await failureOf(asked())).toMatchObject(silent))).toEqual([]);
    const cancelled = client.sys.health({ signal: AbortSignal.timeout(50) });
    expect(await failureOf(cancelled)).toMatchObject({ code: 'REQUEST_CANCELLED' });
  });

  it('reads the node that led last while all are asked who leads, and accepts its answer only if they name it', async () => {
    first.on(STATUS, disabled);
    second.on(STATUS, disabled);
    const client = bothClient();
    const read = () => client.atActiveNode(async (node) => ({ node, ...(await client.dr.status({ node })) }));
    expect(await read()).toMatchObject({ node: second.address });
    expect(second.calls).toEqual([STATUS]);
    // It leads no more, and does not know it: what it says of itself is thrown away.
    first.active();
    second.standby(first.address);
    second.on(STATUS, unavailable);
    expect(await read()).toMatchObject({ node: first.address });
    expect(first.calls).toEqual([STATUS]);
    expect(second.calls.filter((call) => call === STATUS)).toHaveLength(2);
    // And where it leads again, what fails there fails.
    second.active();
    first.standby(second.address);
    expect(await read().catch((error: unknown) => error)).toMatchObject({ httpStatus: 503 });
  });

  it('asks the node alone for five seconds after all agreed, until a call changes roles', async () => {
    second.on(STATUS, disabled).on(DEMOTE, { action: 'reset' });
    const client = bothClient();
    const read = () => client.atActiveNode((node) => client.dr.status({ node }));
    const questions = () => first.requests.filter(({ path }) => path === '/v1/sys/leader').length;
    await read();
    await read();
    expect(questions()).toBe(1);
    // Also where its answer was lost.
    await failureOf(client.dr.primary.demote());
    await read();
    expect(questions()).toBe(2);
    const clock = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 5_500);
    await read();
    clock.mockRestore();
    expect(questions()).toBe(3);
  });

  it('uses a read that is due anyway as the answer of the leader, and for the agreement of all until that is forgotten', async () => {
    second.on(STATUS, disabled);
    const client = bothClient();
    const read = (of: 'itself' | 'every node', said = true) =>
      client.atActiveNode((node) => client.dr.status({ node }), { evidence: { of, leads: async () => said } });
    const questions = () => [first, second].map(({ requests }) => requests.filter(isLeader).length);
    const isLeader = ({ path }: { readonly path: string }) => path === '/v1/sys/leader';
    await read('itself');
    await read('itself');
    expect(questions()).toEqual([1, 1]);
    await read('itself', false);
    expect(questions()).toEqual([2, 2]);
    const later = jest.spyOn(performance, 'now').mockReturnValue(performance.now() + 5_500);
    await read('every node');
    await read('itself');
    expect(questions()).toEqual([2, 2]);
    later.mockReturnValue(performance.now() + 5_500);
    await read('itself');
    later.mockRestore();
    expect(questions()).toEqual([3, 3]);
    client.forgetActiveNode();
    await read('every node');
    expect(questions()).toEqual([4, 4]);
  });

  it('finds the active node in time although another node does not respond', async () => {
    first.on('GET sys/leader', { action: 'hang' });
    expect(await bothClient().activeNode()).toBe(second.address);
  });

  it.each([
    ['nobody claims to be active', (a: ScriptedServer, b: ScriptedServer) => void (a.standby(''), b.standby(''))],
    ['two claim it', (a: ScriptedServer, b: ScriptedServer) => void (a.active(), b.active())],
    ['a standby names another node', (a: ScriptedServer, b: ScriptedServer) => void (a.standby(a.address), b.active())],
    [
      'the nodes are sealed',
      (a: ScriptedServer, b: ScriptedServer) => {
        a.on('GET sys/leader', unavailable);
        b.on('GET sys/leader', unavailable);
      },
    ],
  ])('is NO_ACTIVE_NODE when %s, and a change is not sent', async (_, arrange) => {
    arrange(first, second);
    const failure = await failureOf(bothClient().dr.primary.demote());
    expect(failure).toMatchObject({ code: 'NO_ACTIVE_NODE', retryable: true, outcomeKnown: true, cluster: 'east' });
    expect(failure.observed).toContain(first.address);
    expect([...first.calls, ...second.calls].filter((call) => call === DEMOTE)).toEqual([]);
  });

  it('still reads, from any node, while no node is active', async () => {
    second.standby('');
    first.standby('').on(STATUS, unavailable);
    second.on(STATUS, disabled);
    expect(await bothClient().dr.status()).toEqual({ mode: 'disabled' });
    expect(first.calls).toContain(STATUS);
  });

  it('is UNREACHABLE when no node can be connected', async () => {
    const client = cluster.client([await deadAddress()]);
    expect(await failureOf(client.activeNode())).toMatchObject({ code: 'UNREACHABLE', outcomeKnown: true });
    expect(await failureOf(client.dr.primary.demote())).toMatchObject({ code: 'UNREACHABLE', outcomeKnown: true });
    expect(await failureOf(client.dr.status())).toMatchObject({ code: 'UNREACHABLE', outcomeKnown: true });
  });

  describe('if nodes advertise an address that is not listed', () => {
    const advertised = 'https://vault.corp.example:8200';
    it('finds the node that reports itself as leader, whatever all of them name', async () => {
      const leads = { ha_enabled: true, is_self: true, leader_address: advertised };
      first.standby(advertised);
      second.on('GET sys/leader', { json: leads });
      expect(await bothClient().activeNode()).toBe(second.address);
    });

    it.each([
      ['a load balancer', advertised],
      ['its own name for this machine', 'https://localhost:8200'],
      ['a listed address with another port', 'https://127.0.0.1:1'],
      ['a variable that nobody replaced', 'https://$(POD_IP):8200'],
    ])('waits for a leader while standbys name %s, reports both facts, and sends no request', async (_, named) => {
      first.standby(named).on(DEMOTE, { status: 204 });
      second.standby('').on(DEMOTE, { status: 204 });
      const notYet = { code: 'NO_ACTIVE_NODE', retryable: true, outcomeKnown: true, next };
      const failure = await failureOf(bothClient().activeNode());
      expect(failure).toMatchObject(notYet);
      expect(failure.observed).toMatch(/: names \S.* as leader, which is not among the addresses/);
      expect(failure.observed).toContain(`${second.address}: names no leader`);
      expect(await failureOf(bothClient().dr.primary.demote())).toMatchObject(notYet);
      expect([first.calls, second.calls]).toEqual([[], []]);
    });

    it('waits also if another node is sealed or broken', async () => {
      const third = await cluster.node();
      first.on('GET sys/leader', unavailable);
      second.on('GET sys/leader', { status: 500, json: { errors: ['internal error'] } });
      third.standby(advertised);
      const client = cluster.client([first.address, second.address, third.address, await deadAddress()]);
      expect(await failureOf(client.activeNode())).toMatchObject({ code: 'NO_ACTIVE_NODE', retryable: true });
    });
  });

  it('treats a node without high availability as active', async () => {
    first.on('GET sys/leader', { json: { ha_enabled: false, is_self: false, leader_address: '' } });
    expect(await cluster.client([first.address]).activeNode()).toBe(first.address);
  });

  it.each([
    ['a reset', { action: 'reset' }],
    ['an answer cut in the middle', { action: 'break', json: { data: { mode: 'primary' } } }],
    ['412', { status: 412 }],
    ['429', { status: 429 }],
    ['500', { status: 500 }],
    ['503', { status: 503 }],
  ] as const)('lets a read fall over to the next node after %s', async (_, reply) => {
    second.on(STATUS, reply);
    first.on(STATUS, disabled);
    expect(await bothClient().dr.status()).toEqual({ mode: 'disabled' });
    expect(second.calls[0]).toBe(STATUS);
  });

  it('does not let a read fall over that the service refused', async () => {
    second.on(STATUS, { status: 400, json: { errors: ['no'] } });
    expect(await failureOf(bothClient().dr.status())).toMatchObject({ code: 'BAD_REQUEST' });
    expect(first.calls).toEqual([]);
  });

  it.each([
    ['a reset', { action: 'reset' }, { code: 'CONNECTION_LOST', outcomeKnown: false, retryable: true }],
    ['silence', { action: 'hang' }, { code: 'REQUEST_TIMEOUT', outcomeKnown: false, retryable: true }],
    [
      'an answer cut in the middle',
      { action: 'break', json: { data: null } },
      { code: 'CONNECTION_LOST', outcomeKnown: false },
    ],
    ['502', { status: 502 }, { code: 'SERVICE_ERROR', outcomeKnown: false }],
    ['503', unavailable, { code: 'SERVICE_UNAVAILABLE', outcomeKnown: true }],
    ['503 that the service did not write', { status: 503 }, { code: 'SERVICE_UNAVAILABLE', outcomeKnown: false }],
    ['412', { status: 412 }, { code: 'STATE_NOT_PRESENT', outcomeKnown: true }],
  ] as const)('sends a change once: %s ends it', async (_, reply, expected) => {
    second.on(DEMOTE, reply);
    first.on(DEMOTE, { status: 204 });
    const failure = await failureOf(bothClient().dr.primary.demote({ timeoutMs: 300 }));
    expect(failure).toMatchObject(expected);
    expect(second.calls.filter((call) => call === DEMOTE)).toHaveLength(1);
    expect(first.calls).toEqual([]);
  });

  describe('beside a sealed standby, which reports only itself,', () => {
    let third: ScriptedServer;
    beforeEach(async () => {
      third = await cluster.node();
      third.standby(second.address);
      const sealed = { status: 503, json: { errors: ['Vault is sealed'] } };
      first.on(DEMOTE, sealed).on(STATUS, sealed).on('GET sys/leader', sealed);
      first.on('GET sys/seal-status', { json: { initialized: true, sealed: true } });
    });
    const losingItsLeader = async () => {
      const client = cluster.client([first.address, second.address, third.address]);
      await client.activeNode();
      await second.stop();
      // What is left of the connection breaks at the first use.
      await failureOf(client.dr.status({ node: second.address }));
      return client;
    };

    it('a change that could not be sent to the one that led goes to the next', async () => {
      third.on(DEMOTE, { status: 204 });
      await (await losingItsLeader()).dr.primary.demote();
      expect(first.calls).toContain(DEMOTE);
      expect(third.calls).toEqual([DEMOTE]);
    });

    it('and nodes that are away, the reason may pass, and the error has the answer of each', async () => {
      const client = await losingItsLeader();
      await third.stop();
      const observed = [second, first, third].map(
        ({ address }, at) => `${address}: ${at === 1 ? 'SERVICE_SEALED' : 'UNREACHABLE'}`,
      );
      const passing = { code: 'NO_ACTIVE_NODE', retryable: true, outcomeKnown: true, observed: observed.join('; ') };
      expect(await failureOf(client.dr.primary.demote())).toMatchObject(passing);
      expect(await failureOf(client.dr.status())).toMatchObject({ ...passing, observed: expect.any(String) as string });
    });

    it('a change that it may have accepted, before it was sealed, is not sent on', async () => {
      const client = await losingItsLeader();
      // As a proxy before the node gives it: without the errors of the service.
      first.on(DEMOTE, { status: 503, json: {} });
      third.on(DEMOTE, { status: 204 });
      expect(await failureOf(client.dr.primary.demote())).toMatchObject({
        code: 'SERVICE_SEALED',
        outcomeKnown: false,
      });
      expect(third.calls).toEqual([]);
    });

    it('a change that the former leader answers as sealed is not sent on: it may have accepted it before', async () => {
      const client = cluster.client([second.address, third.address]);
      second.on(DEMOTE, unavailable).on('GET sys/seal-status', { json: { sealed: true } });
      expect(await failureOf(client.dr.primary.demote())).toMatchObject({ code: 'SERVICE_SEALED', retryable: true });
      expect(third.calls).toEqual([]);
    });
  });

  it('calls a pinned node alone, without looking for the leader', async () => {
    first.on(STATUS, { status: 503 }).on('GET sys/seal-status', { json: { initialized: true, sealed: true } });
    second.on(STATUS, disabled);
    const failure = await failureOf(bothClient().dr.status({ node: first.address }));
    expect(failure).toMatchObject({ code: 'SERVICE_SEALED' });
    expect(second.requests).toEqual([]);
    expect(first.requests.map(({ path }) => path)).not.toContain('/v1/sys/leader');
  });

  it('refuses to pin a node that is not of the target', async () => {
    const failure = await failureOf(bothClient().dr.status({ node: 'https://elsewhere:8200' }));
    expect(failure).toMatchObject({ code: 'INVALID_INPUT', observed: 'https://elsewhere:8200' });
  });

  describe('redirects', () => {
    const PROMOTE = 'POST sys/replication/dr/secondary/promote';
    const drOperationToken = new Secret('operation-token', 'hvs.CANARYcanaryCANARYcanary');
    const redirectTo = (origin: string, path = PROMOTE.slice('POST '.length)) => ({
      status: 307,
      headers: { location: `${origin}/v1/${path}` },
    });

    const token = new Secret('service-token', 'tok');
    const promote = () => bothClient().dr.secondary.promote({ drOperationToken }, { token });

    it('are not followed: the next node of the target is sent method, body and token', async () => {
      second.on(PROMOTE, redirectTo(first.address, 'sys/raw/secret'));
      first.on(PROMOTE, { status: 204 });
      await promote();
      const sent = first.requests.at(-1);
      expect(sent?.body).toBe(JSON.stringify({ dr_operation_token: drOperationToken.reveal() }));
      expect(sent?.headers['x-vault-token']).toBe('tok');
    });

    it('name the leader: the next call goes to the node that took the first', async () => {
      second.on(PROMOTE, redirectTo(first.address)).on(DEMOTE, { status: 204 });
      first.on(PROMOTE, { status: 204 }).on(DEMOTE, { status: 204 });
      const client = bothClient();
      await client.dr.secondary.promote({ drOperationToken });
      await client.dr.primary.demote();
      expect([first.calls, second.calls]).toEqual([[PROMOTE, DEMOTE], [PROMOTE]]);
    });

    it.each([
      ['a reset', { action: 'reset' }],
      ['500', { status: 500 }],
      ['503', unavailable],
    ] as const)('name the next node to ask: %s of a standby without a part in it ends no change', async (_, reply) => {
      const third = await cluster.node();
      third.standby(second.address).on(PROMOTE, reply);
      second.on(PROMOTE, redirectTo(first.address));
      first.on(PROMOTE, { status: 204 });
      const client = cluster.client([third.address, second.address, first.address]);
      await client.dr.secondary.promote({ drOperationToken });
      expect([first.calls, second.calls, third.calls]).toEqual([[PROMOTE], [PROMOTE], []]);
    });

    it('make no leader of a standby that passes a read on', async () => {
      const third = await cluster.node();
      third.standby(second.address).on(STATUS, disabled).on(DEMOTE, { status: 204 });
      second.on(STATUS, redirectTo(first.address, STATUS.slice(4))).on(DEMOTE, { status: 204 });
      first.on(STATUS, unavailable);
      const client = cluster.client([second.address, first.address, third.address]);
      await client.dr.status();
      await client.dr.primary.demote();
      expect([second.calls, third.calls]).toEqual([[STATUS, DEMOTE], [STATUS]]);
    });

    it('are not followed to any other address, for a read or a change', async () => {
      const elsewhere = await cluster.node();
      // It passes once a listed node leads: nodes redirect to what they advertise.
      const refused = { code: 'REDIRECT_REFUSED', outcomeKnown: true, retryable: true, observed: elsewhere.address };
      for (const node of [second, first]) {
        node.on(PROMOTE, redirectTo(elsewhere.address)).on(STATUS, redirectTo(elsewhere.address, STATUS.slice(4)));
      }
      expect(await failureOf(bothClient().dr.status())).toMatchObject({ ...refused, next });
      expect(await failureOf(promote())).toMatchObject({ ...refused, next });
      expect(elsewhere.requests).toEqual([]);
    });

    it('no change may be forwarded by a standby, and a read may', async () => {
      second.on(PROMOTE, { status: 204 }).on(STATUS, disabled);
      await promote();
      await bothClient().dr.status();
      const passing = second.requests
        .filter(({ path }) => !path.endsWith('/leader'))
        .map(({ headers }) => headers['x-vault-no-request-forwarding']);
      expect(passing).toEqual(['true', undefined]);
    });

    it('of every node end the call, which passes with the change of the leader', async () => {
      second.on(PROMOTE, redirectTo(first.address));
      first.on(PROMOTE, redirectTo(second.address));
      const next = 'The leader of east is changing: retry.';
      const passing = { code: 'REDIRECT_REFUSED', outcomeKnown: true, retryable: true, next };
      expect(await failureOf(promote())).toMatchObject(passing);
      expect([first.calls, second.calls]).toEqual([[PROMOTE], [PROMOTE]]);
    });

    it('are not followed from a pinned node', async () => {
      second.on(PROMOTE, redirectTo(first.address));
      const call = bothClient().dr.secondary.promote({ drOperationToken }, { node: second.address });
      expect(await failureOf(call)).toMatchObject({ code: 'REDIRECT_REFUSED', retryable: true });
      expect(first.calls).toEqual([]);
    });
  });
});
