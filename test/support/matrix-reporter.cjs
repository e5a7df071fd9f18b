/** Prints, for every runbook, how many tests of each kind of fault passed and failed. */
const KINDS = [
  'no fault',
  'refused',
  'lost answer',
  'parked, retry',
  'parked, skip',
  'parked, abort',
  'abort at',
  'taken over at',
];
const TITLE =
  /^\[(\w+)\] (no fault|refused|lost answer|parked, retry|parked, skip|parked, abort|abort at|taken over at)(: |$)/;

module.exports = class MatrixReporter {
  onRunComplete(_contexts, results) {
    const rows = new Map();
    for (const { testResults } of results.testResults) {
      for (const { title, status } of testResults) {
        const [, runbook, kind] = TITLE.exec(title) ?? [];
        if (!runbook || status === 'pending') continue;
        const row = rows.get(runbook) ?? new Map();
        rows.set(runbook, row);
        const [passed, failed] = row.get(kind) ?? [0, 0];
        row.set(kind, status === 'passed' ? [passed + 1, failed] : [passed, failed + 1]);
      }
    }
    if (rows.size === 0) return;
    const cellText = (counts) =>
      counts === undefined ? '-' : counts[1] ? `${counts[0]} (${counts[1]} failed)` : `${counts[0]}`;
    const table = [
      ['runbook', ...KINDS],
      ...[...rows]
        .sort(([a], [b]) => a.localeCompare(b))
        .map(([runbook, row]) => [runbook, ...KINDS.map((kind) => cellText(row.get(kind)))]),
    ];
    const widths = table[0].map((_, column) => Math.max(...table.map((line) => line[column].length)));
    const lines = table.map((line) =>
      line
        .map((text, column) => text.padEnd(widths[column]))
        .join('  ')
        .trimEnd(),
    );
    const cells = [...rows.values()]
      .flatMap((row) => [...row.values()])
      .reduce((sum, [passed, failed]) => sum + passed + failed, 0);
    process.stderr.write(`\nRunbooks and faults (tests that passed): ${cells} cells\n${lines.join('\n')}\n`);
  }
};
