import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { historyFromJSON, historyToJSON } from '@temporalio/common/lib/proto-utils';
import { projectRoot } from '../../src/dev-server/locations';
import { temporalClient, uniqueTaskQueue } from '../support/temporal-server';

/**
 * The Temporal packages convert histories with protobufjs 8, while another dependency brings protobufjs 7. When npm puts
 * version 7 on top, each Temporal package gets a copy of version 8 of its own and the conversion fails. The direct
 * dependency in package.json prevents that.
 */
describe('protobufjs', () => {
  it('is one copy for all Temporal packages', () => {
    const modules = join(projectRoot(), 'node_modules');
    const scoped = readdirSync(join(modules, '@temporalio')).map((name) => join(modules, '@temporalio', name));
    const resolved = new Set(
      scoped
        .filter((path) => readFileSync(join(path, 'package.json'), 'utf8').includes('"protobufjs"'))
        .map((path) => require.resolve('protobufjs', { paths: [path] })),
    );
    expect([...resolved]).toEqual([require.resolve('protobufjs', { paths: [projectRoot()] })]);
  });

  it('converts a history to JSON and back', async () => {
    const client = await temporalClient();
    const taskQueue = uniqueTaskQueue('protobufjs');
    const handle = await client.workflow.start('anything', {
      taskQueue,
      workflowId: taskQueue,
      args: [{ name: 'value' }],
    });
    const history = await handle.fetchHistory();
    await handle.terminate('test');
    const again = historyFromJSON(JSON.parse(historyToJSON(history)));
    expect(again.events?.[0]?.workflowExecutionStartedEventAttributes?.taskQueue?.name).toBe(taskQueue);
    expect(historyToJSON(again)).toEqual(historyToJSON(history));
  });
});
