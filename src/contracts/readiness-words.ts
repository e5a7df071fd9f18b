import type { PointVerdict, ReadinessPoint, ReadinessResult, ReadinessVerdict } from './readiness';
import { prose } from './words';

const ORDER: readonly PointVerdict[] = ['fail', 'warn', 'not-checkable', 'ok'];

/** Red points first, the order within a verdict as it was. */
export function redFirst<T extends Pick<ReadinessPoint, 'verdict'>>(points: readonly T[]): T[] {
  return points.toSorted((a, b) => ORDER.indexOf(a.verdict) - ORDER.indexOf(b.verdict));
}

/** The few lines that people read first: verdicts, the DR secondaries that differ, what became worse, every point that is not good. Markdown list items. */
export function readinessLines(result: ReadinessResult): string[] {
  const { switchover, failover, candidates, changes } = result;
  const bad = redFirst(result.points).filter(({ verdict }) => verdict === 'fail' || verdict === 'warn');
  return [
    `Switchover: **${verdictWords(switchover)}**. Failover: **${verdictWords(failover)}**.`,
    ...candidates
      .filter((candidate) => candidate.switchover !== switchover || candidate.failover !== failover)
      .map(
        (candidate) =>
          `${prose(candidate.cluster)}: switchover ${verdictWords(candidate.switchover)}, failover ${verdictWords(candidate.failover)}`,
      ),
    ...changes.map((each) => prose(changeText(each))),
    ...bad.map(
      (point) =>
        `**${point.verdict}** ${prose(`${pointName(point)}, ${point.about === 'both' ? 'switchover and failover' : point.about}: ${point.observed.replace(/\.$/, '')}. Needed: ${point.needed}.${point.next === undefined ? '' : ` ${point.next}`}`)}`,
    ),
  ];
}

export const pointName = ({ id, cluster }: Pick<ReadinessPoint, 'id' | 'cluster'>): string =>
  cluster === undefined ? id : `${id} (${cluster})`;

export function changeText({ change, before, now, ...point }: ReadinessResult['changes'][number]): string {
  return `${change}: ${pointName(point)}, ${before} before, ${now} now`;
}

export function verdictWords(verdict: ReadinessVerdict): string {
  return verdict.replaceAll('-', ' ');
}
