import { createHash, randomUUID } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { clock } from '../../src/contracts/words';
import { RunbookError } from '../../src/errors';
import { addPin, formatPublicKey } from '../../src/keys';
import type * as render from '../../src/report/render';
import { tooSlow } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { Program } from '../support/program';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';
import { cli } from './support';
import type { Typed } from './support';

/** Holds the files of a report back: the run has its ending then, and is open. */
const mockWriting = { held: Promise.resolve() };
jest.mock('../../src/report/render', () => {
  const actual = jest.requireActual<typeof render>('../../src/report/render');
  const writeReportFiles: typeof render.writeReportFiles = async (report, folder) => {
    await mockWriting.held;
    return actual.writeReportFiles(report, folder);
  };
  return { ...actual, writeReportFiles };
});

function environment(taskQueue: string) {
  const { address, namespace, uiAddress } = temporalServer();
  return {
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    RUNBOOKS_TEMPORAL_UI: uiAddress,
    RUNBOOKS_TASK_QUEUE: taskQueue,
  };
}

const directory = temporaryDirectory('cli');

/** Runs a command line whose words hold no spaces. */
const typed = (line: string, given: Typed) => cli(line.split(' '), given);

describe('without a worker', () => {
  const env = environment(uniqueTaskQueue('nobody-polls'));
  const deployment = `alone-${process.pid}`;
  const workflowId = `deployment:${deployment}`;
  const input = JSON.stringify({ deployment, to: 'west', reason: 'nobody works on it' });
  afterAll(async () => {
    await (await temporalClient()).workflow.getHandle(workflowId).terminate('end of the test');
  });

  /** Of a run whose worker took a task with hundreds of signals, and never gets to its end. */
  async function statusOfFlooded() {
    const client = await temporalClient();
    const { namespace } = temporalServer();
    const flooded = { workflowId: `deployment:flooded-${process.pid}`, taskQueue: uniqueTaskQueue('flooded') };
    const run = await client.workflow.start('drSwitchover', { ...flooded, args: [{}] });
    await Promise.all(Array.from({ length: 520 }, (_, index) => run.signal('decide', { name: `nobody ${index}` })));
    const asked = { namespace, taskQueue: { name: flooded.taskQueue }, identity: '1@host/0.1.0' };
    await client.withDeadline(Date.now() + 60_000, () => client.workflowService.pollWorkflowTaskQueue(asked));
    const seen = await cli(['status', flooded.workflowId], { env });
    await run.terminate();
    return seen;
  }
  // The command waits long for a worker that polls: beside the other tests.
  let ofFlooded: ReturnType<typeof statusOfFlooded>;
  beforeAll(() => {
    ofFlooded = statusOfFlooded();
    ofFlooded.catch(() => undefined);
  });

  it('start gives the run under the lock, and a second start names the run that holds it; every command ends: each says that no worker answers, and what to do', async () => {
    const first = await cli(['start', 'drSwitchover', '--input', input, '--json'], { env });
    expect(first.code).toBe(0);
    const started = JSON.parse(first.out) as { workflowId: string; runId: string; link: string };
    expect(started.workflowId).toBe(workflowId);
    expect(started.link).toContain(encodeURIComponent(workflowId));
    const file = join(directory, 'switchover.json');
    await writeFile(file, input);
    const sent = /No worker answers for this run. Nothing was sent.\n +observed: no worker polls[^]*runbook worker\n/;
    const commands: readonly (readonly [line: string, code: number, said: RegExp])[] = [
      [`start drSwitchover --input ${file}`, 3, new RegExp(`LOCK_HELD[^]*${started.runId}`)],
      [`status ${workflowId}`, 4, /no worker answers; as of event 2; no worker polls task queue/],
      [`watch ${workflowId} --timeout 10ms`, 4, /No worker answers. Why:\n +runbook status [^]*Stopped watching/],
      [
        `report ${workflowId}`,
        4,
        /No worker answers, and only a worker can produce[^]*no worker polls[^]*runbook worker/,
      ],
      [`approve ${workflowId} --gate plan --name grace`, 4, sent],
      [`decide ${workflowId} --action retry`, 4, sent],
      [`share ${workflowId} --holder ada`, 4, sent],
      [`readiness ${deployment} --timeout 0.2`, 4, new RegExp(`continues: runbook status readiness:${deployment}`)],
      ['list --open --json --limit 200', 0, new RegExp(`"workflowId":"${workflowId}"`)],
    ];
    const all = commands.map(async ([line, code, said]) => {
      const { out, err, ...ended } = await typed(line, { env });
      expect([line, ended.code, `${out}\n${err}`]).toEqual([line, code, expect.stringMatching(said)]);
    });
    await Promise.all(all);
  });

  it('plan and readiness say within 3 s that no worker polls, keep waiting, and end when the person ends them', async () => {
    const ended = async (...words: string[]) => {
      const stop = new AbortController();
      const heard: string[] = [];
      const hear = (line: string): void => {
        heard.push(line);
        stop.abort();
      };
      const { code, err } = await cli(words, { env, stop: stop.signal, hear });
      expect(heard[0]).toMatch(/^Waiting for the (plan|check), \d\.0 s: no worker polls task queue nobody-polls/);
      expect([code, err]).toEqual([4, expect.stringContaining('Stopped waiting')]);
    };
    const both = () => Promise.all([ended('plan', 'drSwitchover', '--input', input), ended('readiness', deployment)]);
    expect(await tooSlow(3_000, both)).toEqual([]);
  });

  it('plan ends with 4 by itself if no worker polls, at the latest after its time', async () => {
    const ended = (...more: string[]) => cli(['plan', 'drSwitchover', '--input', input, ...more], { env });
    for (const { code, out, err } of await Promise.all([ended(), ended('--timeout', '0.2')]))
      expect([code, out, err]).toEqual([4, '', expect.stringContaining('Stopped waiting; the plan continues')]);
  });

  it('the program ends by SIGINT with 130 and by SIGTERM with 143 if no worker polls', async () => {
    const endedBy = async (signal: 'SIGINT' | 'SIGTERM') => {
      const program = new Program(directory, env, ['plan', 'drSwitchover', '--input', input]);
      await program.says('no worker polls');
      program.child.kill(signal);
      return program.ended;
    };
    expect(await Promise.all([endedBy('SIGINT'), endedBy('SIGTERM')])).toEqual([130, 143]);
  });

  it('doctor shows which versions of this program poll, if they differ from its own', async () => {
    const client = await temporalClient();
    const { namespace } = temporalServer();
    const old = uniqueTaskQueue('old-version');
    const end = new AbortController();
    const asked = { namespace, taskQueue: { name: old }, identity: '1@host/0.0.1' };
    const poll = () =>
      client.withDeadline(Date.now() + 60_000, () => client.workflowService.pollWorkflowTaskQueue(asked));
    // As many as it takes to reach each partition of the queue.
    const polling = Array.from({ length: 24 }, () => client.withAbortSignal(end.signal, poll).catch(() => undefined));
    const env = environment(old);
    let seen = await cli(['doctor'], { env });
    for (let look = 0; look < 5 && !seen.out.includes('last polled'); look += 1) seen = await cli(['doctor'], { env });
    end.abort();
    await Promise.all(polling);
    expect(seen.out).toMatch(/ {2}warn {2}workers\n +observed: .*, version 0\.0\.1\n +needed: +this program is /);
    expect(seen.code).toBe(7);
  });

  it('status says of a workflow that is no runbook that it has none, not that a worker is missing', async () => {
    const workflowId = `Foreign:${process.pid}`;
    const options = { workflowId, taskQueue: uniqueTaskQueue('foreign') };
    const foreign = await (await temporalClient()).workflow.start('nothingOfOurs', options);
    const { out } = await cli(['status', workflowId], { env });
    await foreign.terminate();
    expect(out).toMatch(/nothingOfOurs {2}running\n.*\n {2}not a runbook, so it has no status; no worker polls/);
    expect(out).not.toContain('runbook worker');
  });

  it('list shows a Workflow ID that looks like a line of ours in quotes', async () => {
    const workflowId = `CRITICAL: call  555 ${process.pid}`;
    const options = { workflowId, taskQueue: uniqueTaskQueue('hostile'), args: [{}] };
    const hostile = await (await temporalClient()).workflow.start('walSampler', options);
    const { out } = await cli(['list', '--open', '--all', '--limit', '200'], { env });
    await hostile.terminate();
    expect(out.split('\n').filter((line) => /^'CRITICAL: call 555 \d+' {2}/.test(line))).toHaveLength(1);
  });

  it('a word without a colon is a deployment, or else the Workflow ID of a run, and the command says which', async () => {
    const client = await temporalClient();
    const [word, both] = [`my-run-${process.pid}`, `both-${process.pid}`];
    const taskQueue = uniqueTaskQueue('words');
    const runs = [word, both, `deployment:${both}`];
    for (const each of runs) await client.workflow.start('walSampler', { workflowId: each, taskQueue, args: [{}] });
    for (const command of ['status', 'watch', 'report', 'approve', 'pause', 'share', 'decide', 'invitation']) {
      const options = { approve: ['--gate', 'plan'], share: ['--holder', 'ada'], decide: ['--action', 'retry'] };
      const asked = { pause: ['--name', 'grace', '--timeout', '0'], watch: ['--timeout', '0'] };
      const more = { ...options, ...asked }[command] ?? [];
      const { code, err } = await cli([command, word, ...more], { env });
      expect([command, code]).toEqual([command, 4]);
      expect(err).toContain(
        `There is no run of a deployment "${word}". This is the run with the Workflow ID "${word}".`,
      );
    }
    const ofDeployment = await cli(['status', both], { env });
    for (const each of runs) await client.workflow.getHandle(each).terminate();
    expect([ofDeployment.out.split(' ')[0], ofDeployment.err]).toEqual([`deployment:${both}`, '']);
    const none = await cli(['status', `none-${process.pid}`], { env });
    expect([none.code, none.err]).toEqual([5, expect.stringContaining(`"deployment:none-${process.pid}"`)]);
  });

  it('list has a headline, and shows how runs ended; samplers and plans only with --all', async () => {
    const client = await temporalClient();
    const taskQueue = uniqueTaskQueue('listed');
    const sampler = await client.workflow.start('walSampler', { workflowId: `sampler-${taskQueue}`, taskQueue });
    const plan = await client.workflow.start('drSwitchover', { workflowId: `plan:alone:${taskQueue}`, taskQueue });
    const lost = await client.workflow.start('drSwitchover', { workflowId: `deployment:${taskQueue}`, taskQueue });
    await lost.terminate();
    const lines = async (...more: string[]) =>
      (await cli(['list', '--limit', '200', ...more], { env })).out
        .split('\n')
        .filter((line) => /^WORK|listed/.test(line));
    const isListed = (given: readonly string[], id: string) => given.some((line) => line.startsWith(`${id} `));
    let all = await lines('--all');
    // The list of the server comes a moment later.
    while (![sampler, plan, lost].every(({ workflowId: id }) => isListed(all, id))) all = await lines('--all');
    const [head, ...rows] = await lines();
    for (const each of [sampler, plan]) await each.terminate();
    expect(head).toMatch(/^WORKFLOW ID +RUNBOOK +DEPLOYMENT +STATE +STARTED +DURATION +WAITS FOR$/);
    expect(rows).toEqual([
      expect.stringMatching(/ drSwitchover +- +terminated +\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ +[\d.]+ m?s$/),
    ]);
  });

  it('doctor gives the command that creates a missing namespace', async () => {
    const namespace = `none-${randomUUID().slice(0, 8)}`;
    const { out } = await cli(['doctor'], { env: { ...env, TEMPORAL_NAMESPACE: namespace } });
    expect(out).toContain(`temporal operator namespace create -n ${namespace} --retention 30d`);
  });

  it('status of a flooded run whose worker polls and does not answer says what to do', async () => {
    const { code, out } = await ofFlooded;
    expect([code, out]).toEqual([4, expect.stringContaining('docs/on-call.md, "A flood of signals"')]);
    expect(out).toMatch(
      /last polled .* ago\. A worker polls, but does not answer for this run: check its log\. A flood/,
    );
    expect(out).not.toContain('Start one');
  });

  it('a run that does not exist is reported, with exit code 5', async () => {
    for (const words of [
      ['status'],
      ['watch'],
      ['report'],
      ['share', '--holder', 'ada'],
      ['pause', '--name', 'grace'],
    ]) {
      const [name = '', ...more] = words;
      const { code, err } = await cli([name, 'deployment:nonexistent', ...more], { env });
      expect([name, code, err]).toEqual([name, 5, expect.stringContaining('NOT_FOUND')]);
    }
  });
});

