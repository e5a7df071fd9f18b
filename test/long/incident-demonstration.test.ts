import { demonstrateIncident } from '../../src/cli/demo/incident';
import { temporaryDirectory } from '../support/directory';

jest.setTimeout(300_000);

const directory = temporaryDirectory('incident');

it('goes from a killed primary to resolved alerts: notification, webhook, failover, with the time of each', async () => {
  const lines: string[] = [];
  const say = (line: string) => void lines.push(...line.split('\n'));
  const stop = AbortSignal.timeout(280_000);
  const passed = await demonstrateIncident(directory, { say, verbose: false, stop });
  if (!passed) throw new Error(lines.join('\n'));
  // The program adds one at the beginning and one at the end.
  expect(lines.length).toBeLessThanOrEqual(40);
  const order = [
    'olga creates the Schedule of walSampler',
    '== KILLED: east',
    '== PAGER [CRITICAL] payments: No cluster of DR set main answers as primary',
    'Alertmanager sends its alert to the gateway: 202: Started drFailover',
    'Alertmanager repeats its alert to the gateway: 202: drFailover was started by an earlier message',
    '== PAGER [CRITICAL] payments: drFailover from east to west waits for ',
    ' Promote west: done',
    '== BACK: clients have a primary again',
    '== PAGER resolved: drFailover from east to west',
    'Completed: drFailover of payments (east to west)',
    '== PAGER resolved: No cluster of DR set main answers as primary',
    'From the kill to the notification',
  ];
  const places = order.map((text) => lines.findIndex((line) => line.includes(text)));
  expect(places).not.toContain(-1);
  expect(places).toEqual(places.toSorted((a, b) => a - b));
  const [notified = 0, waits = 0, written = 0, resolved = 0] = [
    ...lines
      .slice(places.at(-1))
      .join(' ')
      .matchAll(/(\d+\.\d) s\b/g),
  ].map(([, seconds]) => Number(seconds));
  expect([notified > 0, waits >= notified, written > waits, resolved > written]).toEqual([true, true, true, true]);
  expect(notified).toBeLessThanOrEqual(90);
  expect(lines.filter((line) => /worker:|undefined|never/.test(line))).toEqual([]);
});
