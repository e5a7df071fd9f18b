/** What `runbook runbooks` and the options of `start` say of the inputs is what the schemas say. */
import { inputFields } from '../../src/cli/run-input';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { RUNBOOK_INPUTS } from '../../src/contracts/runbook-inputs';
import { cli } from './support';

it('lists every runbook with what it is for', async () => {
  const { code, out } = await cli(['runbooks', '--json'], {});
  expect(code).toBe(0);
  expect((JSON.parse(out) as { name: string }[]).map(({ name }) => name)).toEqual([...RUNBOOK_NAMES]);
});

it.each(RUNBOOK_NAMES)('tells the fields of %s: those that are needed are refused when they are missing', (name) => {
  const fields = inputFields(name);
  expect(fields.map((field) => field.name)).toContain('deployment');
  const parsed = RUNBOOK_INPUTS[name].safeParse({});
  const missing = (parsed.error?.issues ?? []).map(({ path }) => String(path[0]));
  for (const { required, name: field } of fields) if (required) expect(missing).toContain(field);
});

it('prints one runbook as columns, and an unknown one with the list of the known', async () => {
  const { out } = await cli(['runbooks', 'drFailover'], {});
  expect(out).toMatch(/fencing +one of auto, hook, attested +default "auto"/);
  const { code, err } = await cli(['runbooks', 'drFailOver'], {});
  expect(code).not.toBe(0);
  expect(err).toContain('drFailover');
});

it('--set gives any field, as JSON or as text, and names a mistake before anything is started', async () => {
  const { code, err } = await cli(
    [
      'start',
      'drReindex',
      '--deployment',
      'payments',
      '--reason',
      'a test',
      '--set',
      'diff=maybe',
      '--set',
      'cluster=west',
    ],
    {},
  );
  expect(code).toBe(3);
  expect(err).toContain('diff');
  expect(err).not.toContain('cluster:');
});
