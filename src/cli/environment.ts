type Variable = readonly [name: string, readBy: string, usual: string, meaning: string];

/** The variables that this program reads; docs/cli.md has the same table, with links. */
const VARIABLES: readonly Variable[] = [
  [
    'RUNBOOKS_INVENTORY',
    'worker, gateway (not --frontend), inventory check, policy, schedules, waiting',
    '',
    'the inventory file',
  ],
  ['RUNBOOKS_SEAL_KEYS_FILE', 'worker', '', 'seal keys, one per line; the first one seals, all of them open'],
  ['RUNBOOKS_SEAL_KEYS', 'worker', '', 'refused: use the file'],
  [
    'RUNBOOKS_KEY_DIR',
    'worker',
    '/dev/shm/replication-runbooks-<uid>/keys',
    'ceremony keys, in a subdirectory for each namespace of each Temporal server',
  ],
  ['RUNBOOKS_KEY_STORAGE', 'worker', 'memory', 'memory requires a tmpfs; with disk, invitations say "best effort"'],
  ['RUNBOOKS_REPORT_DIR', 'worker', 'none', 'where reports of ended runs are also written: JSON, Markdown, HTML'],
  ['RUNBOOKS_TASK_QUEUE', 'worker, gateway, start, plan, schedules', 'runbooks', 'task queue'],
  [
    'RUNBOOKS_ALLOW_DEBUGGING',
    'all',
    '',
    'yes allows inspector, heap snapshots, diagnostic reports and preloaded code (--require, --import). Laboratories only',
  ],
  [
    'RUNBOOKS_ALLOW_ROOT',
    'worker',
    '',
    'yes lets a worker run as user 0: in rootless containers, where that is an ordinary user of the host. Not needed if every deployment is a laboratory',
  ],
  ['RUNBOOKS_LOG_LEVEL', 'worker', 'info', 'trace, debug, info, warn, error, silent'],
  ['RUNBOOKS_KEY_FILE', 'commands that sign, join', '~/.config/replication-runbooks/<name>.key', 'your signing key'],
  [
    'RUNBOOKS_PERSON',
    "people's commands",
    'as join stored it',
    'your name in the inventory, unless --name or --holder is given',
  ],
  ['RUNBOOKS_GATEWAY', "people's commands", '', 'reach runs through this gateway, and not through Temporal'],
  ['RUNBOOKS_GATEWAY_CA_FILE', "people's commands", '', "the CA of the gateway's certificate (PEM)"],
  ['RUNBOOKS_PINS', 'share, keys trust', '~/.config/replication-runbooks/pins.json', 'pinned keys of workers'],
  ['RUNBOOKS_WORKER_METRICS', 'worker', 'none', 'where Prometheus scrapes this worker: an IP address and a port'],
  ['RUNBOOKS_TEMPORAL_UI', 'start, gateway --receive', '', 'base URL of the Web UI, for links'],
];

/** The text of `runbook help environment`. */
export function environmentLines(env: NodeJS.ProcessEnv): string[] {
  const set = variablesOfTheService(env);
  return [
    'Variables of this program:',
    ...VARIABLES.flatMap(([name, readBy, usual, meaning]) => [
      `  ${name} (${readBy})${usual === '' ? '' : `, default: ${usual}`}`,
      `    ${meaning}`,
    ]),
    '',
    'For the connection to Temporal, as in the temporal CLI: TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_API_KEY,',
    'TEMPORAL_TLS_..., TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE. "runbook join" stores them, except the API key.',
    '',
    'Variables of the service (VAULT_ADDR, VAULT_CACERT, VAULT_TOKEN ...) are ignored: the inventory has its own.',
    ...(set.length === 0 ? [] : [`Ignored, but set here: ${set.join(', ')}`]),
  ];
}

/** A sentence on variables of the service's own tools that are set; undefined if there is none. Never their values. */
export function ignoredVariables(env: NodeJS.ProcessEnv): string | undefined {
  const [first, ...others] = variablesOfTheService(env);
  if (first === undefined) return undefined;
  const [names, are] = others.length === 0 ? [first, 'is'] : [[first, ...others].join(', '), 'are'];
  return `${names} ${are} set, and ignored: addresses, certificates and credentials are those of the inventory`;
}

const variablesOfTheService = (env: NodeJS.ProcessEnv): string[] =>
  Object.keys(env)
    .filter((name) => /^VAULT_[A-Z_]+$/.test(name) && env[name])
    .sort();
