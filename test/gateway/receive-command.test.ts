/** `runbook gateway --receive`, with the triggers and the commands of docs/incident-tooling.md, behind the door of operators. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { randomUUID } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parse } from 'yaml';
import { cli } from '../cli/support';
import { EXAMPLE } from '../inventory/example';
import { until } from '../support/by-hand';
import { temporaryDirectory } from '../support/directory';
import { codeBlocks, page } from '../support/documents';
import { CERTIFICATE_HEADER, openTestDoor } from '../support/door';
import { temporalClient, temporalServer, uniqueTaskQueue } from '../support/temporal-server';

const directory = temporaryDirectory('receive-command');
const taskQueue = uniqueTaskQueue('receive');
const secretFile = join(directory, 'secret');
const PAGE = page('docs/incident-tooling.md');

/** The example of the page, about a deployment of this test. */
async function inventoryWith(deployment: string, triggers: string): Promise<string> {
  const file = join(directory, `${deployment}.yaml`);
  const text = `${EXAMPLE}${triggers}`.replaceAll('payments', deployment);
  await writeFile(file, text.replaceAll(/\/etc\/replication-runbooks\/[a-z]+-secret/g, secretFile));
  return file;
}
/** The blocks of the page that are triggers. */
const triggersOfPage = codeBlocks(PAGE, 'yaml').filter((block) => Object.hasOwn(parse(block) as object, 'triggers'));

beforeAll(() => writeFile(secretFile, `${randomUUID()}\n`));

it('starts a plan by the recipe of its page, with the rights of operators, and once per request ID', async () => {
  const door = await openTestDoor(taskQueue);
  const deployment = `recipe-${randomUUID().slice(0, 8)}`;
  const stop = new AbortController();
  let said = '';
  const ended = cli(['gateway', '--receive', '127.0.0.1:0'], {
    env: {
      TEMPORAL_ADDRESS: door.addresses.operators,
      TEMPORAL_NAMESPACE: temporalServer().namespace,
      [`TEMPORAL_GRPC_META_${CERTIFICATE_HEADER.toUpperCase().replaceAll('-', '_')}`]: 'the receiver',
      RUNBOOKS_INVENTORY: await inventoryWith(deployment, triggersOfPage.find((block) => block.includes('hmac')) ?? ''),
      RUNBOOKS_TASK_QUEUE: taskQueue,
    },
    stop: stop.signal,
    hear: (line) => (said += `${line}\n`),
  });
  try {
    await until('where it listens', () => said.includes('namespace'));
    const [, address = ''] = /on (127\S+)/.exec(said) ?? [];
    const recipe = codeBlocks(PAGE, 'sh').find((block) => block.includes('curl')) ?? '';
    const job = async (requestId: string) => {
      const env = {
        PATH: process.env['PATH'] ?? '',
        GATEWAY: `http://${address}`,
        REQUEST_ID: requestId,
        SECRET_FILE: secretFile,
      };
      const child = spawn('bash', ['-euc', recipe], { env, stdio: ['ignore', 'pipe', 'inherit'] });
      let out = '';
      child.stdout.on('data', (chunk: Buffer) => void (out += chunk.toString()));
      const [code] = (await once(child, 'close')) as [number];
      expect([code, out]).toEqual([0, expect.stringContaining('{')]);
      return JSON.parse(out) as {
        readonly duplicate: boolean;
        readonly run: { readonly workflowId: string; readonly runId: string };
      };
    };
    const [first, again, other] = [await job('CHG-1'), await job('CHG-1'), await job('CHG-2')];
    expect([first.duplicate, again.duplicate, other.duplicate]).toEqual([false, true, false]);
    expect(again.run).toEqual(first.run);
    const client = await temporalClient();
    const { type, memo } = await client.workflow.getHandle(first.run.workflowId).describe();
    expect([type, memo?.['incident']]).toEqual(['drSwitchover', 'change:CHG-1']);
    for (const { workflowId } of [first.run, other.run])
      await client.workflow.getHandle(workflowId).terminate('the end of the test');
    expect(said).toContain('Trigger change started drSwitchover for change:CHG-1');
  } finally {
    stop.abort();
    expect((await ended).code).toBe(0);
    await door.close();
  }
});

describe('does not open', () => {
  const plain = triggersOfPage[0] ?? '';
  it.each([
    ['without a trigger', '', ['--receive', '127.0.0.1:0'], /has no triggers/],
    ['in plain HTTP on a network', plain, ['--receive', '0.0.0.0:0'], /Plain HTTP on 0.0.0.0:0 would show secrets/],
    [
      'with half of its TLS settings',
      plain,
      ['--receive', '127.0.0.1:0', '--tls-cert', 'x'],
      /TLS settings are incomplete/,
    ],
    [
      'with a trigger that changes the service',
      plain.replace('drFailover', 'drReindex'),
      ['--receive', '127.0.0.1:0'],
      /a trigger starts readiness/,
    ],
    [
      'without a secret',
      plain.replace('pagerduty-secret', 'missing/secret'),
      ['--receive', '127.0.0.1:0'],
      /is not available: ENOENT/,
    ],
    ['without an address', plain, [], /no door to open/],
    ['for operators alone', plain, ['--operators', '127.0.0.1:0'], /no door to open/],
    ['on an address that is not here', plain, ['--receive', '127.0.0.1:99999'], /cannot listen on/],
  ])('%s', async (_what, triggers, words, expected) => {
    const RUNBOOKS_INVENTORY = await inventoryWith(`closed-${randomUUID().slice(0, 8)}`, triggers);
    // One that opens ends at once.
    const { code, err } = await cli(['gateway', ...words], { env: { RUNBOOKS_INVENTORY }, stop: AbortSignal.abort() });
    expect([code === 0, err]).toEqual([false, expect.stringMatching(expected)]);
  });
});
