import type { FilterState } from '../../src/contracts/activities';

/** A part of the tree of namespaces and mounts: what is under a path (`''` is everything), without some paths below. */
interface Region {
  readonly under: string;
  readonly except: readonly string[];
}

/** What changes for a secondary when its filter becomes another one. */
interface FilterDifference {
  /** It may see this from now on: widening. What it has received cannot be taken back. */
  readonly sent: readonly Region[];
  /** It may not see this any more: its data is deleted on the secondary. */
  readonly removed: readonly Region[];
}

/** Paths with one trailing slash and no leading one, each once and in order: the form in which the service keeps them. */
export function canonicalPaths(paths: readonly string[]): string[] {
  return [...new Set(paths.map((path) => `${path.replace(/^\/+|(?<!\/)\/+$/g, '')}/`))].sort();
}

/**
 * What is newly sent and what is removed where `before` becomes `wanted`. Exact for any mounts and namespaces, also ones
 * that are made later: the paths that the two filters name cut the tree into parts in which all is treated alike.
 */
export function diffFilters(before: FilterState, wanted: FilterState): FilterDifference {
  const [saw, sees] = [visibility(before), visibility(wanted)];
  const parts = ['', ...new Set([...pathsOf(before), ...pathsOf(wanted)])].sort();
  return {
    sent: regions(parts, (part) => !saw(part) && sees(part)),
    removed: regions(parts, (part) => saw(part) && !sees(part)),
  };
}

/** Whether people must approve: the secondary may see more, or its filter is gone. */
export function needsApproval(before: FilterState, wanted: FilterState): boolean {
  return (wanted === 'none' && before !== 'none') || diffFilters(before, wanted).sent.length > 0;
}

/** In words, for plans and warnings. */
export function regionsInWords(list: readonly Region[]): string {
  return list
    .map(({ under, except }) => {
      const what = under === '' ? 'everything' : under;
      return except.length === 0 ? what : `${what} except ${except.join(', ')}`;
    })
    .join('; ');
}

function pathsOf(filter: FilterState): string[] {
  return filter === 'none' ? [] : canonicalPaths(filter.paths);
}

/** Whether a secondary with this filter may see a path. A path stands for all that is below it. */
function visibility(filter: FilterState): (path: string) => boolean {
  if (filter === 'none') return () => true;
  const paths = pathsOf(filter);
  const listed = (path: string) => paths.some((each) => path.startsWith(each));
  return filter.mode === 'allow' ? listed : (path) => !listed(path);
}

/** Joins the parts that belong to a class: each region begins where its parent does not belong, and leaves out what does not. */
function regions(parts: readonly string[], belongs: (part: string) => boolean): Region[] {
  const parentOf = (part: string) =>
    parts
      .filter((other) => other !== part && part.startsWith(other))
      .reduce((a, b) => (b.length > a.length ? b : a), '');
  const isTop = (part: string) => belongs(part) && (part === '' || !belongs(parentOf(part)));
  const topOf = (part: string): string => (isTop(part) ? part : topOf(parentOf(part)));
  return parts.filter(isTop).map((top) => ({
    under: top,
    except: parts.filter(
      (part) => part !== '' && !belongs(part) && belongs(parentOf(part)) && topOf(parentOf(part)) === top,
    ),
  }));
}
