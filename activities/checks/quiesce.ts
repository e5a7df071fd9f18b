import { QUIESCE, readQuotas } from '../../src/moves/clients';
import type { Move } from '../../src/moves/move';
import type { ClientHooks, Quiesce } from '../../src/contracts/activities';
import type { ClusterObservation } from '../../src/contracts/observations';
import type { Check } from '../../src/contracts/plan';
import type { QuiesceMethod } from '../../src/contracts/runbook-inputs';
import { isRunbookError, orElse } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import type { ClusterAccess } from '../clusters';
import { OWN_CLIENTS, clustersServingClients, exemptPaths, foreignQuotas, loginPaths } from '../quiesce/quota';
import { check, notCheckable } from './check';
import { oneBucketVersion } from './versions';
import type { Rights } from './rights';

/** How clients are quiesced: the checks, and what the plan says about it. */
export interface Quiescing {
  readonly by: Quiesce;
  readonly checks: readonly Check[];
  readonly warnings: readonly string[];
  /** The steps that stop clients; none if the run does not. */
  readonly steps: readonly Move[];
  /** Additional rights that the credential for the primary needs. */
  readonly rights: Rights;
}

/** A deployment, and how its clusters are asked. */
interface Site {
  readonly deployment: Deployment;
  readonly access: (cluster: string) => ClusterAccess;
  readonly signal: AbortSignal;
}

interface Wanted {
  readonly quiesce?: QuiesceMethod | undefined;
  readonly acceptLoss: 'none' | 'bounded';
}

/** The rights that a credential needs for the quota. */
export const QUOTA_RIGHTS: Rights = {
  'sys/quotas/config': ['read', 'update'],
  'sys/quotas/rate-limit': ['list'],
  'sys/quotas/rate-limit/runbooks-*': ['read', 'create|update', 'delete'],
};

/** The client hooks, except the one that quiesces clients. */
export function clientHooksOf({ hooks }: Pick<Deployment, 'hooks'>): ClientHooks {
  const { release, traffic, probe } = hooks;
  return { release: release !== undefined, traffic: traffic !== undefined, probe: probe !== undefined };
}

const NAME = 'zero loss can be proven';

/** Zero loss must be provable before anybody is asked: clients can be quiesced, or the plan accepts a loss. */
export async function quiescing(
  { deployment, access, signal }: Site,
  { quiesce: wanted, acceptLoss }: Wanted,
  former: ClusterObservation,
  to: string,
): Promise<Quiescing> {
  const { hooks, quiesce } = deployment;
  const { cluster: from } = former;
  const primary = access(from);
  const hasHooks = hooks.quiesce !== undefined && hooks.release !== undefined;
  const by = wanted ?? quiesce.by ?? (hasHooks ? 'hook' : 'none');
  const stale = by === 'quota' ? [] : leftBehind(from, await quotasOfRuns(primary, signal));
  const nothing: Omit<Quiescing, 'checks'> = { by, warnings: [], steps: [], rights: {} };
  switch (by) {
    case 'hook': {
      const both = check(NAME, from, hasHooks, {
        observed: hasHooks ? 'a quiesce hook and a release hook' : 'not both a quiesce hook and a release hook',
        needed: 'hooks.quiesce and hooks.release in the inventory',
        next: 'Add both hooks, or choose another way: {"quiesce": "quota"} or {"quiesce": "attested"}.',
      });
      return { ...nothing, checks: [...stale, both], steps: [{ step: QUIESCE, note: 'by the hook' }] };
    }
    case 'quota':
      return {
        by,
        checks: [
          oneBucketVersion(former),
          stopsOwnClients(former),
          ...(await quotaIsPossible({ deployment, access, signal }, primary)),
        ],
        rights: QUOTA_RIGHTS,
        warnings: [
          `ALL clients of ${from} are refused with 429, including reads and logins, until ${to} serves. Clients of the performance secondaries of ${from} are refused too, until each secondary follows ${to}. Exempt paths: ${exemptPaths(deployment).join(', ')}.`,
          ...sharedLogins(deployment),
        ],
        steps: [
          { step: readQuotas(from) },
          { step: QUIESCE, note: `by a rate-limit quota on ${from}, verified to refuse requests at every node` },
        ],
      };
    case 'attested': {
      const attested = notCheckable(NAME, from, {
        observed: 'the approvers of the plan attest that no client writes',
        needed: 'clients stopped manually before gate plan is approved',
      });
      const warning = `By approving this you attest that no client writes to ${from} until ${to} serves. If one does, its last writes are lost.`;
      return { ...nothing, checks: [...stale, attested], warnings: [warning] };
    }
    case 'none': {
      const accepted = check(NAME, from, acceptLoss === 'bounded', {
        observed: 'nothing quiesces clients',
        needed: 'a way to quiesce clients, or acceptLoss bounded',
        next: [
          'Choose one. In the inventory: "hooks: { quiesce: ..., release: ... }" (best), "quiesce: quota" (the service then refuses ALL clients) or "quiesce: attested" (the approvers attest that no client writes).',
          'For this run only: {"quiesce": "quota"}, {"quiesce": "attested"}, or {"acceptLoss": "bounded"}, with which the last writes may be lost.',
        ].join(' '),
      });
      return { ...nothing, checks: [...stale, accepted] };
    }
  }
}

