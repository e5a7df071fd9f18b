import { badRequest, found, NO_CONTENT, type ServiceAnswer } from '../messages';
import { requireRole } from '../roles';
import { dynamicFilterOf, canonicalPaths } from '../paths-filter';
import { route, type Route, type RouteCall } from './route';

/** Accepts unknown ids, because a filter must exist before its secondary is activated. */
function writeFilter(call: RouteCall): ServiceAnswer {
  const mode = call.text('mode') || 'allow';
  if (mode !== 'allow' && mode !== 'deny') throw badRequest('mode must be "allow" or "deny"');
  const { storage } = call.cluster;
  const paths = canonicalPaths(call.list('paths'));
  for (const path of paths)
    if (storage.get(`mount/${path}`) === undefined) throw badRequest(`path "${path}" must be a mount or a namespace`);
  storage.write(`cluster/filter/${call.parameter('id')}`, { type: 'filter', filter: { mode, paths } }, call.now);
  return NO_CONTENT;
}

function readFilter(call: RouteCall): ServiceAnswer {
  const { mode, paths } = found(call.cluster.filterOf(call.parameter('id')));
  return call.answer({ mode, paths: [...paths] });
}

function deleteFilter(call: RouteCall): ServiceAnswer {
  const { cluster, now } = call;
  const key = `cluster/filter/${call.parameter('id')}`;
  if (cluster.storage.get(key) !== undefined) cluster.storage.write(key, null, now);
  return NO_CONTENT;
}

function dynamicAnswer(call: RouteCall, filter: readonly string[] | undefined): ServiceAnswer {
  return call.answer({ dynamic_filtered_mounts: [...found(filter)], dynamic_filtered_namespaces: [] });
}

function dynamicOnPrimary(call: RouteCall): ServiceAnswer {
  const { storage } = call.cluster;
  return dynamicAnswer(call, dynamicFilterOf(storage, call.cluster.filterOf(call.parameter('id'))));
}

function dynamicOnSecondary(call: RouteCall): ServiceAnswer {
  const own = requireRole(call.cluster, 'performance', 'secondary').secondaryId === call.parameter('id');
  return dynamicAnswer(call, own ? call.cluster.streams.performance.dynamicFilter() : undefined);
}

const PERFORMANCE = 'sys/replication/performance';

const primaryRoute = (method: string, path: string, run: (call: RouteCall) => ServiceAnswer) =>
  route(`${method} ${PERFORMANCE}/primary/${path}/:id`, 'token', (call) => {
    requireRole(call.cluster, 'performance', 'primary');
    return run(call);
  });

/** Paths filters and the read-only dynamic filters. */
export const FILTER_ROUTES: readonly Route[] = [
  primaryRoute('POST', 'paths-filter', writeFilter),
  primaryRoute('GET', 'paths-filter', readFilter),
  primaryRoute('DELETE', 'paths-filter', deleteFilter),
  primaryRoute('GET', 'dynamic-filter', dynamicOnPrimary),
  route(`GET ${PERFORMANCE}/secondary/dynamic-filter/:id`, 'token', dynamicOnSecondary),
];
