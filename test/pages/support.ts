import { createServer } from 'node:http';
import type { Server } from 'node:http';
import { pathToFileURL } from 'node:url';
import type { Browser, Page } from 'playwright-core';
import { buildPage } from '../../scripts/bundle-pages';
import { fillPage } from '../../src/cli/commands/share';
import { formatPublicKey } from '../../src/keys';
import type { CreatedInvitation, InvitationFacts, KeyRecords, SigningKey } from '../../src/keys';
import { HolderBench } from '../cli/support';
import { closeAtOnce, listenOnLoopback } from '../../src/simulator';
import { invitationFacts } from '../keys/builders';
import { until } from '../support/by-hand';
import { startChromium } from '../support/chromium';

/** A deployment's workers, as far as a holder meets them, and a browser. */
export interface Stage {
  readonly workersKey: SigningKey;
  readonly records: KeyRecords;
  readonly browser: Browser;
  /** The page as it is published. */
  readonly html: string;
  invite(changes?: Partial<InvitationFacts>, now?: number): Promise<CreatedInvitation>;
  /** Opens a page in a context of its own; without keys the published one. */
  open(keys?: string, gateway?: string): Promise<Opened>;
  /** Opens the approver's page; without a gateway the published one. */
  openApprover(gateway?: string): Promise<Opened>;
  /** A web server that says what was asked of it. */
  serve(answer: (path: string) => string): Promise<{ readonly address: string; readonly paths: readonly string[] }>;
  close(): Promise<void>;
}

/** A page that is open, and what it asked of the network. */
export interface Opened {
  readonly page: Page;
  /** Every address that was asked for, but the file itself. */
  readonly requests: readonly string[];
  /** Errors and warnings of the browser's console, and exceptions. */
  readonly complaints: readonly string[];
}

export async function openStage(executable: string): Promise<Stage> {
  const [bench, { html }, approver, browser] = await Promise.all([
    HolderBench.open(),
    buildPage('holder-page'),
    buildPage('approver-page'),
    startChromium(executable),
  ]);
  const { workersKey, records } = bench;
  const servers: Server[] = [];
  let epoch = 0;
  let files = 0;
  return {
    workersKey,
    records,
    browser,
    html,
    invite: (changes, now) => bench.invite({ ...invitationFacts({ epoch: ++epoch }), ...changes }, workersKey, now),
    open: async (keys = '', gateway) => {
      const file = await bench.file(`page-${++files}.html`, fillPage(html, { keys, gateway }));
      return visit(browser, pathToFileURL(file).href);
    },
    openApprover: async (gateway) => {
      const file = await bench.file(`page-${++files}.html`, fillPage(approver.html, { gateway }));
      return visit(browser, pathToFileURL(file).href);
    },
    serve: async (answer) => {
      const paths: string[] = [];
      const server = createServer(({ url = '' }, response) => {
        paths.push(url);
        response.setHeader('content-type', 'text/html').end(answer(url));
      });
      servers.push(server);
      return { address: `http://127.0.0.1:${await listenOnLoopback(server)}`, paths };
    },
    close: async () => {
      await Promise.all(servers.map(closeAtOnce));
      await browser.close();
      await bench.close();
    },
  };
}

/** Opens an address and waits until the page can be used, or says why not. */
export async function visit(browser: Browser, address: string): Promise<Opened> {
  const context = await browser.newContext({ permissions: ['clipboard-read', 'clipboard-write'] });
  const page = await context.newPage();
  page.setDefaultTimeout(90_000);
  const requests: string[] = [];
  const complaints: string[] = [];
  context.on('request', (request) => {
    if (request.url() !== address) requests.push(request.url());
  });
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.message));
  await page.goto(address);
  await page.waitForSelector('#step-1:not([hidden]), #warnings .box');
  return { page, requests, complaints };
}

/** The pin of a stage as it is written into a page. */
export function pinOf({ workersKey }: Stage): string {
  return formatPublicKey(workersKey);
}

/** Text of the message below a step, once there is one. */
export async function messageOf(page: Page, step: number): Promise<string> {
  return (await page.waitForSelector(`#error-${step} .box`)).innerText();
}

/** Step 1: pastes the invitation, says who answers. */
export async function check(page: Page, invitation: string, holder: string): Promise<void> {
  await page.fill('#invitation', invitation);
  await page.fill('#holder', holder);
  await page.click('#check');
}

/** Step 1 where it does not go on: waits until what is wrong is said. */
export async function checkRefused(page: Page, invitation: string, holder: string, expected: string): Promise<void> {
  await check(page, invitation, holder);
  // The page's own policy forbids to wait inside of it.
  const isSaid = async () => (await page.isEnabled('#check')) && (await page.innerText('#error-1')).includes(expected);
  await until(expected, isSaid);
}

/** Step 2: agrees to what is asked. */
export async function agree(page: Page, typed: string): Promise<void> {
  await page.waitForSelector('#step-2:not([hidden])');
  await page.fill('#cluster', typed);
  await page.click('#agree');
  await page.waitForSelector('#step-3:not([hidden])');
}

/** Steps 3 and 4: encrypts and copies; gives what is in the clipboard then. */
export async function encryptAndCopy(page: Page): Promise<unknown> {
  await page.click('#encrypt');
  await page.waitForSelector('#step-4:not([hidden])');
  await page.click('#copy');
  await page.waitForSelector('#copied .box.good');
  return JSON.parse(await page.evaluate<string>('navigator.clipboard.readText()'));
}

/** What has the focus: its ID, otherwise its text. */
export function focused(page: Page): Promise<string> {
  return page.evaluate<string>('document.activeElement.id || document.activeElement.textContent');
}

/** Presses the Tab key until the element has the focus. */
export async function tabTo(page: Page, id: string): Promise<void> {
  for (let presses = 0; (await focused(page)) !== id; presses += 1) {
    if (presses > 15) throw new Error(`The Tab key does not reach ${id}, but ${await focused(page)}.`);
    await page.keyboard.press('Tab');
  }
}
