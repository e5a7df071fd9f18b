import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Report } from '../../src/contracts/report';
import { summaryLines } from '../../src/cli/read-report';
import { headlineOf } from '../../src/report/headlines';
import { renderHtml, renderMarkdown, writeReportFiles } from '../../src/report/render';
import { reportOf } from '../../src/report/report-of-run';
import type { ActivitySpecification } from './support/run-builder';
import { INPUT, RunBuilder, when } from './support/run-builder';
import { DIGEST, finishedSwitchover, observation } from './support/switchover';

const plan = { kind: 'gate', gate: 'plan', planDigest: DIGEST } as const;
const report = (builder: RunBuilder): Report => reportOf(builder.build());

describe('Markdown', () => {
  it('says outcome, outage, loss, what is left to do, roles, who approved and the time line first', () => {
    const run = finishedSwitchover().left('The promotion of west was under way.').terminatedAt(68_499, 'wrong button');
    const [first, rest = ''] = renderMarkdown(reportOf(run)).split('\n## Time line\n');
    expect(first).toBe(`# drSwitchover: payments

**Terminated: drSwitchover of payments (east to west) was ended from outside and ran no clean-up. Service is not proven to be back.**

- ✗ Outage since 2026-11-21 01:01:05 UTC, no end known. So far: service 3.3 s, machine 0.1 s, people 0 s.
- No data lost: Both clusters have the same Merkle root.
- ✗ Without DR protection since 2026-11-21 01:01:05 UTC.

## Figures

| Figure | Value | Objective |
| --- | --- | --- |
| Outage | ✗ 3.4 s, no end known |  |
| Data loss | none |  |
| Without DR protection | ✗ not restored |  |
| Whole run | 1 min 9 s |  |
| Left to do | ⚠ 3 things |  |

The inventory sets no objectives (\`objectives\` of the deployment).

## Left to do

- The promotion of west was under way.
- A DR operation token of west was generated and is not proven deleted. Treat it as valid, and delete it with secondary/operation-token/delete.
- The keys of ceremony c-1, round 1 on key home home-1 were not destroyed. Check that a worker with that key directory runs and removes them.

## Roles

After: not read. The run did not read the clusters after the last change that it ordered.

The roles as a table

| Cluster | Before, read at 01:00:00 UTC | After |
| --- | --- | --- |
| east | DR primary, performance not read | ⚠ not read |

## Approvals and shares

- Requested by: ⚠ olga (UNVERIFIED)
- Reason: Planned maintenance in the eastern data centre

Gates, where people approve what comes next.

| Gate | State | By | Opened | Closed |
| --- | --- | --- | --- | --- |
| plan | approved | olga (signed) | 01:00:01 | 01:00:40 |
| go | approved | olga (signed) | 01:00:42 | 01:01:00 |
`);
    const titles = [...rest.matchAll(/\n## (.*)\n/g)].map(([, title]) => title);
    expect(titles).toEqual([
      ...['Findings', 'Input', 'Plan', 'Preconditions', 'Operation tokens'],
      ...['Run', 'Activities and codes', 'Receipts', 'Final state'],
    ]);
    expect(rest).toContain('- **CRITICAL** The run was terminated during phase outage, reason given: wrong button.');
  });

  it('leaves addresses as they are, for a terminal and to be copied', () => {
    const text = 'GET sys/leader at https://10.1.0.4:8200, see www.example.org';
    expect(renderMarkdown(reportOf(finishedSwitchover().left(text).terminatedAt(68_499)))).toContain(`- ${text}\n`);
  });

  it('never says that no work is left beside a token that is kept, and gives each fact about it once', () => {
    const later =
      'Later: the next run on payments deletes the operation token of west, which stays sealed in the record until west is a DR secondary again.';
    const ended = report(finishedSwitchover());
    const text = renderMarkdown(ended);
    const sectionOf = (title: string) => text.split(`## ${title}\n`)[1]?.split('##')[0];
    expect(sectionOf('Left to do')).toBe(`\nNothing right now.\n\n- ${later}\n\n`);
    expect(sectionOf('Findings')).toBe('\nNone.\n\n');
    expect(sectionOf('Operation tokens')).toContain('| west | ⚠ kept | west is primary');
    const summary = summaryLines(ended).filter((line) => line.includes('token of west'));
    expect(summary).toEqual([
      expect.stringMatching(/^ {2}Operation token of west: kept: west is primary/),
      `  ${later}`,
    ]);
    // Where a run was closed from outside, its list of what is left says it.
    const closed = renderMarkdown(reportOf(finishedSwitchover().terminatedAt(87_000)));
    expect(closed.split(later)).toHaveLength(2);
  });

  it('shows a small run in full', () => {
    const demotion = {
      ...{ type: 'demotePrimary', step: { name: 'Demote east', number: 1 }, input: { cluster: 'east' } },
      ...{ scheduledAt: 1_000, endedAt: 2_000, tries: 2 },
      failure: { code: 'NOT_APPROVED', message: 'one approval is missing' },
    };
    const history = new RunBuilder(
      [demotion],
      [
        { ...plan, state: 'opened', at: when(100), by: [] },
        { ...plan, state: 'approved', at: when(900), by: [{ name: 'paul', how: 'claimed' }] },
        { kind: 'control', control: 'abort', at: when(950), by: { name: 'mia', how: 'claimed' }, reason: 'stop' },
      ],
    );
    expect(renderMarkdown(report(history.ended(2_300, 'aborted')))).toMatchSnapshot();
  });

  it('shows the end of a run that ended: its gate, the last state of both kinds, both clusters', () => {
    const performance = { mode: 'secondary', state: 'stream-wals', lastRemoteWal: '42', peers: [] };
    const read = {
      ...{ type: 'readDeployment', scheduledAt: 2, endedAt: 9 },
      result: { observations: [{ ...observation('east', 'primary', 5), performance }] },
    };
    const opened = { ...plan, state: 'opened', at: when(1), by: [] } as const;
    const result = { from: 'east', to: 'west' };
    const history = new RunBuilder([read], [opened], 'drFailover').ended(20, 'completed', { result });
    const text = renderMarkdown(report(history));
    expect(text).toContain('**Completed: drFailover of payments (east to west).**');
    expect(text).toContain('| open when the run ended |');
    expect(text).not.toContain('still open');
    expect(text).toMatch(/\| east \|.*\| primary, running, WAL 4711 \| secondary, stream-wals, WAL 42 \|/);
  });

  it('is no plain success if a failover may have lost data or leaves no DR protection', () => {
    const done = report(
      new RunBuilder([], [], 'drFailover').ended(20, 'completed', { result: { from: 'east', to: 'west' } }),
    );
    const lossless: Report = { ...done, loss: { loss: 'none', why: 'equal' }, withoutDrProtection: undefined };
    const tone = (of: Partial<Report>): string => headlineOf({ ...lossless, ...of }).tone;
    const from = new Date(when(1)).toISOString();
    expect(tone({})).toBe('good');
    expect(tone({ loss: { loss: 'unknown', why: 'nothing was read' } })).toBe('warning');
    expect(tone({ loss: { loss: 'bounded', why: 'sampled', boundWalEntries: '3' } })).toBe('warning');
    expect(tone({ withoutDrProtection: { from } })).toBe('warning');
    expect(tone({ withoutDrProtection: { from, totalMs: 5 } })).toBe('good');
  });

  it('names the last of those who ordered a take-over as the last', () => {
    const ordered = (name: string, at: number) =>
      ({ kind: 'control', control: 'take-over', at: when(at), by: { name, how: 'signed' }, reason: name }) as const;
    const became = { kind: 'became-failover', at: when(3) } as const;
    const opened = { ...plan, state: 'opened', at: when(1), by: [] } as const;
    const run = new RunBuilder([], [opened, ordered('grace', 1), ordered('henry', 2), became]);
    const text = renderMarkdown(report(run));
    expect(text).toContain('last ordered by henry (signed): henry');
    // Nobody opens a gate of the plan of before any more.
    expect(text).toContain('| opened | no one | 01:00:00 | ended by the take-over |');
  });

  it('keeps text of people from becoming layout, a link or HTML', () => {
    const reason = '# big\n| a | b | [x](javascript:1) <script>1</script> `code` *bold* _it_ ~no~ DR_TOKEN &lt;';
    const markdown = renderMarkdown(report(new RunBuilder([], [], 'drSwitchover', { ...INPUT, reason })));
    expect(markdown).toContain(
      `- Reason: \\# big \\| a \\| b \\| \\[x\\](javascript:1) \\<script\\>1\\</script\\> 'code' \\*bold\\* \\_it\\_ \\~no\\~ DR_TOKEN \\&lt;`,
    );
  });
});

describe('HTML', () => {
  /** What may stand between `<` and `>`: the tags of the page itself. */
  const tags = (html: string): Set<string> =>
    new Set([...html.matchAll(/<\/?([a-z0-9!]+)/gi)].map(([, name]) => name ?? ''));

  it('escapes every text, in every place', () => {
    const evil = `"><img src=x onerror=alert(1)>'</style><script>&`;
    const infect = (value: unknown): unknown => {
      if (typeof value === 'string') return `${value}${evil}`;
      if (Array.isArray(value)) return value.map(infect);
      if (typeof value !== 'object' || value === null) return value;
      const kept = [
        ...['at', 'verdict', 'severity', 'how', 'outcome', 'signal', 'loss', 'endedBy', 'rejoin', 'schema'],
        ...['finalRoles', 'for', 'mode', 'endpoint', 'kind'],
      ];
      return Object.fromEntries(
        Object.entries(value).map(([key, member]) => [
          key,
          kept.includes(key) || /At$|^from$|^to$/.test(key)
            ? typeof member === 'object'
              ? infect(member)
              : member
            : infect(member),
        ]),
      );
    };
    const clean = report(finishedSwitchover());
    const html = renderHtml(infect(clean) as Report);
    expect(tags(html)).toEqual(tags(renderHtml(clean)));
    expect(html.match(/<svg/g)).toHaveLength(4);
    expect(html).not.toMatch(/<img|<script|onerror=alert\(1\)>/);
    expect(html).toContain('&#60;img src=x onerror=alert(1)&#62;');
  });

  it('is one page that loads and runs no other resource', () => {
    const html = renderHtml(report(finishedSwitchover()));
    expect(html).toContain(`content="default-src 'none'; style-src 'unsafe-inline'"`);
    expect(html).not.toMatch(/<script|<link|<iframe|\son[a-z]+=|url\(|@import|\ssrc=/);
    expect(html.match(/<section/g)).toHaveLength(14);
  });

  it('collapses what holds, lists its contents, and names the objectives of the inventory', () => {
    const objectives = [
      { objective: 'outage', atMost: 5_000, observed: 9_400, verdict: 'missed' },
      { objective: 'loss', atMost: 0, observed: 0, verdict: 'met' },
      { objective: 'unprotected', atMost: 60_000, verdict: 'not-measured' },
    ] as const;
    const html = renderHtml({ ...report(finishedSwitchover()), objectives });
    expect(html).toContain('<details class="on-screen"><summary>2 that hold</summary>');
    for (const [, id = ''] of html.matchAll(/<a href="#([^"]+)">/g)) expect(html).toContain(` id="${id}"`);
    const [, figures = ''] = /<dl class="figures">(.*?)<\/dl>/s.exec(html) ?? [];
    const cards = figures.split('</div>').map((card) =>
      card
        .replace(/<[^>]+>/g, '|')
        .split('|')
        .filter(Boolean),
    );
    expect(cards.slice(0, 3)).toEqual([
      ['Outage', '9.4 s', 'objective: at most 5 s; missed'],
      ['Data loss', 'none', 'objective: none; met'],
      ['Without DR protection', '15.9 s', 'objective: at most 1 min; not measured'],
    ]);
  });

  it('names activities, codes and digests only in what is folded', () => {
    const run = finishedSwitchover((same) =>
      same.type === 'awaitDrStreaming' ? { ...same, failure: { code: 'UNREACHABLE', message: 'no connection' } } : same,
    );
    const html = renderHtml(report(run)).replace(/<style>.*?<\/style>/s, '');
    const open = html.replace(/<details.*?<\/details>/gs, '');
    expect(html).toMatch(/demotePrimary.*UNREACHABLE/s);
    expect(open).not.toMatch(/demotePrimary|awaitDrStreaming|UNREACHABLE|token-kept|\d{2}:\d{2}:\d{2}\.\d{3}/);
    expect(open).not.toContain(DIGEST);
  });

  it('has no empty time or figure, whenever it is made', () => {
    for (const until of finishedSwitchover().times())
      expect(renderHtml(reportOf(finishedSwitchover().build(until)))).not.toMatch(/NaN|undefined|Infinity/);
  });
});

it.each(['envelopes', 'approvals', 'failure', 'sealed'])('no rendering shows the content of a signal: %s', (place) => {
  const secret = 'canary7f3a9b1c5d2e8f604132';
  const plant = (specification: ActivitySpecification): ActivitySpecification => {
    const { type, input, result } = specification;
    if (place === 'envelopes' && ['openEnvelopes', 'completeGeneration'].includes(type)) {
      const arrived = [{ arrival: 1, input: secret, envelope: { share: secret } }];
      return { ...specification, input: { ...input, envelopes: [secret, { ct: secret }], held: [secret], arrived } };
    }
    if (place === 'approvals' && type === 'demotePrimary')
      return { ...specification, input: { ...input, authority: { approvals: [secret] } } };
    if (place === 'failure' && type === 'openEnvelopes')
      return { ...specification, failure: { code: 'Error', message: `cannot read ${secret}` } };
    if (place === 'sealed' && typeof result === 'object')
      return { ...specification, result: { ...result, token: secret, invitation: secret, value: secret } };
    return specification;
  };
  const history = finishedSwitchover(plant);
  for (const until of [50_000, 68_000, Infinity]) {
    const made = reportOf(history.build(until));
    for (const text of [JSON.stringify(made), renderMarkdown(made), renderHtml(made)])
      expect(text).not.toContain(secret);
  }
});

describe('report files', () => {
  let directory = '';
  const whole = report(finishedSwitchover());
  const folder = () => join(directory, 'default', 'deployment_payments');
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'report-files-'));
  });
  afterEach(() => rm(directory, { recursive: true, force: true }));

  it('hold the three forms, for the owner only, and are replaced as a whole by a later report of the same run', async () => {
    await writeReportFiles({ ...whole, outcome: 'running' }, directory);
    const paths = await writeReportFiles(whole, directory);
    expect(paths).toEqual(['json', 'md', 'html'].map((extension) => join(folder(), `0c1d-run.${extension}`)));
    const [json = '', markdown, html] = await Promise.all(paths.map((path) => readFile(path, 'utf8')));
    expect(JSON.parse(json)).toEqual(whole);
    expect([markdown, html]).toEqual([renderMarkdown(whole), renderHtml(whole)]);
    for (const path of paths) expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect(await readdir(folder())).toHaveLength(3);
  });

  it('never leave the directory, and of two namespaces or deployments never share a folder, whatever their names are', async () => {
    const names = [
      'deployment:payments',
      'deployment_payments',
      'deployment/payments',
      '.a',
      '%2ea',
      '',
      ':',
      'é',
      '%c3a9',
    ];
    const hostile = ['../../etc/passwd', '..', '/', 'a/../b'];
    const ids = [...names, ...hostile, `${'x'.repeat(400)}1`, `${'x'.repeat(400)}2`];
    for (const member of ['namespace', 'workflowId'] as const) {
      const folders = new Set<string>();
      for (const id of ids) {
        const [path = ''] = await writeReportFiles({ ...whole, runId: id, [member]: id }, directory);
        expect(path.startsWith(`${directory}/`) && !path.includes('/..')).toBe(true);
        folders.add(dirname(path));
      }
      expect(folders.size).toBe(ids.length);
    }
  });

  it('leave no file behind if they cannot be written', async () => {
    await mkdir(join(folder(), '0c1d-run.json', 'in-the-way'), { recursive: true });
    await expect(writeReportFiles(whole, directory)).rejects.toThrow();
    expect(await readdir(folder())).toEqual(['0c1d-run.json']);
  });
});
