/** The systemd units of the doors of the gateway: as confined as the one for people, and each with the door of its page. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { page, ROOT } from '../support/documents';

const linesOf = (name: string) =>
  readFileSync(join(ROOT, 'deploy', `replication-runbooks-${name}.service`), 'utf8').split('\n');
/** Directives that confine a process. */
const CONFINES = /^(?:Protect|Restrict|Private|Lock|NoNew|Capability|System|Remove|Limit|Memory|UMask|Unset)/;
const confinement = (name: string) => linesOf(name).filter((line) => CONFINES.test(line));

it.each([
  ['receiver', 'docs/incident-tooling.md'],
  ['metrics', 'docs/monitoring.md'],
  ['mailbox', 'docs/mailbox.md'],
])('the unit of the %s is confined like the gateway, and opens the door that its page shows', (name, file) => {
  expect(confinement('gateway').length).toBeGreaterThan(20);
  expect(confinement(name)).toEqual(confinement('gateway'));
  const [, command = 'none'] = linesOf(name).flatMap(
    (line) => /^ExecStart=\S+ node \S+\/(runbook .+)$/.exec(line) ?? [],
  );
  expect(page(file).text).toContain(command);
  // Plain HTTP leaves no host.
  expect(command).toMatch(/ 127\.0\.0\.1:\d+$/);
  expect(linesOf(name)).toContain('User=replication-runbooks-gateway');
});
