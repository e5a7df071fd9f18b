import { readActivationToken } from './activation-token';
import type { ActivationToken } from './activation-token';
import { dataOf, fetchAccepted, fetchAnswer, neededInput } from './answers';
import { enableSecondaryBody, secondaryTokenBody } from './replication-parameters';
import type {
  EnablePrimaryParameters,
  EnableSecondaryParameters,
  RequestBody,
  SecondaryTokenParameters,
} from './replication-parameters';
import type { Accepted, CallOptions, Caller, RequestDescription } from './types';

/** Public key of a secondary for one activation. Only the node that made it can use the token encrypted with it. */
export interface SecondaryPublicKey {
  readonly publicKey: string;
  /** The address that answered. */
  readonly node: string;
}

/** The five primary endpoints that both kinds of replication have (interface 4.1, 4.2). */
export class PrimaryEndpoints {
  constructor(
    protected readonly caller: Caller,
    protected readonly base: string,
  ) {}

  /** Makes the cluster a primary. Replication of this kind must be disabled. */
  enable(parameters: EnablePrimaryParameters, options?: CallOptions): Promise<Accepted> {
    return this.change('enable', { primary_cluster_addr: parameters.primaryClusterAddr }, options);
  }

  /** Makes the primary an unconnected secondary. */
  demote(options?: CallOptions): Promise<Accepted> {
    return this.change('demote', {}, options);
  }

  /** Ends replication here: all secondaries are cut off for good. */
  disable(options?: CallOptions): Promise<Accepted> {
    return this.change('disable', {}, options);
  }

  /**
   * Issues an activation token. Needs `sudo`. Where the answer is lost, the id is taken and its token is unknown: revoke
   * the id, then ask again.
   */
  async secondaryToken(parameters: SecondaryTokenParameters, options?: CallOptions): Promise<ActivationToken> {
    const path = `${this.base}/primary/secondary-token`;
    const body = secondaryTokenBody(parameters);
    return fetchAnswer(this.caller, { method: 'POST', path, body, effect: 'changes' }, options, readActivationToken);
  }

  /** Cuts a secondary off at once. */
  async revokeSecondary(parameters: { readonly id: string }, options?: CallOptions): Promise<Accepted> {
    neededInput('id', parameters.id);
    return this.change('revoke-secondary', { id: parameters.id }, options);
  }

  private change(operation: string, body: RequestBody, options: CallOptions | undefined): Promise<Accepted> {
    const path = `${this.base}/primary/${operation}`;
    return fetchAccepted(this.caller, { method: 'POST', path, body, effect: 'changes' }, options);
  }
}

/** The secondary endpoints that both kinds of replication have in the same shape. */
export class SecondaryEndpoints {
  constructor(
    protected readonly caller: Caller,
    protected readonly base: string,
  ) {}

  /**
   * Makes a new key pair in the memory of the active node and returns the public half. Valid until the next call, restart
   * or leader change.
   */
  async generatePublicKey(options?: CallOptions): Promise<SecondaryPublicKey> {
    const path = `${this.base}/secondary/generate-public-key`;
    return fetchAnswer(this.caller, { method: 'POST', path, effect: 'changes' }, options, (body, node) => ({
      publicKey: dataOf(body).neededText('secondary_public_key'),
      node,
    }));
  }

  /** Makes the cluster a secondary. **All of its data is cleared at once.** */
  async enable(parameters: EnableSecondaryParameters, options?: CallOptions): Promise<Accepted> {
    return this.change('enable', enableSecondaryBody(parameters), options);
  }

  protected change(
    operation: string,
    body: RequestBody,
    options: CallOptions | undefined,
    meaning: Pick<RequestDescription, 'unavailableMeansBehind'> = {},
  ): Promise<Accepted> {
    const path = `${this.base}/secondary/${operation}`;
    return fetchAccepted(this.caller, { method: 'POST', path, body, effect: 'changes', ...meaning }, options);
  }
}
