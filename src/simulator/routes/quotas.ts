import { badRequest, found, NO_CONTENT, parseDuration, ServiceFault, type ServiceAnswer } from '../messages';
import type { SimulatedCluster } from '../cluster';
import type { SimulatedNode } from '../node';
import type { StoredValue, RateLimitQuota, QuotaConfig } from '../stored';
import { writeShared } from './key-value';
import { route, type Route, type RouteCall } from './route';

const QUOTA = 'quota/';
const CONFIG = 'quota-config';
const NEVER_LIMITED: QuotaConfig = {
  rate_limit_exempt_paths: [
    'sys/generate-recovery-token/attempt',
    'sys/generate-recovery-token/update',
    'sys/generate-root/attempt',
    'sys/generate-root/update',
    'sys/health',
    'sys/seal-status',
    'sys/unseal',
  ],
  absolute_rate_limit_exempt_paths: null,
  enable_rate_limit_audit_logging: false,
  enable_rate_limit_response_headers: false,
};

function configOf({ storage }: SimulatedCluster): QuotaConfig {
  return storage.read('quota-config', CONFIG)?.config ?? NEVER_LIMITED;
}

function quotasOf({ storage }: SimulatedCluster): readonly (readonly [name: string, quota: RateLimitQuota])[] {
  return storage.keys(QUOTA).flatMap((key) => {
    const stored = storage.read('quota', key);
    return stored ? [[key.slice(QUOTA.length), stored.quota] as const] : [];
  });
}

/**

 * Counts a request against the quota with the most specific path, in a bucket of the node that it arrived at (facts 12.8:
 * the rule is stored, the count is not). Happens before any authorization, and applies to reads and logins too.
 *
 * @throws ServiceFault 429
 */
export function countAgainstQuotas(
  cluster: SimulatedCluster,
  node: SimulatedNode,
  { path, address }: { readonly path: string; readonly address: string },
): void {
  if (cluster.isDrSecondary || node.sealed) return;
  if (configOf(cluster).rate_limit_exempt_paths.some((exempt) => isBelow(exempt, path))) return;
  const [limiting] = quotasOf(cluster)
    .filter(([, quota]) => quota.path === '' || isBelow(quota.path, path))
    .toSorted(([, one], [, other]) => other.path.length - one.path.length);
  if (limiting === undefined) return;
  const [name, { rate, intervalMs, groupBy }] = limiting;
  const now = cluster.service.now();
  const key = `${name}\0${groupBy === 'ip' ? address : ''}`;
  const known = node.quotaBuckets.get(key);
  const bucket = known && now < known.refilledAt ? known : { left: Math.max(1, rate), refilledAt: now + intervalMs };
  node.quotaBuckets.set(key, { ...bucket, left: bucket.left - 1 });
  if (bucket.left < 1) throw new ServiceFault(429, [`request path "${path}": rate limit quota exceeded`]);
}

function isBelow(prefix: string, path: string): boolean {
  const base = prefix.replace(/\/$/, '');
  return path === base || path.startsWith(`${base}/`);
}

/** Resets every member that the body does not have. */
function writeConfig(call: RouteCall): ServiceAnswer {
  const absolute = call.list('absolute_rate_limit_exempt_paths');
  const config = {
    rate_limit_exempt_paths: call.list('rate_limit_exempt_paths'),
    absolute_rate_limit_exempt_paths: absolute.length === 0 ? null : absolute,
    enable_rate_limit_audit_logging: call.flag('enable_rate_limit_audit_logging'),
    enable_rate_limit_response_headers: call.flag('enable_rate_limit_response_headers'),
  };
  writeShared(call, CONFIG, { type: 'quota-config', config });
  return NO_CONTENT;
}

function listQuotas(call: RouteCall): ServiceAnswer {
  const keys = quotasOf(call.cluster).map(([name]) => name);
  if (keys.length === 0) throw new ServiceFault(404, []);
  return call.answer({ keys });
}

function readQuota(call: RouteCall): ServiceAnswer {
  const name = call.parameter('name');
  const { path, rate, intervalMs, groupBy } = found(call.cluster.storage.read('quota', QUOTA + name)).quota;
  return call.answer({
    ...{ name, path, rate, interval: intervalMs / 1000, block_interval: 0, type: 'rate-limit', inheritable: true },
    ...(groupsClients(call.cluster) && isEnterprise(call.cluster) && { group_by: groupBy }),
  });
}

function isEnterprise({ version }: SimulatedCluster): boolean {
  return version.includes('+ent');
}

/** `group_by` came with 1.20; older versions ignore it (facts 13.7). */
function groupsClients({ version }: SimulatedCluster): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return version === '' || major > 1 || minor >= 20;
}

function writeQuota(call: RouteCall): ServiceAnswer {
  const rate = Number(call.body['rate']);
  if (!(rate > 0)) throw badRequest("'rate' is invalid");
  const groupBy = (groupsClients(call.cluster) && call.text('group_by')) || 'ip';
  if (groupBy !== 'ip' && groupBy !== 'none') throw badRequest(`invalid grouping mode "${groupBy}"`);
  if (groupBy === 'none' && !isEnterprise(call.cluster))
    throw badRequest('grouping mode "none" is only available in Vault Enterprise');
  const intervalMs = parseDuration(call.text('interval') || '1s');
  if (intervalMs === undefined || intervalMs === 0) throw badRequest("'interval' is invalid");
  const quota: StoredValue = { type: 'quota', quota: { path: call.text('path'), rate, intervalMs, groupBy } };
  const name = call.parameter('name');
  writeShared(call, QUOTA + name, quota);
  return NO_CONTENT;
}

function deleteQuota(call: RouteCall): ServiceAnswer {
  const key = QUOTA + call.parameter('name');
  if (call.cluster.storage.get(key) !== undefined) writeShared(call, key, null);
  for (const { quotaBuckets } of call.cluster.nodes) quotaBuckets.clear();
  return NO_CONTENT;
}

/** Rate-limit quotas (facts 12). They are stored, and so they replicate like any other configuration. */
export const QUOTA_ROUTES: readonly Route[] = [
  route('GET sys/quotas/config', 'token', (call) => call.answer({ ...configOf(call.cluster) })),
  route('POST sys/quotas/config', 'token', writeConfig),
  route('LIST sys/quotas/rate-limit', 'token', listQuotas),
  route('GET sys/quotas/rate-limit/:name', 'token', readQuota),
  route('POST sys/quotas/rate-limit/:name', 'token', writeQuota),
  route('DELETE sys/quotas/rate-limit/:name', 'token', deleteQuota),
];
