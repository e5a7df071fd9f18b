import { request } from 'undici';
import type { DirectAttempt } from '../../src/contracts/activities';
import type { Waiting } from '../../src/contracts/run-status';
import type { Receipt } from '../../src/contracts/run-facts';
import { signalled } from './faults';
import { declineOf } from './people';
import { replayRun } from './replay';
import type { Scenario, TestRun } from './scenario';
import { temporalServer } from './temporal-server';

type Action = Extract<Waiting, { for: 'action' }>;
const HOLDERS = ['ada', 'bert', 'cleo'];
/** Where the shares go, as the instructions say it. */
export type Shown = Pick<DirectAttempt, 'nonce' | 'address'> & { readonly url: string; readonly text: string };

/** What the run shows to holders who enter their shares on a cluster themselves. */
export async function shownFor(run: TestRun, cluster: string, not: readonly string[] = []): Promise<Shown> {
  const waiting = await run.waitsFor('action', (each: Action) => {
    const shown = parsed(each);
    return shown !== undefined && each.what.includes(` on ${cluster} `) && !not.includes(shown.nonce);
  });
  const shown = parsed(waiting);
  if (!shown) throw new Error('nothing is shown');
  return shown;
}

/** As a holder with curl: the share goes to the service alone. */
export async function enter(shown: Shown, share: string): Promise<Readonly<Record<string, unknown>>> {
  const { statusCode, body } = await request(shown.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ key: share, nonce: shown.nonce }),
  });
  const answer = (await body.json()) as Readonly<Record<string, unknown>>;
  if (statusCode !== 200) throw new Error(`${statusCode} ${JSON.stringify(answer)}`);
  return answer;
}

/**
 * Holders enter their shares one after the other; the run sees each to count before the next comes, and the last one by
 * what it makes.
 *
 * @param not - nonces of attempts that are over
 * @returns the encoded token
 */
export async function enterAll(
  scenario: Scenario,
  run: TestRun,
  cluster: string,
  holders: readonly string[] = HOLDERS,
  not: readonly string[] = [],
): Promise<string> {
  const shown = await shownFor(run, cluster, not);
  for (const [before, holder] of holders.slice(0, -1).entries()) {
    await enter(shown, scenario.person(holder).share ?? '');
    await progressOf(run, shown, before + 1);
  }
  return enterLast(scenario, shown, holders.at(-1) ?? '');
}

/**
 * A script with the shares of all holders: nobody looks at the attempt between its first share and its end.
 *
 * @param meanwhile - what is done with the encoded token before anybody looks again
 */
export async function enterUnseen(
  scenario: Scenario,
  cluster: string,
  shown: Shown,
  meanwhile: (encoded: string) => Promise<void> = () => Promise.resolve(),
): Promise<string> {
  const entered = signalled();
  const look = `GET ${new URL(shown.url).pathname.replace(/update$/, 'attempt')}`;
  const held = scenario.service.faults.add({ cluster, endpoint: look, times: Infinity, action: () => entered.promise });
  try {
    for (const holder of HOLDERS.slice(0, -1)) await enter(shown, scenario.person(holder).share ?? '');
    const encoded = await enterLast(scenario, shown, HOLDERS.at(-1) ?? '');
    await meanwhile(encoded);
    return encoded;
  } finally {
    held.remove();
    entered.resolve();
  }
}

async function enterLast(scenario: Scenario, shown: Shown, holder: string): Promise<string> {
  const encoded = (await enter(shown, scenario.person(holder).share ?? ''))['encoded_token'];
  if (typeof encoded !== 'string' || encoded === '') throw new Error('no encoded token');
  return encoded;
}

/** Waits until the run shows so many shares of this attempt. */
export async function progressOf(run: TestRun, { nonce }: Pick<Shown, 'nonce'>, shares: number): Promise<void> {
  await run.waitsFor('action', ({ instructions }) => {
    const text = instructions.join('\n');
    return text.includes(nonce) && text.includes(`${shares} of 3 key shares are in`);
  });
}

/** The whole ceremony on one cluster: each share into the service, the encoded token into the run. */
export async function giveDirectly(scenario: Scenario, run: TestRun, cluster: string): Promise<void> {
  await handIn(run, cluster, await enterAll(scenario, run, cluster));
}

/** A holder says that he cannot enter a share; waits for the receipt. */
export async function declines(scenario: Scenario, run: TestRun, name: string): Promise<Receipt> {
  const { workflowId, runId, receipts, invitation = '' } = await run.status();
  const [, claims = ''] = invitation.split('.');
  const { cid, epoch } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as {
    cid: string;
    epoch: number;
  };
  const about = { ns: temporalServer().namespace, wid: workflowId, rid: runId, cid, epoch };
  const arrival = receipts.filter(({ signal }) => signal === 'decline').length + 1;
  await run.handle.signal('decline', await declineOf(scenario.person(name), about));
  return run.until(`receipt of decline ${arrival}`, (status) =>
    status.receipts.find((each) => each.signal === 'decline' && each.arrival === arrival),
  );
}

export async function handIn(run: TestRun, cluster: string, encodedToken: string): Promise<void> {
  await run.handle.signal('submitEncodedToken', { cluster, encodedToken });
}

/**
 * What is handed in now is looked at only once `goOn` is called.
 *
 * @returns once the first look has begun
 */
export async function heldLooks(
  scenario: Scenario,
  cluster: string,
  handingIn: () => Promise<void>,
): Promise<() => void> {
  const [looks, goOn] = [signalled(), signalled()];
  const held = scenario.service.faults.add({
    ...{ cluster, endpoint: 'GET /v1/sys/health', times: Infinity },
    action: () => {
      looks.resolve();
      return goOn.promise;
    },
  });
  await handingIn();
  await looks.promise;
  return () => {
    held.remove();
    goOn.resolve();
  };
}

/** Every share went to the service, none to Temporal; and the run would go on after a restart of the worker. */
export async function expectClean(scenario: Scenario, run: TestRun, told: unknown): Promise<void> {
  expect(await scenario.leaks([JSON.stringify(told)])).toEqual([]);
  await replayRun(run);
}

function parsed({ instructions }: Action): Shown | undefined {
  const text = instructions.join('\n');
  const nonce = /^Nonce of the attempt: (\S+)$/m.exec(text)?.[1];
  const url = /@- (\S+\/update); unset KEY/.exec(text)?.[1];
  return nonce === undefined || url === undefined ? undefined : { nonce, url, address: new URL(url).origin, text };
}
