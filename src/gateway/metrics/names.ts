/**
 * The metrics of the gateway, with the labels of each. Time stamps instead of ages: an age that nobody renews looks young. Every
 * label has a closed set of values, from the inventory or from this program.
 */
export const METRICS = {
  runbooks_info: { help: '1, with the version of this program', labels: ['version'] },
  runbooks_read_timestamp_seconds: {
    help: 'When a source was last read successfully: runs, readiness, samples, record, certificates, workers; 0: never',
    labels: ['deployment', 'source'],
  },
  runbooks_workers: { help: 'Workers that polled the task queue within the last minute', labels: [] },
  runbooks_readiness: {
    help: 'Whether a switchover or a failover would start: 0 not ready, 1 ready with warnings, 2 ready',
    labels: ['deployment', 'question'],
  },
  runbooks_readiness_timestamp_seconds: { help: 'When readiness was last checked; 0: never', labels: ['deployment'] },
  runbooks_sample_timestamp_seconds: {
    help: 'When walSampler took the newest sample, from which the metrics of clusters and replication are; 0: never',
    labels: ['deployment'],
  },
  runbooks_cluster_answers: {
    help: '1 if the cluster answered the sampler, 0 if not',
    labels: ['deployment', 'cluster'],
  },
  runbooks_dr_primaries: {
    help: 'Members of a DR set that said that they are its primary; 1 is right',
    labels: ['deployment', 'dr_set'],
  },
  runbooks_replication_connected: {
    help: '1 if a secondary is connected to its primary, 0 if not',
    labels: ['deployment', 'cluster', 'kind'],
  },
  runbooks_replication_lag_entries: {
    help: 'WAL entries that the primary has and this secondary does not, in the same sample',
    labels: ['deployment', 'cluster', 'kind'],
  },
  runbooks_heartbeat_timestamp_seconds: {
    help: 'When the last heartbeat between a cluster and its peers was',
    labels: ['deployment', 'cluster', 'kind'],
  },
  runbooks_canary_timestamp_seconds: {
    help: 'When the youngest canary of the primary that arrived was written',
    labels: ['deployment', 'cluster', 'kind'],
  },
  runbooks_credential_expires_timestamp_seconds: {
    help: 'When a credential expires: the token of the workers, the batch token, or the certificate of the cluster (0: it has expired)',
    labels: ['deployment', 'cluster', 'credential'],
  },
  runbooks_runs_open: { help: 'Open runs', labels: ['deployment', 'runbook', 'phase'] },
  runbooks_parked_since_timestamp_seconds: {
    help: 'Since when the longest parked step of an open run waits for a decision; 0: none',
    labels: ['deployment'],
  },
  runbooks_outage_since_timestamp_seconds: {
    help: 'Since when clients have had no primary, according to an open run; 0: they have one',
    labels: ['deployment'],
  },
  runbooks_tokens: {
    help: 'Tokens in the record that are not proven invalid; orphan: nobody holds it',
    labels: ['deployment', 'state'],
  },
  runbooks_notification_failed_runs: {
    help: 'Runs that are open or ended within 24 hours and could not notify this target',
    labels: ['deployment', 'target'],
  },
} as const satisfies Readonly<Record<string, { readonly help: string; readonly labels: readonly string[] }>>;

export type MetricName = keyof typeof METRICS;

/** One value of one metric, with the values of its labels by name. */
export interface Sample {
  readonly metric: MetricName;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** What is read of each deployment. */
export const SOURCES = ['runs', 'readiness', 'samples', 'record', 'certificates'] as const;

export const seconds = (ms: number): number => ms / 1_000;
