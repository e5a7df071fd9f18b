/** One switchover on the real server, whose approver has only a browser, and is lied to first. */
import { createHash } from 'node:crypto';
import { armor, Encrypter } from 'age-encryption';
import type { KeyObject } from 'node:crypto';
import type { Page } from 'playwright-core';
import { QUERIES } from '../../src/contracts/signals';
import type { SignalName } from '../../src/contracts/signals';
import type { RunStatus } from '../../src/contracts/run-status';
import { openStage } from '../pages/support';
import type { Stage } from '../pages/support';
import { until } from '../support/by-hand';
import { findChromium } from '../support/chromium';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const executable = findChromium();
const inBrowser = executable === undefined ? it.skip : it;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';
const PASSPHRASE = 'passphrase-of-grace';

describe(`an approver with a saved page${because}`, () => {
  let scenario: Scenario;
  let stage: Stage | undefined;
  openScenario((opened) => (scenario = opened));
  afterAll(() => stage?.close());

  /** The key file of a person, as `runbook join` writes it. */
  async function keyFileOf(name: string): Promise<string> {
    const encrypter = new Encrypter();
    encrypter.setPassphrase(PASSPHRASE);
    encrypter.setScryptWorkFactor(4);
    const jwk = (scenario.person(name).key.privateKey as KeyObject).export({ format: 'jwk' });
    return armor.encode(await encrypter.encrypt(JSON.stringify(jwk)));
  }

  async function paste(page: Page, status: RunStatus): Promise<void> {
    await until('an empty list', async () => (await page.locator('#items button').count()) === 0);
    await page.fill('#status', JSON.stringify(status, undefined, 2));
    await page.click('#show');
  }

  /** The line that the page gives, as whoever has it sends it. */
  async function passOn(page: Page, signal: SignalName, send: (input: unknown) => Promise<void>): Promise<void> {
    await page.waitForSelector('#step-4:not([hidden])');
    expect(await page.innerText('#signal')).toBe(signal);
    await send(JSON.parse(await page.inputValue('#line')));
    await page.click('#step-4 .back');
  }

  inBrowser('has the plan of another run refused, approves its own, and aborts the run', async () => {
    stage = await openStage(executable ?? '');
    const { page, requests } = await stage.openApprover();
    await page.fill('#name', 'grace');
    await page.click('#paste-key summary');
    await page.fill('#key-text', await keyFileOf('grace'));
    await page.fill('#passphrase', PASSPHRASE);
    await page.click('#open');
    await page.waitForSelector('#step-2:not([hidden])');

    const run = await scenario.start();
    await run.do('shares');
    await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    const status = await run.handle.query<RunStatus>(QUERIES.status);
    const approve = async (shown: RunStatus) => {
      await paste(page, shown);
      await page.click('#items button >> text=Approve gate "plan"');
      await page.fill('#verdict', 'approve');
      await page.click('#sign');
      await passOn(page, 'approve', (input) => run.handle.signal('approve', input));
    };
    // Whoever shows the page another plan, with its digest, gets a signature that is worth nothing for this run.
    const planText = (status.planText ?? '').replaceAll('west', 'east');
    await approve({ ...status, planText, planDigest: createHash('sha256').update(planText).digest('base64url') });
    expect(await run.receiptOf('approve')).toMatchObject({
      verdict: 'refused',
      text: expect.stringContaining('it is for another plan') as string,
    });
    await approve(status);
    expect(await run.receiptOf('approve', 2)).toMatchObject({
      verdict: 'accepted',
      from: { name: 'grace', how: 'signed' },
    });

    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    await paste(page, await run.handle.query<RunStatus>(QUERIES.status));
    await page.click('#items button >> text=Stop, pause or resume');
    await page.check('input[value="abort"]');
    await page.fill('#reason', 'the end of the test');
    await page.click('#sign');
    await passOn(page, 'abort', (input) => run.handle.signal('abort', input));
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    expect(requests).toEqual([]);
    scenario.shows(await page.content());
  });
});
