import { isRunbookError } from '../errors';
import type { Secret } from '../secret';
import { dataOf, fetchAnswer, neededInput } from './answers';
import { GenerationEndpoints } from './generation-endpoints';
import { readMerkleReport } from './merkle-report';
import type { MerkleReport } from './merkle-report';
import { PrimaryEndpoints, SecondaryEndpoints } from './replication-endpoints';
import { promoteBody, updatePrimaryBody } from './replication-parameters';
import type { PromoteParameters, UpdatePrimaryParameters } from './replication-parameters';
import { readDrStatus } from './replication-status';
import type { DrStatus } from './replication-status';
import type { Accepted, CallOptions, Caller } from './types';

const BASE = 'sys/replication/dr';

/** Authorises a call on a DR secondary: an operation token or a batch token with the right policy. Sent in the body. */
interface DrAuthorisation {
  readonly drOperationToken: Secret;
}

/** `reindex` (interface 4.1). */
interface ReindexParameters extends DrAuthorisation {
  readonly diff?: boolean;
  readonly force?: boolean;
  /** Shorter lock, but killing a node before the flush is done loses the reindex. */
  readonly skipFlush?: boolean;
}

/** The endpoints below `sys/replication/dr` (interface 4.1). */
export class DrEndpoints {
  readonly primary: PrimaryEndpoints;
  readonly secondary: DrSecondaryEndpoints;

  constructor(private readonly caller: Caller) {
    this.primary = new PrimaryEndpoints(caller, BASE);
    this.secondary = new DrSecondaryEndpoints(caller, BASE);
  }

  /** Status for DR. Unauthenticated. */
  status(options?: CallOptions): Promise<DrStatus> {
    const request = { method: 'GET', path: `${BASE}/status`, effect: 'reads' } as const;
    return fetchAnswer(this.caller, request, options, (body) => readDrStatus(dataOf(body)));
  }
}

/** The endpoints of a DR secondary. */
class DrSecondaryEndpoints extends SecondaryEndpoints {
  readonly generateOperationToken: GenerationEndpoints<'operation-token'>;

  constructor(caller: Caller, base: string) {
    super(caller, base);
    this.generateOperationToken = new GenerationEndpoints(
      caller,
      `${base}/secondary/generate-operation-token`,
      'operation-token',
    );
  }

  /** Makes the DR secondary a primary. NOT_CAUGHT_UP while it lags; `force` is never set on a caller's behalf. */
  async promote(parameters: PromoteParameters & DrAuthorisation, options?: CallOptions): Promise<Accepted> {
    const body = { ...authorisation(parameters), ...promoteBody(parameters) };
    return this.change('promote', body, options, { unavailableMeansBehind: true });
  }

  /** Ends DR replication on the secondary. */
  async disable(parameters: DrAuthorisation, options?: CallOptions): Promise<Accepted> {
    return this.change('disable', authorisation(parameters), options);
  }

  /** Assigns another primary. No data is wiped. */
  async updatePrimary(parameters: UpdatePrimaryParameters & DrAuthorisation, options?: CallOptions): Promise<Accepted> {
    return this.change('update-primary', { ...authorisation(parameters), ...updatePrimaryBody(parameters) }, options);
  }

  /** Deletes the operation token that is given. */
  async deleteOperationToken(parameters: DrAuthorisation, options?: CallOptions): Promise<Accepted> {
    return this.change('operation-token/delete', authorisation(parameters), options);
  }

  /** Starts a reindex in the background; follow it in the status. */
  async reindex(parameters: ReindexParameters, options?: CallOptions): Promise<Accepted> {
    const { diff, force, skipFlush } = parameters;
    return this.change('reindex', { ...authorisation(parameters), diff, force, skip_flush: skipFlush }, options);
  }

  /**
   * Checks the Merkle tree; takes long on large stores. The service's own route table disagrees with its documentation on
   * whether the token must be in the header too, so a 403 without one is answered with the same token there.
   */
  async merkleCheck(parameters: DrAuthorisation, options?: CallOptions): Promise<MerkleReport> {
    const path = `${this.base}/secondary/merkle-check`;
    const request = { method: 'POST', path, body: authorisation(parameters), effect: 'reads' } as const;
    const check = (callOptions: CallOptions | undefined) =>
      fetchAnswer(this.caller, request, callOptions, (body) => readMerkleReport(dataOf(body)));
    try {
      return await check(options);
    } catch (error) {
      if (options?.token !== undefined || !isRunbookError(error, 'PERMISSION_DENIED')) throw error;
      return check({ ...options, token: parameters.drOperationToken });
    }
  }
}

function authorisation(parameters: DrAuthorisation): { readonly dr_operation_token: Secret } {
  neededInput('drOperationToken', parameters.drOperationToken.reveal());
  return { dr_operation_token: parameters.drOperationToken };
}
