/** The approver's page in a real browser: what is shown is what is signed, and neither key nor passphrase leaves the page. */
import { createHash } from 'node:crypto';
import { armor, Decrypter } from 'age-encryption';
import type { Page } from 'playwright-core';
import type { WaitingItem } from '../../src/contracts/mailbox';
import type { RunbookPlan } from '../../src/contracts/plan';
import type { RunStatus } from '../../src/contracts/run-status';
import { jsonText } from '../../src/contracts/words';
import { DOCUMENT_TYPES, verifyDocument } from '../../src/documents/documents';
import type { DocumentType } from '../../src/documents/documents';
import { importPublicKey } from '../../src/documents/public-keys';
import type { PublicKeyEntry } from '../../src/documents/public-keys';
import { createHolderKey } from '../../src/keys';
import { Secret } from '../../src/secret';
import { planText } from '../../src/words/plan';
import { BEGUN } from '../cli/support';
import { until } from '../support/by-hand';
import { findChromium } from '../support/chromium';
import { openStandIn } from './stand-in-gateway';
import type { Answer, StandInGateway } from './stand-in-gateway';
import { focused, messageOf, openStage, tabTo } from './support';
import type { Opened, Stage } from './support';

const executable = findChromium();
const inBrowser = executable === undefined ? describe.skip : describe;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';
const PASSPHRASE = 'canary-passphrase-of-grace';

const PLAN: RunbookPlan = {
  runbook: 'drSwitchover',
  deployment: 'payments',
  clusters: [
    { cluster: 'east', clusterId: 'id-east', version: '1.21.4+ent', dr: 'primary', performance: 'disabled' },
    { cluster: 'west', clusterId: 'id-west', version: '1.21.4+ent', dr: 'secondary', performance: 'disabled' },
  ],
  operations: [
    {
      ...({ kind: 'dr', endpoint: 'primary/demote', gate: 'plan' } as const),
      on: { cluster: 'east', clusterId: 'id-east' },
      with: { cluster: 'west', clusterId: 'id-west' },
    },
  ],
  warnings: [
    'Clients have no primary for some seconds.',
    'Nothing holds clients: compare with `runbook status payments`.',
  ],
  steps: [{ step: 'Read both clusters' }, { step: 'Demote east', note: 'the OUTAGE begins' }, { step: 'Promote west' }],
  choices: { go: 'required', lossLimit: 0 },
  inventory: 'digest-of-the-inventory',
  reason: 'planned maintenance',
  requestedBy: 'olga',
};
const digestOf = (text: string) => createHash('sha256').update(text).digest('base64url');

/** A run that waits for an approval of its plan. */
function waitingRun(changes: Partial<RunStatus> = {}, plan: unknown = PLAN): RunStatus {
  const planText = JSON.stringify(plan);
  return {
    ...BEGUN,
    ...{ phase: 'waiting-for-people', planText, planDigest: digestOf(planText) },
    waiting: [
      {
        ...{ for: 'approval', gate: 'plan', planDigest: digestOf(planText), approved: [] },
        ...{ missing: ['1 of grace, henry'], until: Date.parse('2020-11-21T11:00:00Z') },
      },
    ],
    findings: [{ severity: 'warning', code: 'slow', text: 'The follower is slow.' }],
    ...changes,
  };
}

const parkedRun = () =>
  waitingRun({
    phase: 'outage',
    waiting: [
      {
        ...{ for: 'decision', step: 'Promote west', parkingNo: 2, code: 'NOT_CAUGHT_UP' },
        ...{ message: 'West has not caught up.', observed: 'index 7', needed: 'index 9' },
        choices: [
          { action: 'retry', effect: 'asks west again' },
          { action: 'promote-back', effect: 'east becomes primary again' },
        ],
      },
    ],
  });

const named = ({ namespace, workflowId, runId, deployment, runbook, phase }: RunStatus) => ({
  ...{ namespace, workflowId, runId, deployment, runbook, phase },
  ...{ startedAt: '2026-11-21T10:00:00Z', requestedBy: 'olga', reason: 'planned maintenance' },
});