describe('a switchover by the command line alone', () => {
  let scenario: Scenario;
  let env: Readonly<Record<string, string>>;
  openScenario((opened) => (scenario = opened), { attestation: 'claimed' });
  beforeAll(async () => {
    const pins = join(directory, 'pins.json');
    await addPin(pins, 'test', formatPublicKey(scenario.workersKey));
    env = { ...environment(scenario.taskQueue), RUNBOOKS_PINS: pins };
  });

  it('plan shows every precondition, takes no lock and makes no changes; it ends with 3 if a run would be refused', async () => {
    const { code, out } = await typed(`plan drSwitchover --deployment ${scenario.name} --to west --reason look`, {
      env,
    });
    expect(code).toBe(0);
    expect(out).toMatch(/ok +DR primary \(east\): primary/);
    expect(out).toContain('Nothing was changed.');
    expect(scenario.calls('east', 'dr/primary/demote')).toBe(0);
    const refused = await typed(`plan drSwitchover --deployment ${scenario.name} --to east --reason wrong`, { env });
    expect([refused.code, refused.out]).toEqual([3, expect.stringContaining('A run would be refused')]);
  });

  it('start reports only runs that a worker has taken up as started: an unknown deployment or cluster is reported at once', async () => {
    const { code, out, err } = await typed('start drSwitchover --deployment paymnets --to west --reason test', { env });
    expect([code, out, err]).toEqual([5, '', expect.stringContaining('The inventory has no deployment "paymnets"')]);
    for (const [runbook, field] of [
      ['drSwitchover', '--to'],
      ['drRejoin', '--cluster'],
    ]) {
      const words = `start ${runbook} --deployment ${scenario.name} ${field} atlantis --reason test`;
      const wrong = await typed(words, { env });
      expect([wrong.code, wrong.out]).toEqual([5, '']);
      expect(wrong.err).toMatch(/^Error UNKNOWN_CLUSTER: .*no cluster "atlantis"[^]*needed: one of: east, /);
    }
  });

  it('a refused run gives its reason first in watch, status and the Web UI', async () => {
    const { workflowId } = scenario;
    const start = `start drSwitchover --deployment ${scenario.name} --to east --reason wrong`;
    await typed(start, { env });
    const watched = await cli(['watch', scenario.name], { env });
    const why = 'FAILED: a DR primary and its secondary';
    expect([watched.code, watched.out]).toEqual([3, expect.stringContaining(why)]);
    expect(watched.out).toContain('the input of an earlier run, which the Web UI fills into its start form?');
    const [, summary = ''] = watched.out.split('\nRefused: ');
    expect(summary).toMatch(new RegExp(`^drSwitchover of .*\n +${why}`));
    const { out } = await cli(['status', workflowId], { env });
    expect(out).toMatch(/, refused\n/);
    const listed = async () => (await cli(['list', '--limit', '200'], { env })).out;
    const refused = new RegExp(`^${workflowId} +drSwitchover +${scenario.name} +refused: PRECONDITION_FAILED `, 'm');
    while (!refused.test(await listed()));
    expect(out.split('\n').find((line) => line.startsWith('FAILED'))).toContain(why);
    const metadata = await scenario.attach().handle.query<object>('__temporal_workflow_metadata');
    expect(JSON.stringify(metadata)).toContain(`**FAILED**`);
  });

  it('report puts no digest on a run that has its ending and is still open, which writes its files then', async () => {
    let release = () => {};
    mockWriting.held = new Promise<void>((resolve) => (release = resolve));
    await typed(`start drSwitchover --deployment ${scenario.name} --to east --reason wrong`, { env });
    const run = scenario.attach();
    await run.until('its ending', ({ phase }) => phase === 'finished');
    const file = join(directory, 'ending.json');
    const early = await cli(['report', scenario.name, '--json'], { env });
    await writeFile(file, early.out);
    const proven = await cli(['report', '--verify', file], { env });
    const open = (await run.handle.describe()).status.name;
    release();
    await run.failure();
    expect([open, JSON.parse(early.out)]).toEqual(['RUNNING', expect.objectContaining({ outcome: 'refused' })]);
    expect(early.out).not.toContain('sha256');
    expect([proven.code, proven.err]).toEqual([3, expect.stringContaining('contains no digest of a history')]);
    expect((await cli(['report', scenario.name, '--json'], { env })).out).toContain('"sha256"');
  });

  it('the person who gives an input as a whole is named as requester, unless it names somebody itself', async () => {
    const asked = async (more: object, person: object) => {
      const input = JSON.stringify({ deployment: scenario.name, to: 'west', reason: 'test', ...more });
      const { out } = await cli(['plan', 'drSwitchover', '--input', input, '--json'], { env: { ...env, ...person } });
      return (JSON.parse(out) as { requestedBy?: { name: string } }).requestedBy?.name;
    };
    const grace = { RUNBOOKS_PERSON: 'grace' };
    const names = [await asked({}, grace), await asked({ requestedBy: 'henry' }, grace), await asked({}, {})];
    expect(names).toEqual(['grace', 'henry', undefined]);
  });

  it('start, share, approve and watch lead to the end; status names each missing person with the command', async () => {
    const { workflowId } = scenario;
    const input = `drSwitchover --deployment ${scenario.name} --to west --requested-by olga --reason`;
    const looked = JSON.parse((await typed(`plan ${input} test --json`, { env })).out) as { workflowId: string };
    const { planText = '' } = await scenario.attach(looked.workflowId).status();
    // The digest of one plan in 64 begins with a hyphen, and is no option: by its reason, this one does.
    const digestWith = (reason: string) =>
      createHash('sha256')
        .update(planText.replace('"reason":"test"', `"reason":"${reason}"`))
        .digest('base64url');
    const reasons = Array.from({ length: 2_000 }, (_, index) => `test-${index}`);
    const reason = reasons.find((each) => digestWith(each).startsWith('-')) ?? 'test';
    expect((await typed(`start ${input} ${reason}`, { env })).code).toBe(0);
    const run = scenario.attach();
    await run.waitsFor('shares');

    const early = await cli(['status', workflowId], { env });
    expect(early.code).toBe(0);
    // To be copied as it is, each command stands alone in its line.
    expect(early.out.split('\n').map((line) => line.trim())).toContain(`runbook share ${workflowId} --holder ada`);
    expect(early.out).toContain(`runbook approve ${workflowId} --gate plan`);

    await writeFile(join(directory, 'invitation'), (await cli(['invitation', workflowId], { env })).out);
    for (const holder of ['ada', 'bert', 'cleo']) {
      const given = await cli(['share', workflowId, '--holder', holder, '--confirm', 'west', '--share-file', '-'], {
        env,
        input: scenario.person(holder).share ?? '',
      });
      expect([given.code, given.out]).toEqual([0, expect.stringContaining(`${holder} (UNVERIFIED): accepted`)]);
      scenario.shows(given.out, given.err);
    }
    const { planDigest } = await run.waitsFor('approval', ({ gate }) => gate === 'plan');
    expect(planDigest).toBe(digestWith(reason));
    // Who attaches later sees when each receipt was given, not when they look.
    const [gaveAt = 0] = (await run.status()).receipts.map(({ at }) => at);
    const attached = await cli(['watch', workflowId, '--timeout', '0'], { env });
    expect(attached.out).toContain(`${clock(gaveAt)} share 1 from`);
    const named = ['--yes', '--plan-digest', planDigest];
    const stranger = await cli(['approve', workflowId, '--gate', 'plan', '--name', 'eve', ...named], { env });
    expect(stranger.code).toBe(3);
    // Said first of all, before the plan.
    expect(stranger.err).toMatch(
      /^IMPORTANT: eve was not among the people who may approve it[^]*waits for 1 of .*grace/,
    );
    // Nobody signs whatever happens to be shown.
    const blind = await cli(['approve', workflowId, '--gate', 'plan', '--name', 'grace', '--yes'], { env });
    expect([blind.code, blind.err]).toEqual([3, expect.stringContaining('--plan-digest is missing')]);
    const dark = await cli(['approve', workflowId, '--gate', 'plan', '--name', 'grace'], { env, interactive: false });
    expect([dark.code, dark.questions]).toEqual([3, []]);
    expect(dark.err).toMatch(/no terminal for a confirmation; nothing was sent[^]*--yes --plan-digest DIGEST/);
    const narrow = { env, answers: ['approve'], columns: 80 };
    const plan = await cli(['approve', workflowId, '--gate', 'plan', '--name', 'grace'], narrow);
    expect(plan.err.split('\n').filter((line) => line.length > 80)).toEqual([]);
    expect([plan.code, plan.err]).toEqual([0, expect.stringContaining('Demote east')]);
    expect(plan.err).toMatch(/^ {2}Requested by: olga, as claimed at the start; unverified$/m);
    expect(plan.err).not.toMatch(/does not ask for gate|who may approve it/);
    await run.waitsFor('approval', ({ gate }) => gate === 'go');
    // Who ends the command at its question has said nothing, also of a gate that is closed: which they are told.
    const cancel = () => {
      throw new RunbookError('REQUEST_CANCELLED', 'You ended the command at a prompt.');
    };
    const again = await cli(['approve', workflowId, '--gate', 'plan', '--name', 'grace'], { env, answers: [cancel] });
    expect([again.code, again.err]).toEqual([130, expect.stringContaining('does not ask for gate "plan" now')]);
    const go = `approve ${workflowId} --gate go --name henry --yes --plan-digest`;
    expect((await typed(`${go} another`, { env })).code).toBe(3);
    expect((await typed(`${go} ${planDigest}`, { env })).code).toBe(0);

    const watched = await cli(['watch', workflowId], { env });
    expect([watched.code, watched.out]).toEqual([0, expect.stringContaining('Completed: drSwitchover of ')]);
    expect(watched.out).toContain('== BACK: clients have a primary again after ');
    const completed = new RegExp(`^${workflowId} +drSwitchover +${scenario.name} +completed +`, 'm');
    while (!completed.test((await cli(['list', '--limit', '200'], { env })).out));
    const listed = JSON.parse((await cli(['list', '--limit', '200', '--json'], { env })).out) as { runs: unknown[] };
    expect(listed).toMatchObject({ schema: 'replication-runbooks/list/v1' });
    const facts = { workflowId, deployment: scenario.name, state: 'completed', outcome: 'completed' };
    expect(listed.runs).toContainEqual(expect.objectContaining({ ...facts, durationMs: expect.any(Number) as number }));

    const late = await cli(['approve', workflowId, '--gate', 'go', '--name', 'grace'], { env });
    expect([late.code, late.questions, late.err]).toEqual([
      5,
      [],
      expect.stringMatching(/NOT_FOUND: .* has ended[^]*completed since/),
    ]);
    expect(late.err).not.toContain('Demote east');

    const markdown = await cli(['report', workflowId], { env });
    expect(markdown.out).toContain('Completed');
    expect((await cli(['report', workflowId, '--format', 'pdf'], { env })).code).toBe(2);
    scenario.shows(watched.out, markdown.out);
  });

  it('report --verify proves each form of a report by the history, and shows any change to it', async () => {
    const fileOf = (format: string) => join(directory, `report.${format}`);
    const verify = (file: string) => cli(['report', '--verify', file], { env });
    for (const format of ['json', 'md', 'html']) {
      const file = fileOf(format);
      await writeFile(file, (await cli(['report', scenario.name, '--format', format], { env })).out);
      const { code, out } = await verify(file);
      expect([code, out]).toEqual([0, expect.stringMatching(/^History: match.*events 1 to \d+.*\nContents: match/)]);
    }
    const empty = createHash('sha256').digest('hex');
    const changes: readonly (readonly [format: string, from: RegExp, to: string, code: number, said: RegExp])[] = [
      ['json', /"totalMs": \d+/, '"totalMs": 1', 3, /history matches, but[^]*line \d+: +"totalMs": 1/],
      ['md', /Completed: /, 'Completed well: ', 3, /line \d+: .*Completed well/],
      ['html', /Completed: /, 'Completed well: ', 3, /line \d+: .*Completed well/],
      // Another reader may take the first of two members, or show both.
      ['json', /(\s+)("outcome": )"\w+",/, '$1$2"refused",$&', 3, /history matches, but[^]*"outcome": "refused"/],
      ['json', /"sha256": "./, '"sha256": "x', 3, /differs from the history of this report/],
      [
        'json',
        /"events": \d+,\s+"sha256": "\w+"/,
        `"events": 0, "sha256": "${empty}"`,
        3,
        /differs from the history of this report/,
      ],
      ['json', /"runId": "[^"]*"/, `"runId": "${randomUUID()}"`, 5, /no longer has the history of this run/],
      ['md', /<!--.*-->/, '', 3, /contains no digest/],
    ];
    for (const [format, from, to, code, said] of changes) {
      const file = fileOf(`changed.${format}`);
      const whole = await readFile(fileOf(format), 'utf8');
      expect(whole).toMatch(from);
      await writeFile(file, whole.replace(from, to));
      const verified = await verify(file);
      expect([verified.code, verified.err, verified.out]).toEqual([code, expect.stringMatching(said), '']);
    }
    expect((await cli(['report'], { env })).code).toBe(3);
  });

  it('decide and abort get receipts, and the exit code of watch shows that the run ended otherwise', async () => {
    const workflowId = scenario.workflowId;
    const start = `start drSwitchover --deployment ${scenario.name} --to east --reason test`;
    expect((await typed(start, { env })).code).toBe(0);
    await scenario.attach().waitsFor('shares');
    // An open run goes on: what it says so far can be proven by nothing.
    const open = join(directory, 'open.json');
    await writeFile(open, (await cli(['report', workflowId, '--json'], { env })).out);
    const old = ['--holder', 'ada', '--invitation-file', join(directory, 'invitation'), '--confirm', 'west'];
    const late = await cli(['share', scenario.name, ...old], { env });
    expect([late.code, late.err, late.questions]).toEqual([3, expect.stringContaining('is from an earlier run'), []]);
    const decided = await cli(['decide', workflowId, '--action', 'retry', '--name', 'grace'], { env });
    expect([decided.code, decided.err]).toEqual([3, expect.stringContaining('no parked step')]);
    const nobody = await cli(['decide', scenario.name, '--parking', '7', '--action', 'retry'], { env });
    expect([nobody.code, nobody.err]).toEqual([3, expect.stringContaining('needed: parking 7')]);
    // A deployment is enough to name its run, and one variable says who gives the order.
    const grace = { ...env, RUNBOOKS_PERSON: 'grace' };
    const aborted = await cli(['abort', scenario.name, '--reason', 'wrong window'], { env: grace });
    expect([aborted.code, aborted.out]).toEqual([0, expect.stringContaining('abort 1 from grace')]);
    expect((await cli(['watch', workflowId], { env })).code).toBe(6);
    const ended = await cli(['status', workflowId], { env });
    expect(ended.out).toContain(', aborted');
    expect(ended.out).not.toMatch(/PAUSED|Waits for|phase /);
    const early = await cli(['report', '--verify', open], { env });
    expect([early.code, early.err]).toEqual([
      3,
      expect.stringMatching(/no digest of a history[^]*a report of an ended run/),
    ]);
  });
});
