import type { ClusterObservation } from '../contracts/observations';
import { durationText, oneLine } from '../contracts/words';

/* Clusters as they were read, as text in one place: `runbook status` and `runbook watch` show it. */

type Replication = NonNullable<ClusterObservation['dr']>;

const HEAD = ['CLUSTER', 'DR', 'PERFORMANCE', 'STATE', 'LAG', 'HEARTBEAT', 'ACTIVE NODE', 'VERSION'] as const;
const NONE = '-';

/** One row for each cluster, below a row of headings. */
export function clusterRows(observations: readonly ClusterObservation[]): readonly (readonly string[])[] {
  return [HEAD, ...observations.map((each) => rowOf(each, observations))];
}

function rowOf(seen: ClusterObservation, all: readonly ClusterObservation[]): readonly string[] {
  const { cluster, dr, performance, activeNode, version } = seen;
  // A secondary's own connection counts. A DR secondary follows its primary in both kinds.
  const kind = dr?.mode !== 'secondary' && performance?.mode === 'secondary' ? 'performance' : 'dr';
  const shown = dr?.mode === 'disabled' ? performance : seen[kind];
  const cells = [
    dr?.mode ?? 'unknown',
    performance?.mode ?? 'unknown',
    stateText(seen, shown),
    lagText(seen, all, kind),
    heartbeatText(seen[kind]),
    activeNode ?? NONE,
    version ?? NONE,
  ];
  return [cluster, ...cells].map(oneLine);
}

function stateText({ reachable, error }: ClusterObservation, shown: Replication | undefined): string {
  if (!reachable) return `NOT READ: ${error?.split(':')[0] ?? 'no answer'}`;
  if (shown?.mode !== 'secondary') return shown?.state ?? NONE;
  const connected = shown.peers.some((peer) => peer.connected);
  return `${shown.state ?? 'state unknown'}${connected ? '' : ', not connected'}`;
}

/** WAL entries that a secondary is behind its primary. Indexes of different sets are not comparable. */
function lagText(secondary: ClusterObservation, all: readonly ClusterObservation[], kind: 'dr' | 'performance') {
  const own = secondary[kind];
  if (own?.mode !== 'secondary') return NONE;
  const primaries = all.filter((each) => each[kind]?.mode === 'primary' && each[kind].setId === own.setId);
  const [sent, received] = [primaries[0]?.[kind]?.lastWal, own.lastRemoteWal];
  // An index of 0 is not a lag: nothing was streamed since the trees were compared.
  if (primaries.length !== 1 || sent === undefined || received === undefined || received === '0') return 'unknown';
  const behind = BigInt(sent) - BigInt(received);
  return String(behind < 0n ? 0n : behind);
}

function heartbeatText(own: Replication | undefined): string {
  if (own?.mode !== 'secondary') return NONE;
  const ages = own.peers.flatMap(({ heartbeatAgeMs }) => heartbeatAgeMs ?? []);
  return ages.length === 0 ? 'unknown' : `${durationText(Math.min(...ages))} ago`;
}

/** The nodes that do not answer or are sealed, and what else the table cannot show. */
export function clusterNotes(observations: readonly ClusterObservation[]): string[] {
  return observations
    .flatMap(({ cluster, reachable, error, nodes, pinnedId }) => [
      ...(reachable ? [] : [`${cluster} could not be read: ${error ?? 'no answer'}`]),
      ...(pinnedId === undefined
        ? []
        : [`${cluster} is another cluster than the inventory names (cluster ID ${pinnedId})`]),
      ...nodes.flatMap((node) => {
        if (!node.reachable) return reachable ? [`${cluster}: node ${node.address} does not answer`] : [];
        if (node.sealed === true) return [`${cluster}: node ${node.address} is sealed`];
        return [];
      }),
    ])
    .map(oneLine);
}
