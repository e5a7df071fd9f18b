/**
 * Outside a laboratory a name that anybody may use counts for nothing: at no gate, and in no decision. Whoever may signal,
 * or write to the namespace, can send such documents in the name of people who are only claimed. An order to a whole run
 * counts as a document of somebody who may decide here, made for this run and this order.
 */
import { DECISION_ACTIONS } from '../../src/contracts/signals';
import type { ControlAction } from '../../src/contracts/signals';
import { terminalText } from '../../src/contracts/words';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import type { GateName } from '../../src/contracts/gates';
import { failoverInputDigest } from '../../src/keys';
import { findDeployment } from '../../src/inventory';
import { DEPLOYMENT, drDemotion, openBench } from '../support/activity-environment';
import type { ActivityBench, SignedPlan } from '../support/activity-environment';
import { approvalOf, controlOf, decisionOf } from '../support/people';

let bench: ActivityBench;
openBench((opened) => (bench = opened), {
  // Grace and henry sign; ada and bert may approve and are only claimed. Cleo's group approves in another deployment.
  person: (name) => (['ada', 'bert'].includes(name) ? { attestation: 'claimed', groups: ['approvers'] } : undefined),
  topology: { readings: { leaderChangeChance: 0 } },
  limits: { primaryGone: '1s' },
});
beforeEach(() => {
  bench.history = { events: [] };
});

const claim = (name: string, gate: GateName, planDigest: string) => ({
  ...{ ...bench.run, gate, planDigest, verdict: 'approve', comment: '', name },
  // The year 2100.
  iat: 4_102_444_800,
});
const claimsAt = (gates: readonly GateName[], digest: string) =>
  gates.flatMap((gate) => ['ada', 'bert'].map((name) => claim(name, gate, digest)));

const planOf = async (more: object = {}) => (await bench.authorityOf('drSwitchover', { to: 'west', ...more })).plan;

it.each<[string, string, (digest: string) => Promise<readonly unknown[]>]>([
  [
    'an approval that no signal of this run brought, whatever its person wrote into it',
    'gate plan is missing 1 more of',
    async (planDigest) => {
      const about = { ...bench.run, gate: 'plan', planDigest, iat: 4_102_444_800 };
      const approval = await approvalOf(bench.person('grace'), about);
      // It arrived under another name, and the only approval is no document.
      bench.signaled('share', [approval]);
      bench.signaled('approve', [{ not: 'a document' }]);
      return [approval, { not: 'a document' }];
    },
  ],
  [
    'two claims',
    'ada and bert are only claimed',
    (digest) => {
      const claims = claimsAt(['plan', 'go'], digest);
      bench.signaled('approve', claims);
      return Promise.resolve(claims);
    },
  ],
])('no cluster is demoted by %s', async (_what, observed, make) => {
  const plan = await planOf({ go: 'auto' });
  const authority: SignedPlan = { plan, approvals: await make(plan.digest) };
  const failure = await bench.failure('demotePrimary', drDemotion(authority));
  expect(failure).toMatchObject({ code: 'NOT_APPROVED', details: { outcomeKnown: true } });
  expect(failure.details['observed']).toContain(observed);
  expect(bench.calls('east', 'primary/demote')).toBe(0);
});

