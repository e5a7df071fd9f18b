/** Ceremony keys are where they were made: with two workers each key activity reaches the right one, and losing one costs an epoch. */
import { readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { temporal } from '@temporalio/proto';
import { Decrypter } from 'age-encryption';
import { keyTaskQueue } from '../../src/contracts/names';
import type { Report } from '../../src/contracts/report';
import { newSealKey } from '../../src/keys';
import { ceremonyKeyFiles, keyHomes } from '../support/directory';
import { Program } from '../support/program';
import { replayRun } from '../support/replay';
import { Scenario } from '../support/scenario';
import type { TestRun } from '../support/scenario';

jest.setTimeout(240_000);

/** The host of a worker, with a key directory of its own. */
class Host {
  readonly keys: string;
  #worker: Program | undefined;

  constructor(
    private readonly scenario: Scenario,
    private readonly name: string,
  ) {
    this.keys = join(scenario.directory, `keys-${name}`);
  }

  get keyHome(): string {
    return [...keyHomes(this.keys).keys()].join();
  }

  get log(): string {
    return this.#worker?.output ?? '';
  }

  /** @param sealKeys in the place of those that the scenario gives to workers */
  async start(sealKeys?: string): Promise<void> {
    const { directory, environment } = this.scenario;
    const sealKeysFile = join(directory, `seal-keys-${this.name}`);
    if (sealKeys !== undefined) await writeFile(sealKeysFile, sealKeys, { mode: 0o600 });
    const own = { RUNBOOKS_KEY_DIR: this.keys, RUNBOOKS_LOG_LEVEL: 'debug' };
    const given: Record<string, string> = sealKeys === undefined ? {} : { RUNBOOKS_SEAL_KEYS_FILE: sealKeysFile };
    const all = { ...environment, ...own, ...given };
    this.#worker = new Program(join(directory, `home-${this.name}`), all, ['worker']);
    await this.#worker.says('Worker ready');
  }

  async stop(): Promise<void> {
    await this.#worker?.end('SIGTERM');
    this.scenario.shows(this.log);
    this.#worker = undefined;
  }

  /** Names of the key records on this host. */
  records(): string[] {
    return ceremonyKeyFiles(this.keys)
      .filter((path) => path.endsWith('.key'))
      .map((path) => basename(path));
  }
}

type Event = temporal.api.history.v1.IHistoryEvent;

/** The queues on which the key activities of a run were scheduled, in order. */
async function keyQueues(run: TestRun): Promise<readonly (readonly [string, string])[]> {
  return (await run.events()).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
    const queue = scheduled?.taskQueue?.name ?? '';
    return queue.startsWith('runbooks.keys.') ? [[scheduled?.activityType?.name ?? '', queue] as const] : [];
  });
}

/** Every envelope that people sent to a run, as it stands in the history for ever. */
function envelopes(events: readonly Event[]): Buffer[] {
  return events.flatMap(({ workflowExecutionSignaledEventAttributes: signaled }) => {
    const data = signaled?.signalName === 'share' ? signaled.input?.payloads?.[0]?.data : undefined;
    if (!data) return [];
    const { document } = JSON.parse(Buffer.from(data).toString('utf8')) as { readonly document: string };
    const payload = Buffer.from(document.split('.')[1] ?? '', 'base64url').toString('utf8');
    return [Buffer.from((JSON.parse(payload) as { readonly ct: string }).ct, 'base64url')];
  });
}

/** Everything of a directory tree, as text. */
async function everyFile(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  return Promise.all(files.map((entry) => readFile(join(entry.parentPath, entry.name), 'latin1')));
}

/** Tries every age identity in some texts on an envelope. */
async function opensWith(texts: readonly string[], envelope: Buffer): Promise<boolean> {
  const decrypter = new Decrypter();
  for (const identity of texts.flatMap((text) => text.match(/AGE-SECRET-KEY-[A-Z0-9-]+/gi) ?? []))
    decrypter.addIdentity(identity.toUpperCase());
  return decrypter.decrypt(envelope).then(
    () => true,
    () => false,
  );
}

const inHand = (run: TestRun, holder: string) =>
  run.until(`the share of ${holder}`, ({ waiting }) =>
    waiting.some((each) => each.for === 'shares' && each.held.includes(holder)),
  );

