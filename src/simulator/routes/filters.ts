import { canonicalPaths, dynamicFilterOf, type DynamicFilter } from '../filters';
import type { JsonObject } from '../json';
import { badRequest, envelope, listField, NO_CONTENT, textField, type ServiceAnswer } from '../messages';
import { requireSecondary } from '../role-changes';
import { ServiceFault } from '../service-fault';
import { route, type Route, type RouteCall } from './route';

function requirePerformancePrimary(call: RouteCall): void {
  if (call.cluster.effectiveRole('performance').mode !== 'primary')
    throw badRequest('paths filters are kept on the performance primary');
}

function keyOf(call: RouteCall): string {
  return `cluster/filter/${call.parameters['id'] ?? ''}`;
}

/** Unknown ids are fine: the filter is to exist before its secondary is activated. */
function writeFilter(call: RouteCall): ServiceAnswer {
  requirePerformancePrimary(call);
  const { body } = call.request;
  const mode = textField(body, 'mode') || 'allow';
  if (mode !== 'allow' && mode !== 'deny') throw badRequest('mode must be "allow" or "deny"');
  const paths = canonicalPaths(listField(body, 'paths'));
  for (const path of paths) {
    const exists = ['mount', 'namespace'].some((kind) => call.cluster.storage.get(`${kind}/${path}`) !== undefined);
    if (!exists) throw badRequest(`path "${path}" must be a mount or a namespace`);
  }
  call.cluster.storage.write(keyOf(call), { type: 'filter', filter: { mode, paths } }, call.now);
  return NO_CONTENT;
}

function readFilter(call: RouteCall): ServiceAnswer {
  requirePerformancePrimary(call);
  const filter = call.cluster.filterOf(call.parameters['id'] ?? '');
  if (filter === undefined) throw new ServiceFault(404, []);
  return envelope(call.requestId, { mode: filter.mode, paths: [...filter.paths] });
}

function deleteFilter(call: RouteCall): ServiceAnswer {
  requirePerformancePrimary(call);
  if (call.cluster.storage.get(keyOf(call)) !== undefined) call.cluster.storage.write(keyOf(call), null, call.now);
  return NO_CONTENT;
}

function dynamicAnswer(call: RouteCall, filter: DynamicFilter | undefined): ServiceAnswer {
  if (filter === undefined) throw new ServiceFault(404, []);
  const data: JsonObject = {
    dynamic_filtered_mounts: [...filter.mounts],
    dynamic_filtered_namespaces: [...filter.namespaces],
  };
  return envelope(call.requestId, data);
}

function dynamicOnPrimary(call: RouteCall): ServiceAnswer {
  requirePerformancePrimary(call);
  const filter = call.cluster.filterOf(call.parameters['id'] ?? '');
  return dynamicAnswer(call, filter === undefined ? undefined : dynamicFilterOf(call.cluster.storage, filter));
}

function dynamicOnSecondary(call: RouteCall): ServiceAnswer {
  const role = requireSecondary(call.cluster, 'performance');
  const own = role.secondaryId === call.parameters['id'];
  return dynamicAnswer(call, own ? call.cluster.streams.performance.dynamicFilter() : undefined);
}

const filterRoute = (method: string, path: string, run: Route['run']) =>
  route(`${method} sys/replication/performance/${path}/:id`, 'token', run, { rootNamespaceOnly: true });

/** Paths filters and the read-only dynamic filters. */
export const FILTER_ROUTES: readonly Route[] = [
  filterRoute('POST', 'primary/paths-filter', writeFilter),
  filterRoute('GET', 'primary/paths-filter', readFilter),
  filterRoute('DELETE', 'primary/paths-filter', deleteFilter),
  filterRoute('GET', 'primary/dynamic-filter', dynamicOnPrimary),
  filterRoute('GET', 'secondary/dynamic-filter', dynamicOnSecondary),
];