describe('two claims', () => {
  it('open no gate; receipt and status say so, and name what the person does instead', async () => {
    const plan = await planOf();
    const about = { gate: 'plan', planDigest: plan.digest, requestedBy: 'olga', accepted: [] } as const;
    const check = (arrived: readonly number[]) =>
      bench.call('checkApprovals', { deployment: DEPLOYMENT, ...about, arrived });
    const { satisfied, missing, approvedBy, verdicts } = await check(
      bench.signaled('approve', claimsAt(['plan'], plan.digest)),
    );
    expect({ satisfied, approvedBy }).toEqual({ satisfied: false, approvedBy: [] });
    expect(verdicts).toMatchObject([
      { accepted: false, code: 'only-claimed', by: { name: 'ada', how: 'claimed' } },
      { accepted: false, code: 'only-claimed', by: { name: 'bert', how: 'claimed' } },
    ]);
    expect(verdicts[0]?.text).toContain('the name ada is only claimed, which does not count outside a laboratory');
    expect(verdicts[0]?.text).toContain(
      '`runbook approve deployment:payments --gate plan --name ada --key-file YOUR-KEY-FILE`',
    );
    expect(missing.join()).toContain('1 more of ');
    expect(missing.join()).toContain('ada and bert are only claimed');

    // Nor does a claim close it: else anybody could end a run.
    const rejected = { ...claim('ada', 'plan', plan.digest), verdict: 'reject' };
    expect((await check(bench.signaled('approve', [rejected]))).rejectedBy).toBeUndefined();
  });

  it.each([
    ['unplanned', 'attested fencing'],
    ['forced', 'force'],
  ] as const)('%s: they do not carry %s', async (mode, _what) => {
    const gone = bench.service.faults.add({ cluster: 'east', endpoint: /./, action: 'reset', times: Infinity });
    bench.service.advanceClock(60_000);
    const { plan } = await bench.authorityOf('drFailover', { fencing: 'attested' });
    const authority: SignedPlan = { plan, approvals: claimsAt(['promote', 'force'], plan.digest) };
    bench.signaled('approve', authority.approvals);
    const failure = await bench.failure('promoteSecondary', {
      ...{ kind: 'dr', mode, deployment: DEPLOYMENT, cluster: 'west', otherCluster: 'east', authority },
      token: await bench.operationToken('west'),
    });
    gone.remove();
    expect(failure.code).toBe('NOT_APPROVED');
    expect(bench.calls('west', 'dr/secondary/promote')).toBe(0);
  });
});

describe('a decision about a parked step', () => {
  const STEP = { step: 'Promote west', parkingNo: 1 } as const;
  const check = async (content: unknown) => {
    const [arrival = 0] = bench.signaled('decide', [content]);
    const parked = [{ ...STEP, choices: [...DECISION_ACTIONS] }];
    const { verdicts } = await bench.call('checkDecisions', { deployment: DEPLOYMENT, parked, arrived: [arrival] });
    return verdicts[0];
  };

  it.each(DECISION_ACTIONS)('to %s never rests on a claimed name', async (action) => {
    const verdict = await check({ ...bench.run, ...STEP, action, reason: 'a claim', name: 'ada', iat: 1 });
    expect(verdict).toMatchObject({ accepted: false, code: 'only-claimed' });
    expect(verdict?.text).toContain('`runbook decide deployment:payments --parking 1');
    expect(verdict?.text).toContain('--name ada --key-file YOUR-KEY-FILE`');
  });

  it('is for those who may approve here and for the operators, and for no other person of the inventory', async () => {
    const decide = async (name: string, action: 'retry' | 'leave') =>
      check(await decisionOf(bench.person(name), { ...bench.run, ...STEP, action }));
    expect(await decide('grace', 'leave')).toMatchObject({ accepted: true });
    for (const action of ['retry', 'leave'] as const) {
      const refused = await decide('cleo', action);
      expect(refused).toMatchObject({ accepted: false, code: 'may-not-decide' });
      expect(refused?.text).toContain('grace, henry, olga');
    }
    Object.assign(findDeployment(bench.inventory, DEPLOYMENT), { operators: ['holders'] });
    expect(await decide('cleo', 'retry')).toMatchObject({ accepted: true });
    Object.assign(findDeployment(bench.inventory, DEPLOYMENT), { operators: [] });
  });
});

describe('gate force', () => {
  it('needs two different people, even if the inventory asks for fewer', async () => {
    const { gates } = findDeployment(bench.inventory, DEPLOYMENT);
    const { force } = gates;
    Object.assign(gates, { force: { ...force, approvals: 1 } });
    const arrived = bench.signaled('approve', [
      await approvalOf(bench.person('grace'), { ...bench.run, gate: 'force', planDigest: 'a plan' }),
    ]);
    const gate = 'force' as const;
    const input = { deployment: DEPLOYMENT, gate, planDigest: 'a plan', requestedBy: 'olga', accepted: [] };
    const { satisfied, missing } = await bench.call('checkApprovals', { ...input, arrived });
    Object.assign(gates, { force });
    expect(satisfied).toBe(false);
    expect(missing).toEqual(['1 more of henry']);
  });
});

