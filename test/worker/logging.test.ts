import { createLogger } from '../../src/worker/logging';
import { sdkLogger } from '../../src/worker/sdk-logging';

function logged(write: (log: ReturnType<typeof createLogger>) => void): string {
  const lines: string[] = [];
  write(createLogger('trace', { write: (line) => void lines.push(line) }));
  return lines.join('');
}

const TOKEN = 'hvs.CanaryCanaryCanaryCanary1234';

describe("the worker's log", () => {
  it('keeps the known fields and drops every other one, inputs above all', () => {
    const text = logged((log) =>
      log.info(
        { workflowId: 'deployment:payments', cluster: 'east', input: { share: 'canary' }, args: ['canary'] },
        'hello',
      ),
    );
    expect(JSON.parse(text)).toMatchObject({
      level: 'info',
      workflowId: 'deployment:payments',
      cluster: 'east',
      msg: 'hello',
    });
    expect(text).not.toContain('canary');
  });

  it('says whom a notification did not reach, and why', () => {
    const failed = { target: 'pager', event: 'critical-finding', why: 'answered 403' };
    expect(JSON.parse(logged((log) => log.warn(failed, 'notification not delivered')))).toMatchObject(failed);
  });

  it('redacts texts in messages, fields and errors, and writes no stack', () => {
    const text = logged((log) => {
      log.warn(`got ${TOKEN}`);
      log.warn(
        { state: TOKEN, err: new Error(`refused ${TOKEN}`, { cause: new Error(`because of ${TOKEN}`) }) },
        'failed',
      );
      sdkLogger(log).error('from the SDK', { error: new Error(TOKEN), workflowId: 'w' });
    });
    expect(text.split('\n').filter((line) => line !== '')).toHaveLength(3);
    expect(text).toContain('because of');
    expect(text).not.toContain('Canary');
    expect(text).not.toMatch(/\bat .*logging\.test/);
  });
});
