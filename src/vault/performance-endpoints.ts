import { RunbookError } from '../errors';
import { dataOf, fetchAccepted, fetchAnswer, fetchIfPresent, segment } from './answers';
import { readDynamicFilter, readPathsFilter } from './filters';
import type { DynamicFilter, FilterMode, PathsFilter } from './filters';
import { PrimaryEndpoints, SecondaryEndpoints } from './replication-endpoints';
import { promoteBody, updatePrimaryBody } from './replication-parameters';
import type { PromoteParameters, UpdatePrimaryParameters } from './replication-parameters';
import { readPerformanceStatus } from './replication-status';
import type { PerformanceStatus } from './replication-status';
import type { Accepted, CallOptions, Caller } from './types';

const BASE = 'sys/replication/performance';

/** The endpoints below `sys/replication/performance` (interface 4.2). */
export class PerformanceEndpoints {
  readonly primary: PerformancePrimaryEndpoints;
  readonly secondary: PerformanceSecondaryEndpoints;

  constructor(private readonly caller: Caller) {
    this.primary = new PerformancePrimaryEndpoints(caller, BASE);
    this.secondary = new PerformanceSecondaryEndpoints(caller, BASE);
  }

  /** Status for performance replication. Unauthenticated. */
  status(options?: CallOptions): Promise<PerformanceStatus> {
    const request = { method: 'GET', path: `${BASE}/status`, effect: 'reads' } as const;
    return fetchAnswer(this.caller, request, options, (body) => readPerformanceStatus(dataOf(body)));
  }
}

class PerformancePrimaryEndpoints extends PrimaryEndpoints {
  readonly pathsFilter: PathsFilterEndpoints;

  constructor(caller: Caller, base: string) {
    super(caller, base);
    this.pathsFilter = new PathsFilterEndpoints(caller, base);
  }

  /** The filter of a secondary as the primary sees it; `undefined` where there is none. */
  dynamicFilter(id: string, options?: CallOptions): Promise<DynamicFilter | undefined> {
    return fetchDynamicFilter(this.caller, `${this.base}/primary`, id, options);
  }
}

/** The paths filter of one performance secondary; `id` is the secondary's cluster ID. */
class PathsFilterEndpoints {
  constructor(
    private readonly caller: Caller,
    private readonly base: string,
  ) {}

  /** `undefined` where the secondary has no filter. */
  async read(id: string, options?: CallOptions): Promise<PathsFilter | undefined> {
    const request = { method: 'GET', path: this.path(id), effect: 'reads' } as const;
    return fetchIfPresent(this.caller, request, options, (body) => readPathsFilter(dataOf(body)));
  }

  /** Replaces the whole filter. Defaults of the interface: `allow`, no paths. */
  async write(
    id: string,
    filter: { readonly mode?: FilterMode; readonly paths?: readonly string[] },
    options?: CallOptions,
  ): Promise<Accepted> {
    if (filter.mode !== undefined && filter.mode !== 'allow' && filter.mode !== 'deny') {
      throw new RunbookError('INVALID_INPUT', '"mode" must be "allow" or "deny"');
    }
    const body = { mode: filter.mode, paths: filter.paths };
    return fetchAccepted(this.caller, { method: 'POST', path: this.path(id), body, effect: 'changes' }, options);
  }

  async delete(id: string, options?: CallOptions): Promise<Accepted> {
    return fetchAccepted(this.caller, { method: 'DELETE', path: this.path(id), effect: 'changes' }, options);
  }

  private path(id: string): string {
    return `${this.base}/primary/paths-filter/${segment('id', id)}`;
  }
}

class PerformanceSecondaryEndpoints extends SecondaryEndpoints {
  /** Makes the performance secondary a primary. */
  promote(parameters: PromoteParameters, options?: CallOptions): Promise<Accepted> {
    return this.change('promote', promoteBody(parameters), options);
  }

  /** Ends performance replication on the secondary. */
  disable(options?: CallOptions): Promise<Accepted> {
    return this.change('disable', {}, options);
  }

  /** Assigns another primary. Paths filters must be created again after a new token. */
  async updatePrimary(parameters: UpdatePrimaryParameters, options?: CallOptions): Promise<Accepted> {
    return this.change('update-primary', updatePrimaryBody(parameters), options);
  }

  /** The filter of a secondary as the secondary sees it; `undefined` where there is none. */
  dynamicFilter(id: string, options?: CallOptions): Promise<DynamicFilter | undefined> {
    return fetchDynamicFilter(this.caller, `${this.base}/secondary`, id, options);
  }
}

async function fetchDynamicFilter(
  caller: Caller,
  base: string,
  id: string,
  options: CallOptions | undefined,
): Promise<DynamicFilter | undefined> {
  const path = `${base}/dynamic-filter/${segment('id', id)}`;
  return fetchIfPresent(caller, { method: 'GET', path, effect: 'reads' }, options, (body) =>
    readDynamicFilter(dataOf(body)),
  );
}
