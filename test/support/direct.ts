import { request } from 'undici';
import type { DirectAttempt } from '../../src/contracts/activities';
import type { Waiting } from '../../src/contracts/run-status';
import type { Scenario, TestRun } from './scenario';

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

export async function handIn(run: TestRun, cluster: string, encodedToken: string): Promise<void> {
  await run.handle.signal('submitEncodedToken', { cluster, encodedToken });
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
