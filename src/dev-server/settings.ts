/** Settings of the Temporal server that this project relies on, wherever it starts one. */

/**
 * Dynamic configuration of the server. `deploy/dynamic-config.yaml`, which the compose file mounts, has the same.
 * The server polls its task queues at most 20 times per second and shard by default, which puts a chain of short
 * activities on a 50 ms tick: it would be most of the time of a switchover's serial steps. An activity that goes to the
 * worker with the answer to its workflow's task waits for no poll at all.
 */
export const DYNAMIC_CONFIG = {
  'history.transferProcessorMaxPollRPS': 5000,
  'history.timerProcessorMaxPollRPS': 5000,
  'system.enableActivityEagerExecution': true,
} as const satisfies Readonly<Record<string, number | boolean | string>>;

/** The namespace that every Temporal server has, used where none is named. */
export const DEFAULT_NAMESPACE = 'default';
