/** Orders versions such as `1.21.4+ent`: negative where `a` is older. Build metadata does not count. */
export function compareVersions(a: string, b: string): number {
  const parts = (version: string) =>
    (version.replace(/^v/, '').split(/[+-]/)[0] ?? '').split('.').map((part) => Number.parseInt(part, 10) || 0);
  const [left, right] = [parts(a), parts(b)];
  for (let index = 0; index < Math.max(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** The major version of the service, such as 2 for `2.0.3+ent`; 0 where it is not known. */
export function majorVersion(version: string | undefined): number {
  return Number(/^v?(\d+)\./.exec(version ?? '')?.[1] ?? 0);
}
