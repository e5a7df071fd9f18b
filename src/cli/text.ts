export { inLines, jsonText, said, terminalLine, terminalText, unmarked } from '../contracts/words';
export { attestedName, clock, inWords, oneLine } from '../holder/words';
export { shellLine, shellWord } from '../contracts/next-commands';

/** Rows in columns of equal width, two spaces apart; the last column is not padded. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) row.forEach((cell, index) => (widths[index] = Math.max(widths[index] ?? 0, cell.length)));
  return rows.map((row) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}
