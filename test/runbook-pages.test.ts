/** Every runbook has a page that is true: it is linked, its JSON starts the runbook, and it names every field. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { inputFields, RUNBOOK_PURPOSES } from '../src/cli/commands/runbooks';
import { RUNBOOK_NAMES } from '../src/contracts/names';
import { RUNBOOK_INPUTS } from '../src/contracts/runbook-inputs';
import { GATE_NAMES } from '../src/contracts/gates';
import { ENDPOINT_GATES } from '../src/contracts/operations';
import { ROOT, codeBlocks, page } from './support/documents';
import { EVENT_LIMITS } from './support/matrix';

const README = page('README.md').text;
/** Members that many runbooks take are told once. */
const COMMON_MEMBERS = page('docs/runbooks/README.md').text;

/** `drFailover` stands in docs/runbooks/dr-failover.md. */
function pathOf(runbook: string): string {
  return `docs/runbooks/${runbook.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}.md`;
}

/** The first cells of the table of members. */
function membersOf(text: string): string[] {
  const [, table = ''] = /^\| member \| default \| meaning \|\n(.*?)\n\n/ms.exec(text) ?? [];
  const cells = table.split('\n').map((row) => row.split(' | ')[0] ?? '');
  return cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, member = '']) => member));
}

it('the members that many runbooks take are members of some', () => {
  const taken = new Set(RUNBOOK_NAMES.flatMap((name) => inputFields(name).map((field) => field.name)));
  expect(membersOf(COMMON_MEMBERS).length).toBeGreaterThan(5);
  expect(membersOf(COMMON_MEMBERS).filter((member) => !taken.has(member))).toEqual([]);
});

describe.each(RUNBOOK_NAMES)('the page of %s', (name) => {
  it('exists, and the README links it in a row with its purpose', () => {
    expect(existsSync(join(ROOT, pathOf(name)))).toBe(true);
    const row = README.split('\n').find((line) => line.startsWith(`| \`${name}\` | `));
    expect(row).toContain(RUNBOOK_PURPOSES[name]);
    expect(row).toContain(`(${pathOf(name)})`);
  });

  it('has a JSON object that the runbook accepts', () => {
    const [first] = codeBlocks(page(pathOf(name)), 'json');
    expect(RUNBOOK_INPUTS[name].safeParse(JSON.parse(first ?? '{}')).error).toBeUndefined();
  });

  it('names every field of its input', () => {
    const { text } = page(pathOf(name));
    const common = text.includes('(README.md#common-members)') ? COMMON_MEMBERS : '';
    const missing = inputFields(name).filter(
      (field) => !text.includes(`\`${field.name}\``) && !common.includes(`\n| \`${field.name}\` | `),
    );
    expect(missing.map((field) => field.name)).toEqual([]);
  });

  it('names no member that the runbook does not take', () => {
    const taken = inputFields(name).map((field) => field.name);
    expect(membersOf(page(pathOf(name)).text).filter((member) => !taken.includes(member))).toEqual([]);
  });

  it('says when to use it, whom it asks for what, what it changes, how to undo it', () => {
    const text = page(pathOf(name)).text.toLowerCase();
    for (const words of ['when to use it', 'who must act', 'what it changes', 'how to undo']) {
      expect([words, text.includes(words)]).toEqual([words, true]);
    }
  });
});

it('docs/benchmarks.md has the event limits that the tests guard, of every runbook', () => {
  const rows = [...page('docs/benchmarks.md').text.matchAll(/^\| `(\w+)` \| (\d+) \|$/gm)];
  expect(Object.fromEntries(rows.map(([, name, limit]) => [name, Number(limit)]))).toEqual(EVENT_LIMITS);
  expect(Object.keys(EVENT_LIMITS).sort()).toEqual([...RUNBOOK_NAMES].sort());
});

it('every gate belongs to a dangerous operation, or is used by the planned switchover alone', () => {
  const used = new Set<string>([...Object.values(ENDPOINT_GATES).flat(), 'go']);
  expect(GATE_NAMES.filter((gate) => !used.has(gate))).toEqual([]);
});
