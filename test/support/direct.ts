import { request } from 'undici';
import type { DirectAttempt } from '../../src/contracts/activities';
import type { Waiting } from '../../src/contracts/run-status';
import type { Receipt } from '../../src/contracts/run-facts';
import { declineOf } from './people';
import { replayRun } from './replay';
import type { Scenario, TestRun } from './scenario';
import { temporalServer } from './temporal-server';

type Action = Extract<Waiting, { for: 'action' }>;
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

/** Holders enter their shares one after the other, each seen by the run; gives the encoded token. */
export async function enterAll(
  scenario: Scenario,
  run: TestRun,
  cluster: string,
  holders: readonly string[] = ['ada', 'bert', 'cleo'],
  not: readonly string[] = [],
): Promise<string> {
  const shown = await shownFor(run, cluster, not);
  let encoded = '';
  for (const holder of holders) {
    const answer = await enter(shown, scenario.person(holder).share ?? '');
    encoded = textOf(answer['encoded_token']);
  }
  if (encoded === '') throw new Error('no encoded token');
  return encoded;
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

/** Holders enter their shares; each is seen to count before the next. Gives the answer to the last one. */
export async function enterSeen(scenario: Scenario, run: TestRun, shown: Shown): Promise<string> {
  for (const [before, holder] of ['ada', 'bert'].entries()) {
    await enter(shown, scenario.person(holder).share ?? '');
    await run.until('the progress', ({ waiting }) =>
      JSON.stringify(waiting).includes(`${before + 1} of 3 key shares are in`),
    );
  }
  return String((await enter(shown, scenario.person('cleo').share ?? ''))['encoded_token']);
}

/** Every share went to the service, none to Temporal; and the run would go on after a restart of the worker. */
export async function expectClean(scenario: Scenario, run: TestRun, told: unknown): Promise<void> {
  expect(await scenario.leaks([JSON.stringify(told)])).toEqual([]);
  await replayRun(run);
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function parsed({ instructions }: Action): Shown | undefined {
  const text = instructions.join('\n');
  const nonce = /^Nonce of the attempt: (\S+)$/m.exec(text)?.[1];
  const url = /@- (\S+\/update); unset KEY/.exec(text)?.[1];
  return nonce === undefined || url === undefined ? undefined : { nonce, url, address: new URL(url).origin, text };
}
