function parts(version: string): number[] {
  return (version.split('+')[0] ?? '').split('.').map(Number);
}

/** Negative where `a` is older than `b`, 0 where they are the same release. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [parts(a), parts(b)];
  return [0, 1, 2].map((index) => (left[index] ?? 0) - (right[index] ?? 0)).find((order) => order !== 0) ?? 0;
}

/** From 2.0 on the generation of operation tokens needs a token. */
export function authenticatesTokenGeneration(version: string): boolean {
  return compareVersions(version, '2.0.0') >= 0;
}

/** Merkle checks, and what the status says of corruption, came with 1.15. */
export function checksMerkleTrees(version: string): boolean {
  return compareVersions(version, '1.15.0') >= 0;
}