describe('two workers with key directories of their own', () => {
  let scenario: Scenario;
  let hosts: readonly [Host, Host];
  let run: TestRun;
  let report: Report;
  let home: Host;
  let other: Host;

  beforeAll(async () => {
    scenario = await Scenario.start({ worker: 'none' });
    hosts = [new Host(scenario, 'one'), new Host(scenario, 'two')];
    await Promise.all(hosts.map((host) => host.start()));
    run = await scenario.tokenCeremony();
    await run.waitsFor('shares');
    const [one, two] = hosts;
    [home, other] = one.records().length > 0 ? [one, two] : [two, one];
  });
  afterAll(async () => {
    await Promise.all(hosts.map((host) => host.stop()));
    await scenario.stop();
  });

  it('the keys are on one of them, and the activities that need them run there', async () => {
    expect(home.keyHome).not.toBe(other.keyHome);
    expect(home.records()).toHaveLength(1);
    expect(other.records()).toEqual([]);
    for (const holder of ['ada', 'bert']) {
      await run.share(holder);
      await inHand(run, holder);
    }
    const queues = await keyQueues(run);
    expect(queues.length).toBeGreaterThanOrEqual(2);
    expect(new Set(queues.map(([, queue]) => queue))).toEqual(new Set([keyTaskQueue(home.keyHome)]));
  });

  it('that one stops: the run asks again with keys of the other one, and finishes there', async () => {
    const [old = ''] = home.records();
    await home.stop();
    await run.share('cleo');
    const again = await run.waitsFor('shares', ({ epoch }) => epoch === 2);
    expect(again.held).toEqual([]);
    const { receipts, findings } = await run.status();
    expect(receipts.find(({ arrival }) => arrival === 3)).toMatchObject({ verdict: 'refused', code: 'keys-gone' });
    expect(findings).toContainEqual(
      expect.objectContaining({
        code: 'ceremony-keys-lost',
        text: expect.stringContaining('WORKER_UNREACHABLE') as string,
      }),
    );
    expect(other.records()).toHaveLength(1);
    for (const holder of ['ada', 'bert', 'cleo']) await run.share(holder, { seq: 2 });
    report = await run.report();
    expect(report.outcome).toBe('completed');
    const late = (await keyQueues(run)).filter(([, queue]) => queue === keyTaskQueue(other.keyHome));
    expect(late.map(([name]) => name)).toEqual(
      expect.arrayContaining(['openEnvelopes', 'startGeneration', 'completeGeneration', 'destroyCeremonyKeys']),
    );
    expect(other.records()).toEqual([]);
    // The one that is away still has its record, which belongs to a run that ended.
    expect(home.records()).toEqual([old]);
    await replayRun(run);
  });

  it('started again it destroys at once the keys of the run that ended', async () => {
    await home.start();
    expect(home.records()).toEqual([]);
    expect(home.log).toContain('run-closed');
  });

  it('afterwards no recorded envelope opens with any key that the workers still have', async () => {
    const old = envelopes(await run.events());
    expect(old).toHaveLength(6);
    run = await scenario.tokenCeremony();
    await run.share('ada');
    await inHand(run, 'ada');
    // What is left: seal keys, the signing key, the ledger, reports, and the keys of another ceremony, which open its own.
    const left = await everyFile(scenario.directory);
    expect(left.join('\n')).toContain('AGE-SECRET-KEY-');
    const [own] = envelopes(await run.events());
    expect(own && (await opensWith(left, own))).toBe(true);
    for (const envelope of old) expect(await opensWith(left, envelope)).toBe(false);
  });

  it('a key directory that is lost costs one epoch', async () => {
    for (const { keys } of hosts) {
      await Promise.all(ceremonyKeyFiles(keys).map((path) => rm(path)));
    }
    await run.share('bert');
    await run.waitsFor('shares', ({ epoch }) => epoch === 2);
    expect((await run.status()).findings).toContainEqual(
      expect.objectContaining({ text: expect.stringContaining('KEY_RECORD_MISSING') as string }),
    );
    await run.control('abort', { reason: 'seen' });
    expect((await run.report()).outcome).toBe('aborted');
    for (const host of hosts) expect(host.records()).toEqual([]);
  });
});

describe('rotation of the seal keys while a run holds a token', () => {
  let scenario: Scenario;
  let host: Host;
  let old = '';
  const next = newSealKey('next').reveal();

  beforeAll(async () => {
    scenario = await Scenario.start({ worker: 'none' });
    host = new Host(scenario, 'one');
    old = (await readFile(scenario.environment['RUNBOOKS_SEAL_KEYS_FILE'] ?? '', 'utf8')).trim();
    await host.start();
  });
  afterAll(async () => {
    await host.stop();
    await scenario.stop();
  });

  it('removed too early it is named; the run parks and says what to do, and continues once it is back behind the new one', async () => {
    const kid = old.split(':')[0] ?? '';
    const run = await scenario.start({ onStuck: 'park' });
    await run.people({ go: false });
    await run.waitsFor('approval', ({ gate }) => gate === 'go');

    await host.stop();
    await host.start(next);
    expect(host.log).toContain(`sealed with key ${kid}, which RUNBOOKS_SEAL_KEYS_FILE does not contain`);
    const ready = await scenario.run('readiness');
    const { points } = (await ready.report()).result as unknown as { readonly points: readonly Point[] };
    const red = points.find(({ id }) => id === 'seal-keys');
    expect(red).toMatchObject({ verdict: 'fail', observed: expect.stringContaining(`needs key ${kid}`) as string });

    // Nobody heeds it: the token of west is wanted, and does not open.
    await run.approve('go', 'henry');
    const parked = await run.waitsFor('decision');
    expect(parked).toMatchObject({
      step: 'Promote west',
      code: 'SEALED_VALUE_INVALID',
      observed: `RUNBOOKS_SEAL_KEYS_FILE lacks the entry ${kid}`,
    });
    expect(parked.next).toContain('after the others');
    expect(parked.choices.map(({ action }) => action)).toContain('retry');
    await host.stop();
    await host.start(`${next},${old}`);
    await run.decide('retry');
    const report = await run.report();
    expect(report).toMatchObject({ outcome: 'completed', parkings: [{ decision: { action: 'retry' } }] });
    scenario.shows(JSON.stringify(report));
    await replayRun(run);
  });
});

interface Point {
  readonly id: string;
  readonly verdict: string;
  readonly observed: string;
}
