import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ServiceAnswer } from '../../src/simulator/messages';
import { CHANGING, drPrimaries, statuses } from '../support/faults';
import { Lane, runLanes } from '../support/lane';
import { Scenario } from '../support/scenario';

const SNAPSHOT = 'GET /v1/sys/storage/raft/snapshot';
const directory = mkdtempSync(join(tmpdir(), 'snapshots-'));
afterAll(() => rmSync(directory, { recursive: true, force: true }));

const world = new Lane(() => Scenario.start({ deployment: { snapshot: { to: directory } } }));

describe('a snapshot before what cannot be undone', () => {
  runLanes(world);

  world.it(
    'of the old primary comes before clients are held; one that is not whole parks while it serves',
    async (scenario) => {
      const cut = (_cluster: unknown, answer?: ServiceAnswer) =>
        void Object.assign(answer ?? {}, { bytes: answer?.bytes?.subarray(0, 1_000) });
      scenario.service.faults.add({ cluster: 'east', endpoint: SNAPSHOT, when: 'after', action: cut });
      const run = await scenario.run('drSwitchover', { to: 'west' });
      await run.people();
      const parked = await run.waitsFor('decision');
      expect(parked).toMatchObject({ step: 'Take a snapshot of east', code: 'RESPONSE_INVALID' });
      expect(parked.choices.map(({ action }) => action)).toEqual(['retry', 'skip', 'abort']);
      expect(drPrimaries(scenario)).toEqual(['east']);
      expect(await readdir(directory)).toEqual([]);
      await run.decide('retry');
      const report = await run.report();

      expect(report.outcome).toBe('completed');
      const names = report.steps.map(({ name }) => name);
      expect(names.indexOf('Take a snapshot of east')).toBeLessThan(names.indexOf('Demote east'));
      const [file = ''] = await readdir(directory);
      const content = await readFile(join(directory, file));
      const sum = createHash('sha256').update(content).digest('hex');
      const told = `snapshot of east: ${join(directory, file)}, ${content.length} bytes, SHA-256 ${sum}`;
      const step = report.steps.findLast(({ name }) => name === 'Take a snapshot of east');
      expect(step?.activities.map(({ observed }) => observed)).toEqual([told]);
      expect(statuses(scenario, 'east', CHANGING.demote)).toEqual([200]);
      // Nothing of it went through Temporal.
    },
  );
});