describe('an order to the whole run', () => {
  const INPUT = { deployment: DEPLOYMENT, reason: 'a test', requestedBy: 'grace', takeOver: true };
  const order = (name: string, action: ControlAction = 'takeOver', rid = bench.run.rid, input: object = INPUT) => {
    const inputDigest = action === 'takeOver' ? failoverInputDigest(input) : undefined;
    const payload = { ...bench.run, rid, action, ...(inputDigest !== undefined && { inputDigest }) };
    return controlOf(bench.person(name), payload).then(({ document }) => document);
  };
  const asked = (document: unknown) => ({
    ...INPUT,
    ...(document === undefined ? {} : { takeOverDocument: document }),
  });
  const checkOrder = async (action: ControlAction, content: unknown) => {
    const arrived = bench.signaled(action, [content]);
    const input = { deployment: DEPLOYMENT, action, arrived, before: [], requestedBy: 'olga' };
    const { verdicts } = await bench.call('checkControls', input);
    return verdicts[0];
  };

  it.each([
    [{ deployment: 'another' }, 'other-deployment'],
    [{ dryRun: true }, 'dry-run'],
    [{ to: 'wset' }, 'refused'],
    [{ alsoGone: ['nroth'] }, 'refused'],
    [{ fencing: 'hook' }, 'no-fence-hook'],
  ])('whose failover is not this one (%j) does not count as the second order', async (other, code) => {
    const arrived = bench.signaled('takeOver', [
      asked(await order('grace')),
      { ...asked(await order('henry')), ...other },
    ]);
    const input = { deployment: DEPLOYMENT, action: 'takeOver', arrived, before: [], requestedBy: 'olga' } as const;
    Object.assign(findDeployment(bench.inventory, DEPLOYMENT).gates.promote, { approvals: 2 });
    const { verdicts, missing } = await bench.call('checkControls', input);
    Object.assign(findDeployment(bench.inventory, DEPLOYMENT).gates.promote, { approvals: 1 });
    expect(verdicts).toMatchObject([{ accepted: true }, { accepted: false, code }]);
    expect(missing).toEqual([expect.stringContaining('1 more of')]);
  });

  it.each<[string, () => unknown, string]>([
    ['nothing but a name', () => undefined, 'a take-over needs a document'],
    ['a document that orders something else', () => order('grace', 'pause'), 'its action is not that of its signal'],
    ['a document about another run', () => order('grace', 'takeOver', 'another'), 'another run'],
    [
      'a document about another failover',
      () => order('grace', 'takeOver', bench.run.rid, { ...INPUT, to: 'west' }),
      'a failover with another input',
    ],
    [
      'a document that names no input',
      () => controlOf(bench.person('grace'), { ...bench.run, action: 'takeOver' }).then(({ document }) => document),
      'a failover with another input',
    ],
    ['a document of somebody who may not decide here', () => order('cleo'), 'is for the approvers'],
    [
      'a name that is only claimed',
      () => ({
        ...{ ...bench.run, action: 'takeOver', reason: 'a test', name: 'ada', iat: 1_700_000_000 },
        inputDigest: failoverInputDigest(INPUT),
      }),
      'ada is only claimed',
    ],
  ])('a run is not taken over by %s, on arrival and when it is used', async (_what, made, why) => {
    const document = await made();
    expect(await checkOrder('takeOver', asked(document))).toMatchObject({
      accepted: false,
      text: expect.stringContaining(why) as string,
    });
    const input = {
      workflowId: bench.run.wid,
      runId: bench.run.rid,
      input: RUNBOOK_INPUTS.drFailover.parse(asked(document)),
    };
    const { code } = await bench.failure('requestTakeOver', input, {
      run: { ...bench.run, wid: 'a-failover', rid: 'its-run' },
    });
    expect(['NOT_APPROVED', 'DOCUMENT_INVALID']).toContain(code);
  });

  it('the answer to a take-over is the receipt of that take-over, even if others are refused meanwhile', async () => {
    const request = async (verdict: string, text: string) => {
      const input = RUNBOOK_INPUTS.drFailover.parse(asked(await order('grace')));
      const [other] = bench.signaled('takeOver', [{ ...input, reason: 'a stranger' }]);
      const refused = { signal: 'takeOver', arrival: other, verdict: 'refused', code: 'x', text: 'a stranger' };
      const own = { ...refused, arrival: (other ?? 0) + 1, verdict, text };
      const statusWith = (...receipts: object[]) => ({ runbook: 'drSwitchover', receipts });
      bench.statuses = [
        statusWith({ ...refused, arrival: (other ?? 0) - 1 }),
        statusWith(refused),
        statusWith(refused, own),
      ];
      const parameters = { workflowId: bench.run.wid, runId: bench.run.rid, input };
      return bench.call('requestTakeOver', parameters, { run: { ...bench.run, wid: 'a-failover', rid: 'its-run' } });
    };
    await expect(request('accepted', 'takes over')).resolves.toBeUndefined();
    await expect(request('refused', 'it is no time for it')).rejects.toThrow('does not become the failover');
  });

  it('a take-over without a document gets the command that makes one, without text of the requester', async () => {
    const reason = `x ${'FORGED '.repeat(40)}`;
    const input = RUNBOOK_INPUTS.drFailover.parse({ ...INPUT, reason });
    const where = { run: { ...bench.run, wid: 'a-failover', rid: 'its-run' } };
    const refused = await bench.failure(
      'requestTakeOver',
      { workflowId: bench.run.wid, runId: bench.run.rid, input },
      where,
    );
    // A terminal wraps a long command to its first column.
    expect(terminalText(String(refused.details['next']))).toEqual([
      'Run',
      expect.stringMatching(/^ {4}runbook start drFailover --deployment \w+ --reason WHY --take-over$/),
      '  with --print for the Web UI',
    ]);
  });

  it('a take-over counts with defaults written out and members in another order', async () => {
    const document = await order('grace');
    const { deployment, ...others } = RUNBOOK_INPUTS.drFailover.parse(asked(document));
    expect(await checkOrder('takeOver', { ...others, deployment })).toMatchObject({ accepted: true });
  });

  it.each(['abort', 'pause', 'resume', 'takeOver'] as const)(
    '%s counts from a person who may decide',
    async (action) => {
      const of = async (ordered: ControlAction) => {
        const document = await order('henry', ordered);
        return action === 'takeOver' ? asked(document) : { document };
      };
      expect(await checkOrder(action, await of(action))).toMatchObject({
        accepted: true,
        by: { name: 'henry', how: 'signed' },
      });
      const other = action === 'abort' ? 'pause' : 'abort';
      expect(await checkOrder(action, await of(other))).toMatchObject({ accepted: false, code: 'refused' });
    },
  );
});

