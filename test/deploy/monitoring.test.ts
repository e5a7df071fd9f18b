/** The alert rules and the dashboard: every metric that they name is exported, and every exported one is named. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse } from 'yaml';
import { OUTAGE_METRIC } from '../../src/contracts/names';
import { METRICS } from '../../src/gateway/metrics/names';
import { ROOT } from '../support/documents';
import { findMonitoring } from '../support/monitoring';

const directory = join(ROOT, 'deploy', 'monitoring');
const text = (file: string) => readFileSync(join(directory, file), 'utf8');

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}
interface RuleTest {
  readonly name: string;
  readonly input_series: readonly { readonly series: string; readonly values: string }[];
  readonly alert_rule_test: readonly {
    readonly alertname: string;
    readonly exp_alerts: readonly { readonly exp_labels: { readonly severity: string } }[];
  }[];
}
interface Panel {
  readonly id: number;
  readonly title: string;
  readonly targets: readonly { readonly expr: string }[];
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}

const rules = (
  parse(text('rules.yaml')) as { readonly groups: readonly { readonly rules: readonly Rule[] }[] }
).groups.flatMap((group) => group.rules);
const { tests } = parse(text('rules.test.yaml')) as { readonly tests: readonly RuleTest[] };
const { panels } = JSON.parse(text('dashboard.json')) as { readonly panels: readonly Panel[] };
const queries = panels.flatMap(({ targets }) => targets.map(({ expr }) => expr));

/** What a worker exports of a histogram. */
const OF_WORKERS = ['bucket', 'sum', 'count'].map((part) => `${OUTAGE_METRIC}_${part}`);
const LABELS: Readonly<Record<string, readonly string[]>> = {
  ...Object.fromEntries(Object.entries(METRICS).map(([name, { labels }]) => [name, labels])),
  ...Object.fromEntries(OF_WORKERS.map((name) => [name, ['deployment', 'runbook', 'le']])),
};
const metricsIn = (expressions: readonly string[]) =>
  new Set(expressions.flatMap((expression) => expression.match(/\b(?:runbooks|temporal)_\w+/g) ?? []));

it('every metric that a rule or the dashboard names is exported, and every exported one is named', () => {
  expect([...metricsIn([...rules.map(({ expr }) => expr), ...queries])].sort()).toEqual(Object.keys(LABELS).sort());
});

it('every label that selects in them is one of its metric', () => {
  const selected = [...rules.map(({ expr }) => expr), ...queries].flatMap((expr) => [
    ...expr.matchAll(/\b(runbooks_\w+)\{([^}]*)\}/g),
  ]);
  expect(selected.length).toBeGreaterThan(15);
  const wrong = selected.flatMap(([, metric = '', selectors = '']) =>
    [...selectors.matchAll(/(\w+)\s*(?:=~|!=|!~|=)/g)]
      .map(([, label = '']) => label)
      .filter((label) => LABELS[metric]?.includes(label) !== true)
      .map((label) => `${metric}{${label}}`),
  );
  expect(wrong).toEqual([]);
});

it('every alert has a severity, a summary and what to do, with labels that its expression keeps', () => {
  expect(rules.length).toBeGreaterThan(15);
  for (const { alert, expr, labels, annotations } of rules) {
    expect([alert, labels.severity]).toEqual([
      expect.stringMatching(/^Runbooks[A-Z]\w+$/),
      expect.stringMatching(/^(critical|warning|info)$/),
    ]);
    expect([alert, annotations.summary.length > 10, annotations.description.length > 10]).toEqual([alert, true, true]);
    const kept = new Set([...expr.matchAll(/by \(([^)]*)\)/g)].flatMap(([, list = '']) => list.split(', ')));
    const used = [...JSON.stringify(annotations).matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label ?? '');
    expect([alert, used.filter((label) => !kept.has(label))]).toEqual([alert, []]);
  }
  expect(new Set(rules.map(({ alert }) => alert)).size).toBe(rules.length);
});

it('every alert has a test in which it fires, and one in which it does not', () => {
  const outcomes = tests.flatMap(({ alert_rule_test: each }) =>
    each.map(({ alertname, exp_alerts: alerts }) => `${alertname} ${alerts.length > 0}`),
  );
  expect(outcomes.sort()).toEqual(rules.flatMap(({ alert }) => [`${alert} false`, `${alert} true`]).sort());
  for (const { alert_rule_test: each } of tests)
    for (const { alertname, exp_alerts: alerts } of each)
      for (const { exp_labels: labels } of alerts)
        expect(labels.severity).toBe(rules.find(({ alert }) => alert === alertname)?.labels.severity);
  const series = metricsIn(tests.flatMap((each) => each.input_series.map((one) => one.series)));
  expect([...series].filter((metric) => !(metric in LABELS))).toEqual([]);
});

it('promtool passes the rules, their tests and the configuration, if it is installed; elsewhere each is at least a document of its kind', () => {
  const promtool = findMonitoring('promtool');
  const checks = [
    ['check', 'rules', 'rules.yaml'],
    ['test', 'rules', 'rules.test.yaml'],
    ['check', 'config', '--syntax-only', 'prometheus.yaml'],
  ];
  const failed = checks.flatMap((words) => {
    if (promtool === undefined) return [];
    const { status, stdout, stderr } = spawnSync(promtool, words, { cwd: directory, encoding: 'utf8' });
    return status === 0 ? [] : [`${words.join(' ')}: ${stdout}${stderr}`];
  });
  expect(failed).toEqual([]);
  // Durations and parentheses, which are most mistakes of a hand.
  for (const { expr } of rules) {
    expect([expr, expr.split('(').length, expr.split('{').length]).toEqual([
      expr,
      expr.split(')').length,
      expr.split('}').length,
    ]);
    expect(expr.match(/\[(?!\d+[smhd]\])/)).toBeNull();
  }
  const configuration = parse(text('prometheus.yaml')) as Readonly<Record<string, unknown>>;
  expect(configuration).toMatchObject({ rule_files: ['rules.yaml'], scrape_configs: [{ job_name: 'runbooks' }, {}] });
});

it('the panels of the dashboard have their own IDs and places, and a query each', () => {
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
    Array.from({ length: w * h }, (_, index) => `${x + (index % w)},${y + Math.floor(index / w)}`),
  );
  expect(new Set(cells).size).toBe(cells.length);
  expect(
    panels.filter(({ targets, gridPos: { x, w } }) => targets.length === 0 || x + w > 24).map(({ title }) => title),
  ).toEqual([]);
});
