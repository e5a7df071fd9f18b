/** Middle, least and greatest of some measurements. */
export interface Spread {
  readonly median: number;
  readonly least: number;
  readonly greatest: number;
}

export function spread(values: readonly number[]): Spread {
  return { median: percentile(values, 50), least: Math.min(...values), greatest: Math.max(...values) };
}

/** Nearest-rank percentile. @throws RangeError for no values. */
export function percentile(values: readonly number[], percent: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const found = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)];
  if (found === undefined) throw new RangeError('no values');
  return found;
}

/** `1.05 (1.02-1.09)` */
export function inWords({ median, least, greatest }: Spread, digits = 0): string {
  return `${median.toFixed(digits)} (${least.toFixed(digits)}-${greatest.toFixed(digits)})`;
}

/** A Markdown table. */
export function table(header: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(header), line(header.map((_, index) => (index === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}
