import { SeededRandom } from '../../src/simulator/random';

/** A fault of the clusters, triggered by a call to one of them. */
export interface Mishap {
  readonly what: (typeof EVENTS)[number] | (typeof ANSWERS)[number];
  readonly to: string;
  readonly at: Moment;
  /** When it repairs itself, in ms; undefined: when people repair it. */
  readonly repairedAfterMs: number | undefined;
}

/** The nth call of an endpoint of a cluster or, with `after`, the nth call of any endpoint after that call. */
export interface Moment {
  readonly cluster: string;
  readonly endpoint: string;
  readonly after?: string;
  readonly nth: number;
  readonly when: 'before' | 'after';
}

/** Orders that people give without being asked; `terminate` comes from an administrator of Temporal. */
export type Order = (typeof ORDERS)[number];

/** The faults and orders during one run. */
export interface Part {
  readonly mishaps: readonly Mishap[];
  readonly orders: readonly { readonly order: Order; readonly at: Moment }[];
  /** Number of parked steps before people repair the clusters; they always decide at random. */
  readonly patience: number;
}

/** One change of the primary with its faults, and the morning after. */
export interface Night extends Part {
  readonly seed: number;
  readonly runbook: 'drSwitchover' | 'drFailover' | 'performancePromotion';
  readonly kind: 'dr' | 'performance';
  readonly input: Readonly<Record<string, unknown>>;
  /** The first is the primary, and the second replaces it. */
  readonly clusters: readonly [string, string, ...string[]];
  /** All clusters: the first of each set is its DR primary. */
  readonly drSets: Readonly<Record<string, readonly string[]>>;
  readonly nodes: number;
  readonly version: string;
  readonly batchToken: boolean;
  /** What the nodes advertise: an address for all, one for each (both not listed), the listed one, or nothing without a token. */
  readonly apiAddr: 'load balancer' | 'pods' | 'listed' | 'redacted';
  /** After a role change, ms: longer than the budgets of a night, or short. */
  readonly restartMs: number;
  readonly quiesce: 'quota' | 'attested';
  readonly readings: Readonly<Record<string, number | boolean>>;
  /** The runs of the morning that have faults again; the morning ends when all is well. */
  readonly morning: readonly Part[];
}

const EVENTS = ['node dies', 'cluster dies', 'cluster sealed', 'leader', 'cut off', 'stream held'] as const;
const ANSWERS = ['lose-answer', 'reset', 403, 429, 500, 503] as const;
const ORDERS = ['abort', 'cancel', 'pause', 'takeOver', 'terminate'] as const;
const SECONDARY = ['generate-public-key', 'update-primary'].map((name) => `secondary/${name}`);
const TOKEN = ['generate-operation-token/attempt', 'generate-operation-token/update', 'operation-token/delete'];

/** The night of a seed: the same each time, except for effects of timing. */
export function nightOf(seed: number): Night {
  const random = new SeededRandom(seed).derive('night');
  const chance = (of: number) => random.chance(of);
  const pick = <const T extends readonly [unknown, ...unknown[]]>(...list: T) => random.pick<T[number]>(list);
  const runbook = pick('drSwitchover', 'drSwitchover', 'drFailover', 'performancePromotion');
  const kind = runbook === 'performancePromotion' ? 'performance' : 'dr';
  const clusters: Night['clusters'] = chance(0.35) ? ['east', 'west', 'north'] : ['east', 'west'];
  const spare = chance(0.4);
  const others = clusters.map((name) => [name, spare && name !== 'north' ? [name, `${name}-dr`] : [name]] as const);
  const drSets =
    kind === 'dr' ? { main: clusters, ...(spare && { eu: ['europe', 'berlin'] }) } : Object.fromEntries(others);
  const all = Object.values(drSets).flat() as [string, ...string[]];
  const switchover = { to: 'west', go: pick('auto', 'required'), onStuck: pick('promote-back', 'park') };
  const acceptLoss = pick('none', 'bounded');
  const mode = chance(0.5) ? { mode: 'unplanned', overrideDrSecondary: true } : { acceptLoss };
  const inputs = {
    drSwitchover: { ...switchover, acceptLoss },
    drFailover: chance(0.5) ? { to: 'west' } : {},
    performancePromotion: { to: 'west', ...mode },
  };
  const base = `POST /v1/sys/replication/${kind}`;
  const ofTokens = kind === 'dr' ? TOKEN.map((name) => `${base}/secondary/${name}`) : [];
  const endpoints = [
    ...[`${base}/primary/secondary-token`, ...SECONDARY.map((name) => `${base}/${name}`), ...ofTokens],
    ...['POST /v1/kv/data/runbooks-marker', 'POST /v1/kv/data/runbooks-marker-after'],
  ] as const;
  /** Most faults happen around the change of the primary. */
  const part = (from: string, to: string): Part => {
    const moment = (): Moment => {
      const when = pick('before', 'after');
      if (chance(0.4)) {
        const [cluster, endpoint] = pick([from, 'primary/demote'], [to, 'secondary/promote']);
        return { cluster, endpoint: `${base}/${endpoint}`, nth: pick(1, 1, 2), when };
      }
      const cluster = pick(...all);
      if (chance(0.3)) return { cluster, endpoint: pick(...endpoints), nth: pick(1, 1, 2), when };
      const after = `${base}/${pick('primary/demote', 'secondary/promote')}`;
      return { cluster, endpoint: '', after, nth: 1 + random.below(14), when };
    };
    const mishap = (): Mishap => ({
      ...{ what: chance(0.4) ? pick(...ANSWERS) : pick(...EVENTS), to: pick(...all), at: moment() },
      repairedAfterMs: chance(0.6) ? pick(200, 1_000, 2_500, 5_000) : undefined,
    });
    return {
      mishaps: Array.from({ length: 1 + random.below(5) }, mishap),
      orders: chance(0.5) ? [{ order: pick(...ORDERS), at: moment() }] : [],
      patience: pick(0, 1, 2, 4),
    };
  };
  const [nodes, version] = [pick(1, 3), pick('1.16.20+ent', '1.21.4+ent', '2.0.4+ent')];
  const [batchToken, quiesce] = [chance(0.3), pick('quota', 'attested')];
  return {
    ...{ seed, runbook, kind, input: inputs[runbook], clusters, drSets },
    nodes,
    version,
    batchToken,
    // Older versions have no quota that refuses every client.
    quiesce: version.startsWith('1.16') ? 'attested' : quiesce,
    apiAddr: new SeededRandom(seed).derive('api_addr').pick(['load balancer', 'pods', 'listed', 'redacted']),
    restartMs: new SeededRandom(seed).derive('restart').pick([50, 50, 50, 9_000]),
    readings: {
      ...{ leaderChangeChance: pick(0, 0.3, 0.8), promoteRefusedBehindDeadSource: chance(0.5) },
      performanceSecondariesFollow: chance(0.5),
    },
    ...part('east', 'west'),
    morning: Array.from({ length: pick(0, 1, 1, 2) }, () => part('west', 'east')),
  };
}