/** The login paths of workers that are not exempt, because applications may log in there too. */
function sharedLogins(deployment: Deployment): string[] {
  const shared = loginPaths(deployment, false).filter((path) => !exemptPaths(deployment).includes(path));
  if (shared.length === 0) return [];
  const [those, mounts] = shared.length === 1 ? ['that path', 'that mount'] : ['those paths', 'those mounts'];
  return [
    `Workers log in at ${shared.join(', ')}, where applications may log in too: ${those} (${shared.length} of the workers' logins) are refused as well. The worker logs in before. A worker that starts while clients are held cannot; if no other worker can release them then, people delete the quota. With ${mounts} for the workers alone (\`ownMount: true\`, \`runbook init --mount\`) they can.`,
  ];
}

/** A quota on a performance secondary would stop the clients of the whole performance set (facts 13.7). */
function stopsOwnClients({ cluster, performance }: ClusterObservation): Check {
  const observed = `performance replication: ${performance?.mode ?? 'not reported'}`;
  return check('a quota stops only its own clients', cluster, performance?.mode !== 'secondary', {
    observed,
    ...OWN_CLIENTS,
  });
}

export const QUOTA_POSSIBLE = 'clients can be stopped by a quota';

async function quotaIsPossible({ deployment, access, signal }: Site, primary: ClusterAccess): Promise<Check[]> {
  const { name } = primary.entry;
  const needed = 'no other rate-limit quota, and no rate-limit headers in responses';
  try {
    const options = { token: await primary.credential(), signal };
    const { sys } = primary.client;
    const [names = [], config] = await Promise.all([sys.rateLimitQuotas(options), sys.quotaConfig(options)]);
    await clustersServingClients(deployment, primary, access, signal);
    const headers = config.enableRateLimitResponseHeaders ? ['enable_rate_limit_response_headers is on'] : [];
    const others = foreignQuotas(names);
    const possible = check(QUOTA_POSSIBLE, name, others.length + headers.length === 0, {
      observed: [...others, ...headers].join(', ') || 'no other quota',
      needed,
      next: 'Quiesce by hook instead (hooks.quiesce and hooks.release): a quota with a path takes precedence over ours, and with these headers clients would keep waiting after the release.',
    });
    return [...leftBehind(name, ofRuns(names)), possible];
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const elsewhere = error.cluster !== undefined && error.cluster !== name;
    const { observed = error.code, needed: theirs = needed } = elsewhere ? error : {};
    // If a right is missing, the refusal names the policy line.
    const next = error.next ?? `Find out why the quotas of ${name} cannot be read, then start again.`;
    return [check(QUOTA_POSSIBLE, name, false, { observed, needed: theirs, next })];
  }
}

export const QUOTA_LEFT_BEHIND = 'no quota of a run that ended';

function ofRuns(names: readonly string[]): readonly string[] {
  return names.filter((each) => !foreignQuotas([each]).includes(each));
}

/** The quotas of runs on a cluster; undefined if they cannot be read, which does not mean that there are none. */
export function quotasOfRuns(access: ClusterAccess, signal: AbortSignal): Promise<readonly string[] | undefined> {
  const read = async () => {
    const names = await access.client.sys.rateLimitQuotas({ token: await access.credential(), signal });
    return ofRuns(names ?? []);
  };
  return read().catch(orElse(signal, () => undefined));
}

/** A quota that a run left behind refuses clients now. No check if there is none, or no right to see it. */
function leftBehind(cluster: string, quotas: readonly string[] = []): Check[] {
  return quotas.map((quota) =>
    check(QUOTA_LEFT_BEHIND, cluster, false, {
      observed: `${quota} refuses the clients of ${cluster}`,
      needed: 'no quota runbooks-... while no run is active',
      next: `Release the clients: \`vault delete sys/quotas/rate-limit/${quota}\` on ${cluster}.`,
    }),
  );
}