it('in a laboratory a claim opens a gate and decides, also to leave; in both it is shown as a claim', async () => {
  Object.assign(findDeployment(bench.inventory, DEPLOYMENT), { laboratory: true });
  const gate = 'plan' as const;
  const input = { deployment: DEPLOYMENT, gate, planDigest: 'a plan', requestedBy: 'olga', accepted: [] };
  const by = { name: 'ada', how: 'claimed' };
  expect(
    await bench.call('checkApprovals', {
      ...input,
      arrived: bench.signaled('approve', [claim('ada', 'plan', 'a plan')]),
    }),
  ).toMatchObject({ satisfied: true, approvedBy: [by], verdicts: [{ accepted: true, by }] });
  const parked = [{ step: 'Promote west', parkingNo: 1, choices: ['leave'] as const }];
  const decision = { ...bench.run, step: 'Promote west', parkingNo: 1, action: 'leave', reason: 'a claim', iat: 1 };
  const arrived = bench.signaled('decide', [{ ...decision, name: 'ada' }]);
  const { verdicts } = await bench.call('checkDecisions', { deployment: DEPLOYMENT, parked, arrived });
  Object.assign(findDeployment(bench.inventory, DEPLOYMENT), { laboratory: false });
  expect(verdicts).toMatchObject([{ accepted: true, by }]);
});