function approvalItem(status: RunStatus): WaitingItem {
  const { planText: plan = '', planDigest = '' } = status;
  return { ...named(status), kind: 'approval', gate: 'plan', planDigest, plan, approvals: [], missing: [] };
}

const RECEIPT = { signal: 'approve', arrival: 1, verdict: 'accepted', code: 'accepted', text: 'accepted' } as const;
const accepted = { ...RECEIPT, from: { name: 'grace', how: 'signed' } } as const;

/** Answers of a gateway with one run: what waits, its status, and a receipt for what is sent. */
function answering(status: RunStatus, items: readonly unknown[], more: object = {}): Answer {
  return ({ path, method }) => {
    if (path === '/v1/waiting') {
      const at = new Date().toISOString();
      return [
        200,
        { schema: 'runbooks/waiting/v1', at, person: 'grace', items, runs: [named(status)], unreachable: [], ...more },
      ];
    }
    const view = { workflowId: status.workflowId, runId: status.runId, state: 'running', status };
    return [200, method === 'GET' ? view : { sent: true, receipt: accepted }];
  };
}

inBrowser(`the approver's page in a browser${because}`, () => {
  let stage: Stage;
  let gateway: StandInGateway;
  let key: PublicKeyEntry;
  let file: string;

  beforeAll(async () => {
    ({ key, file } = await createHolderKey(new Secret('passphrase', PASSPHRASE), 4));
    stage = await openStage(executable ?? '');
    gateway = await openStandIn(key);
  });
  afterAll(async () => {
    await gateway.close();
    await stage.close();
  });

  async function fillKey(page: Page, { origin = gateway.origin, passphrase = PASSPHRASE, name = 'grace' } = {}) {
    await page.fill('#name', name);
    await page.fill('#gateway', origin);
    await page.setInputFiles('#key-file', { name: 'grace.key', mimeType: 'text/plain', buffer: Buffer.from(file) });
    await page.fill('#passphrase', passphrase);
    await page.click('#open');
  }

  /** Opens the page and the key; without an origin no gateway is asked. */
  async function opened(origin: string | undefined, madeFor?: string): Promise<Opened> {
    const open = await stage.openApprover(madeFor);
    await fillKey(open.page, { origin: origin ?? '' });
    await open.page.waitForSelector('#step-2:not([hidden])');
    return open;
  }

  async function paste(page: Page, status: unknown): Promise<void> {
    await until('an empty list', async () => (await page.locator('#items button').count()) === 0);
    await page.fill('#status', typeof status === 'string' ? status : JSON.stringify(status));
    await page.click('#show');
  }

  /** Opens what waits, and waits until it is shown. */
  async function choose(page: Page, entry = '#items button'): Promise<void> {
    await page.click(entry);
    await page.waitForSelector('#step-3:not([hidden])');
  }

  const read = async (jws: string, typ: DocumentType) =>
    (await verifyDocument(jws, typ, () => ({ name: 'grace', publicKey: importPublicKey(key.x) }))).payload;
  const lineOf = async (page: Page) => (JSON.parse(await page.inputValue('#line')) as { document: string }).document;

  /** Waits until an element says something. */
  const says = (page: Page, id: string, expected: string) =>
    until(expected, async () => (await page.innerText(`#${id}`)).includes(expected));

  it('shows what waits, then the plan in the words of the command line, warnings first; signs the digest of what it shows; sends it and shows the receipt; key and passphrase stay', async () => {
    const status = waitingRun();
    gateway.answer = answering(status, [approvalItem(status)]);
    const { page, requests, complaints } = await opened(gateway.origin);
    const [entry = ''] = await page.locator('#items button').allInnerTexts();
    for (const text of ['Approve gate "plan"', 'drSwitchover of payments', 'olga', 'planned maintenance'])
      expect(entry).toContain(text);
    await choose(page);
    await page.click('#request summary');
    const shown = (await page.innerText('#step-3')).replaceAll('\n', ' ');
    const words = planText(PLAN, 'plan');
    const inOrder = [
      ...words.warnings,
      words.requestedBy,
      words.reason,
      ...words.allowed.flatMap(({ title, operations }) => [title, ...operations]),
    ];
    const more = [...words.clusters.flat(), ...words.choices, ...words.steps, words.inventory ?? '', status.runId];
    for (const text of [...inOrder, ...more]) expect(shown).toContain(text.replaceAll('`', ''));
    const places = inOrder.map((text) => shown.indexOf(text.replaceAll('`', '')));
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    for (const text of ['not part of the plan, not signed', 'The follower is slow.', '1 of grace, henry'])
      expect(shown).toContain(text);
    expect(shown).toContain(digestOf(JSON.stringify(PLAN)));

    // Not without the word.
    await page.click('#sign');
    expect(await messageOf(page, 3)).toContain('"approve" or "reject"');
    await page.fill('#verdict', 'approve');
    await page.fill('#comment', 'as agreed by phone');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#receipt .box.good');
    expect(await page.innerText('#receipt')).toBe('approve 1 from grace (signed): accepted');
    const sent = gateway.asked.at(-1);
    expect([sent?.method, sent?.path]).toEqual([
      'POST',
      `/v1/runs/${encodeURIComponent(status.workflowId)}/${status.runId}/approve`,
    ]);
    const { document } = JSON.parse(sent?.body ?? '') as { document: string };
    const { namespace: ns, workflowId: wid, runId: rid } = status;
    expect(await read(document, DOCUMENT_TYPES.approval)).toEqual({
      ...{ ns, wid, rid, gate: 'plan', planDigest: digestOf(JSON.stringify(PLAN)), verdict: 'approve' },
      ...{ comment: 'as agreed by phone', name: 'grace', iat: expect.any(Number) as number },
    });
    expect(sent?.proof).toMatchObject({ aud: gateway.origin, name: 'grace', method: 'POST', path: sent?.path });

    // Neither key nor passphrase: not in what was sent, not in what is left.
    const decrypter = new Decrypter();
    decrypter.addPassphrase(PASSPHRASE);
    const { d } = JSON.parse(await decrypter.decrypt(armor.decode(file), 'text')) as { d: string };
    const everything = gateway.asked.map(({ raw }) => raw).join('\n');
    const left = await page.evaluate<string>(`(async () => JSON.stringify([
      document.documentElement.outerHTML, location.href, document.title, document.cookie, history.state, window.name,
      { ...localStorage }, { ...sessionStorage }, await caches.keys(), await indexedDB.databases(),
      [...document.querySelectorAll('input, textarea')].map((field) => field.value),
    ]))()`);
    for (const text of [everything, left])
      for (const secret of [PASSPHRASE, d, file.slice(40, 80)]) expect(text).not.toContain(secret);
    expect(requests.every((url) => url.startsWith(`${gateway.origin}/v1/`))).toBe(true);
    expect(complaints).toEqual([]);
    await page.click('#step-4 .again');
    expect(await page.isVisible('#step-1')).toBe(true);
    expect(await page.textContent('#step-3')).not.toContain('planned maintenance');
  });

  it('refuses a plan whose text was changed on the way, and one that is not the plan that the list named', async () => {
    const status = waitingRun();
    const changed = waitingRun({}, { ...PLAN, steps: [...PLAN.steps, 'Wipe west'] });
    for (const lie of [
      { ...status, planText: changed.planText },
      { ...changed, waiting: status.waiting },
    ]) {
      gateway.answer = answering(lie, [approvalItem(status)]);
      const { page } = await opened(gateway.origin);
      await page.click('#items button');
      const message = await messageOf(page, 2);
      for (const text of ['does not match the digest', changed.planDigest ?? '', 'Do not approve this run'])
        expect(message).toContain(text);
      expect(await page.isVisible('#step-3')).toBe(false);
      await page.context().close();
    }
  });

  it('says in plain words what is wrong with key, name, clock, address or answer', async () => {
    const { page } = await stage.openApprover();
    const error = (code: string, message: string, more = {}) => ({ error: { code, message, ...more } });
    const cases: readonly (readonly [Parameters<typeof fillKey>[1], Answer, readonly string[]])[] = [
      [{ passphrase: 'wrong' }, () => [200, {}], ['passphrase is wrong', 'password manager']],
      [{ name: '' }, () => [200, {}], ['Your name is missing']],
      [{ origin: 'http://runbooks.example.org' }, () => [200, {}], ['Plain HTTP', 'https address']],
      [{ origin: 'runbooks' }, () => [200, {}], ['not the address of a gateway']],
      [{}, () => [200, { schema: 'runbooks/waiting/v2' }], ['cannot read the answer', 'Get the current page']],
      [
        {},
        () => [401, error('REQUEST_REFUSED', 'The clocks differ.', { observed: 'yours 10:00:00Z, mine 10:05:00Z' })],
        ['The clocks differ.', 'yours 10:00:00Z, mine 10:05:00Z'],
      ],
      [{}, () => [403, error('REQUEST_REFUSED', 'This key is not listed for that name.')], ['This key is not listed']],
    ];
    for (const [given, answer, expected] of cases) {
      gateway.answer = answer;
      await fillKey(page, given);
      await until(expected.join(), async () => {
        const message = await page.innerText('#error-1');
        return (await page.isEnabled('#open')) && expected.every((text) => message.includes(text));
      });
      expect(await page.isVisible('#step-2')).toBe(false);
    }
    await page.fill('#passphrase', '');
    await page.fill('#name', 'grace');
    await page.fill('#gateway', '');
    await page.click('#open');
    expect(await messageOf(page, 1)).toContain('The passphrase of the signing key is missing.');
  });

  it('shows both times if the clocks differ, runs without a worker, and content that it is too old to show', async () => {
    const status = waitingRun();
    const at = new Date(Date.now() - 300_000).toISOString();
    const unreachable = [{ workflowId: 'deployment:orders', runId: 'r' }];
    gateway.answer = answering(status, [{ kind: 'oracle' }], { at, unreachable });
    const { page } = await opened(gateway.origin);
    const notes = await page.innerText('#notes');
    for (const text of [
      'The clocks differ by 5 min',
      at.slice(11, 19),
      'deployment:orders',
      'too old to show you 1 more request',
    ])
      expect(notes).toContain(text);
    expect(await page.innerText('#waiting')).toBe('Nothing else waits for you, as far as the gateway knows.');
  });

  it('sends a document again whose answer was lost, and whose receipt is not there yet: the same one', async () => {
    const status = waitingRun();
    const usual = answering(status, [approvalItem(status)]);
    const sent: string[] = [];
    gateway.answer = (asked) => {
      if (asked.method === 'GET') return usual(asked);
      sent.push(asked.body);
      if (sent.length === 1) return undefined;
      return [200, sent.length === 2 ? { sent: true } : { sent: true, receipt: accepted }];
    };
    const { page } = await opened(gateway.origin);
    await page.click('#items button');
    await page.fill('#verdict', 'reject');
    await page.click('#sign');
    await says(page, 'done', 'no receipt yet');
    expect(sent).toHaveLength(2);
    await page.click('#send');
    await page.waitForSelector('#receipt .box.good');
    expect(new Set(sent).size).toBe(1);
  });

  it('says that a run has ended, before anything is signed and after', async () => {
    const status = waitingRun();
    const usual = answering(status, [approvalItem(status)]);
    gateway.answer = (asked) => {
      if (asked.path.endsWith('/approve'))
        return [409, { error: { code: 'NOT_FOUND', message: 'The run deployment:payments has ended.' } }];
      return usual(asked);
    };
    const { page } = await opened(gateway.origin);
    await page.click('#items button');
    await page.fill('#verdict', 'approve');
    await page.click('#sign');
    expect(await messageOf(page, 4)).toContain('has ended');
    expect([await page.innerText('#done'), await page.isVisible('#send')]).toEqual([
      'The gateway has refused it',
      false,
    ]);

    gateway.answer = (asked) =>
      asked.path === '/v1/waiting' ? usual(asked) : [200, { workflowId: status.workflowId, state: 'completed' }];
    await page.click('#step-4 .back');
    await page.click('#items button');
    const message = await messageOf(page, 2);
    for (const text of ['This run has ended. Nothing was sent.', 'nothing left for you to do'])
      expect(message).toContain(text);
  });

  it('decides on a parked step and aborts a run, with the effects of each choice', async () => {
    const status = parkedRun();
    const { namespace: ns, workflowId: wid, runId: rid, runbook } = status;
    const { step = '', parkingNo = 0 } = { step: 'Promote west', parkingNo: 2 };
    const item = { ...named(status), kind: 'decision', step, parkingNo, failure: {}, choices: [] };
    gateway.answer = answering(status, [item]);
    const { page } = await opened(gateway.origin);
    await choose(page);
    const shown = await page.innerText('#step-3');
    for (const text of [
      'PARKED at "Promote west"',
      'West has not caught up.',
      'observed: index 7',
      'retry: asks west again',
      runbook,
    ])
      expect(shown).toContain(text);
    await page.click('#sign');
    expect(await messageOf(page, 3)).toContain('Choose what the run shall do.');
    await page.check('input[value="promote-back"]');
    await page.click('#sign');
    await says(page, 'error-3', 'The reason is missing.');
    await page.fill('#reason', `here is my share: ${'5ec2e7ab'.repeat(8)}`);
    await page.click('#sign');
    await says(page, 'error-3', 'seems to contain a key share');
    await page.fill('#reason', 'west is stuck');
    await page.click('#sign');
    await page.waitForSelector('#receipt .box');
    const decided = JSON.parse(gateway.asked.at(-1)?.body ?? '') as { document: string };
    expect(await read(decided.document, DOCUMENT_TYPES.decision)).toMatchObject({
      ...{ ns, wid, rid, step, parkingNo, action: 'promote-back', reason: 'west is stuck', name: 'grace' },
    });

    await page.click('#step-4 .back');
    await page.click('#control-part summary');
    await page.click('#runs button');
    await page.check('input[value="abort"]');
    await page.fill('#reason', 'wrong window');
    await page.click('#sign');
    await page.waitForSelector('#receipt .box');
    expect(gateway.asked.at(-1)?.path).toMatch(/\/abort$/);
    const aborted = JSON.parse(gateway.asked.at(-1)?.body ?? '') as { document: string };
    expect(await read(aborted.document, DOCUMENT_TYPES.control)).toMatchObject({
      wid,
      rid,
      action: 'abort',
      name: 'grace',
    });
  });

  it('without a gateway, reads a pasted status and gives one line to pass on; a holder is sent to their own page', async () => {
    const { page, requests } = await opened(undefined);
    for (const [text, expected] of [
      ['Hello', 'not the status of a run'],
      [JSON.stringify({ ...waitingRun(), outcome: 'completed' }), 'This run has ended'],
      [JSON.stringify({ workflowId: 'deployment:payments', state: 'running' }), 'No worker answers'],
    ] as const) {
      await paste(page, text);
      await says(page, 'error-status', expected);
    }
    // As the Web UI shows it, and as the command prints it.
    const status = waitingRun();
    const view = { workflowId: status.workflowId, state: 'running', status };
    for (const given of [JSON.stringify([status], undefined, 2), jsonText(view)]) {
      await paste(page, given);
      await choose(page, '#items button >> text=Approve');
      await page.fill('#verdict', 'approve');
      await page.click('#sign');
      await page.waitForSelector('#step-4:not([hidden])');
      expect(await page.innerText('#done')).toBe('Signed; not sent yet');
      const document = await lineOf(page);
      expect(await read(document, DOCUMENT_TYPES.approval)).toMatchObject({
        planDigest: status.planDigest,
        verdict: 'approve',
      });
      const told = await page.innerText('#by-hand');
      for (const text of [status.workflowId, 'approve', `--name approve --input '{"document":"${document}"}'`])
        expect(told).toContain(text);
      await page.click('#copy');
      await page.waitForSelector('#copied .box.good');
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(JSON.stringify({ document }));
      await page.click('#step-4 .back');
    }
    expect(requests).toEqual([]);

    const asked = { ...named(status), kind: 'share', holder: 'grace', invitation: 'eyJ.the.invitation', until: '' };
    gateway.answer = answering(status, [asked]);
    const other = (await opened(gateway.origin)).page;
    await choose(other);
    expect(await other.innerText('#holder-form')).toContain('Never type your key share into this page.');
    expect([await other.inputValue('#invitation'), await other.isVisible('#sign')]).toEqual([asked.invitation, false]);
  });

  it('shows hostile words as such, a plan of unknown shape as its text, and people without the right to approve', async () => {
    const { page } = await opened(undefined);
    const evil = 'drill\nIMPORTANT: all is well\u001b[2A\u202e<b id="evil">';
    const [wait] = waitingRun().waiting;
    const missing = ['1 of henry'];
    const hostile = waitingRun({}, { ...PLAN, reason: evil, requestedBy: evil });
    await paste(page, { ...hostile, waiting: [{ ...wait, missing, planDigest: hostile.planDigest }] });
    await choose(page, '#items button >> text=Approve');
    const shown = (await page.textContent('#step-3')) ?? '';
    expect(shown).toContain('drill IMPORTANT: all is well[2A<b id="evil">');
    expect(shown).not.toMatch(/[^\P{Cc}\s]|\p{Bidi_Control}/u);
    expect(await page.locator('#evil').count()).toBe(0);
    expect(shown).toContain('grace was not among the people who may approve it');
    await page.click('#step-3 .back');
    const unknown = waitingRun({}, { ...PLAN, shape: 'new' });
    await paste(page, unknown);
    await choose(page, '#items button >> text=Approve');
    const raw = await page.innerText('#step-3');
    for (const text of ['cannot read this plan: it may be too old', '"shape":"new"']) expect(raw).toContain(text);
  });

  it('works by keyboard alone, and has a name for everything that a screen reader reads', async () => {
    const status = waitingRun();
    gateway.answer = answering(status, [approvalItem(status)]);
    const { page } = await stage.openApprover(gateway.origin);
    expect(await page.locator('#step-1').ariaSnapshot()).toMatchSnapshot('step 1');
    expect(await page.isVisible('#gateway')).toBe(false);
    await tabTo(page, 'name');
    await page.keyboard.type('grace');
    await page.setInputFiles('#key-file', { name: 'grace.key', mimeType: 'text/plain', buffer: Buffer.from(file) });
    await tabTo(page, 'passphrase');
    await page.keyboard.type(PASSPHRASE);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-2:not([hidden])');
    expect(await focused(page)).toContain('What waits for you');
    expect(await page.locator('#step-2').ariaSnapshot()).toMatchSnapshot('step 2');
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-3:not([hidden])');
    expect(await focused(page)).toContain('Gate "plan"');
    expect(await page.locator('#step-3').ariaSnapshot()).toMatchSnapshot('step 3');
    await tabTo(page, 'verdict');
    await page.keyboard.type('approve');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#receipt .box.good');
    expect(await page.locator('#step-4').ariaSnapshot()).toMatchSnapshot('step 4');
  });

  it('made for one gateway, reaches no other address; for any, none in plain text; runs no script but its own', async () => {
    const { address, paths } = await stage.serve(() => '');
    const attempts = `(async (address) => {
      window.refused = [];
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => window.refused.push(effectiveDirective));
      try { document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.injected = 1' })); } catch {}
      document.body.append(Object.assign(document.createElement('img'), { src: address + '/image' }));
      await fetch(address + '/fetch').catch(() => undefined);
      navigator.sendBeacon(address + '/beacon');
      return window.injected;
    })`;
    const one = (await stage.openApprover(gateway.origin)).page;
    expect(await one.evaluate(`${attempts}('${address}')`)).toBeUndefined();
    const refused = (page: Page) => page.evaluate<string[]>('[...new Set(window.refused)].sort()');
    await until('every refusal', async () => (await refused(one)).length >= 3);
    expect(await refused(one)).toEqual(['connect-src', 'img-src', 'require-trusted-types-for']);
    expect(paths).toEqual([]);

    const any = (await stage.openApprover()).page;
    await any.evaluate(`${attempts}('http://runbooks.example.org')`);
    await until('every refusal', async () => (await refused(any)).length >= 3);
    expect(await refused(any)).toContain('connect-src');
  });
});
