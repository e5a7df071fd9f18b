/** People who have a saved page, their key and a gateway, and no access to Temporal: from the message to the receipt. */
import { KeyObject } from 'node:crypto';
import { armor, Encrypter } from 'age-encryption';
import { formatPublicKey } from '../../src/keys';
import { cli } from '../cli/support';
import { openStage } from '../pages/support';
import type { Opened, Stage } from '../pages/support';
import { until } from '../support/by-hand';
import { findChromium } from '../support/chromium';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const executable = findChromium();
const inBrowser = executable === undefined ? it.skip : it;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';
const PASSPHRASE = 'canary-passphrase-of-everybody';

describe(`people with saved pages and a gateway${because}`, () => {
  let scenario: Scenario;
  let stage: Stage | undefined;
  let origin = '';
  const stop = new AbortController();
  let ended: Promise<unknown> = Promise.resolve();
  openScenario((opened) => (scenario = opened));
  beforeAll(async () => {
    const said: string[] = [];
    ended = cli(['gateway', '--people', '127.0.0.1:0'], {
      env: scenario.environment,
      stop: stop.signal,
      hear: (line) => void said.push(line),
    });
    await until('where the gateway listens', () => {
      origin = /http:\/\/\S+/.exec(said.join('\n'))?.[0] ?? '';
      return origin !== '';
    });
  });
  afterAll(async () => {
    await stage?.close();
    stop.abort();
    await ended;
  });

  /** The key file of a person, as `runbook join` makes it. */
  async function keyFileOf(name: string) {
    const { privateKey } = scenario.person(name).key;
    if (!(privateKey instanceof KeyObject)) throw new Error('not a key of the test');
    const encrypter = new Encrypter();
    encrypter.setPassphrase(PASSPHRASE);
    encrypter.setScryptWorkFactor(4);
    const content = armor.encode(await encrypter.encrypt(JSON.stringify(privateKey.export({ format: 'jwk' }))));
    return { name: `${name}.key`, mimeType: 'text/plain', buffer: Buffer.from(content) };
  }
  async function share(name: string, on: Stage): Promise<Opened> {
    const opened = await on.open(formatPublicKey(scenario.workersKey), origin);
    const { page } = opened;
    const file = await keyFileOf(name);
    await page.fill('#holder', name);
    await page.click('#fetch-part summary');
    await page.setInputFiles('#fetch-key-file', file);
    await page.fill('#fetch-passphrase', PASSPHRASE);
    await page.click('#fetch');
    await page.waitForSelector('#step-2:not([hidden])');
    await page.fill('#cluster', 'west');
    await page.click('#agree');
    await page.waitForSelector('#step-3:not([hidden])');
    await page.fill('#share', scenario.person(name).share ?? '');
    await page.click('#encrypt');
    await page.click('#send');
    await page.waitForSelector('#receipt .box.good');
    expect(await page.innerText('#receipt')).toContain(`from ${name} (signed): accepted`);
    return opened;
  }

  inBrowser('holders and approvers come from the saved page to their receipt', async () => {
    stage = await openStage(executable ?? '');
    const run = await scenario.start();
    await run.waitsFor('shares');
    const holders = [await share('ada', stage), await share('bert', stage), await share('cleo', stage)];
    await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    const approver = await stage.openApprover(origin);
    const { page } = approver;
    const file = await keyFileOf('grace');
    await page.fill('#name', 'grace');
    await page.setInputFiles('#key-file', file);
    await page.fill('#passphrase', PASSPHRASE);
    await page.click('#open');
    await page.waitForSelector('#step-2:not([hidden])');
    await page.click('#items button >> text=Approve gate "plan"');
    await page.waitForSelector('#step-3:not([hidden])');
    await page.fill('#verdict', 'approve');
    await page.click('#sign');
    await page.waitForSelector('#receipt .box.good');
    expect(await page.innerText('#receipt')).toContain('from grace (signed): accepted');

    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    await page.click('#step-4 .back');
    await page.waitForSelector('#step-2:not([hidden])');
    await page.click('#control-part summary');
    await page.click('#runs button');
    await page.check('input[value="abort"]');
    await page.fill('#reason', 'the end of the test');
    await page.click('#sign');
    await page.waitForSelector('#receipt .box.good');
    expect(await run.report()).toMatchObject({ outcome: 'aborted' });
    for (const { requests, complaints } of [...holders, approver]) {
      expect(requests.every((url) => url.startsWith(`${origin}/v1/`))).toBe(true);
      expect(complaints).toEqual([]);
    }
    scenario.shows(await page.content());
  });
});
