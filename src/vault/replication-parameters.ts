import { RunbookError } from '../errors';
import type { Secret } from '../secret';
import { neededInput } from './answers';
import type { BodyValue } from './types';

/** `primary/enable` (interface 4.1, 4.2). */
export interface EnablePrimaryParameters {
  /** Cluster address that the primary gives to secondaries. Absent: the node's own. */
  readonly primaryClusterAddr?: string;
}

/** `primary/secondary-token`. */
export interface SecondaryTokenParameters {
  /** Unique identifier of the secondary. Use its cluster ID, so that paths filters fit either reading of their key. */
  readonly id: string;
  /** Go duration or seconds; `30m` where absent. */
  readonly ttl?: string;
  /** From `generatePublicKey` of the secondary: the answer is encrypted for it instead of wrapped. */
  readonly secondaryPublicKey?: string;
}

interface JoinParameters {
  /** Overrides the API address that is embedded in the token. */
  readonly primaryApiAddr?: string;
  /** PEM file on the disk of the secondary's node. */
  readonly caFile?: string;
  /** Directory of PEM files on the disk of the secondary's node. */
  readonly caPath?: string;
  /** Client certificate towards the primary's API listener; needs `clientKeyPem`. */
  readonly clientCertPem?: string;
  readonly clientKeyPem?: Secret<'private-key'>;
}

/** `secondary/enable`. Wipes the cluster it is called on. */
export interface EnableSecondaryParameters extends JoinParameters {
  readonly token: Secret<'activation-token'>;
}

/** `secondary/update-primary`: exactly one of `token` and `updatePrimaryAddrs`. */
export interface UpdatePrimaryParameters extends JoinParameters {
  /** `''` makes the cluster stay a secondary and forget any past primary. */
  readonly token?: Secret<'activation-token'> | '';
  /** Cluster addresses, tried one at a time. Not allowed on a cluster that was just demoted for DR. */
  readonly updatePrimaryAddrs?: readonly string[];
}

/** `secondary/promote`. */
export interface PromoteParameters {
  readonly primaryClusterAddr?: string;
  /** Promote even if safety checks fail: unreplicated data is lost. */
  readonly force?: boolean;
}

export type RequestBody = Readonly<Record<string, BodyValue | undefined>>;

export function secondaryTokenBody(parameters: SecondaryTokenParameters): RequestBody {
  neededInput('id', parameters.id);
  return { id: parameters.id, ttl: parameters.ttl, secondary_public_key: parameters.secondaryPublicKey };
}

export function enableSecondaryBody(parameters: EnableSecondaryParameters): RequestBody {
  if (parameters.token.reveal() === '') throw new RunbookError('INVALID_INPUT', '"token" must not be empty');
  return { token: parameters.token, ...joinBody(parameters) };
}

export function updatePrimaryBody(parameters: UpdatePrimaryParameters): RequestBody {
  const { token, updatePrimaryAddrs } = parameters;
  if (token !== undefined && updatePrimaryAddrs !== undefined) {
    throw new RunbookError('INVALID_INPUT', '"token" and "updatePrimaryAddrs" exclude each other');
  }
  if (token === undefined && (updatePrimaryAddrs === undefined || updatePrimaryAddrs.length === 0)) {
    throw new RunbookError('INVALID_INPUT', 'one of "token" and "updatePrimaryAddrs" is required');
  }
  if (token !== undefined && token !== '' && token.reveal() === '') {
    throw new RunbookError('INVALID_INPUT', 'an empty secret as "token": pass an empty string to forget the primary');
  }
  return { token, update_primary_addrs: updatePrimaryAddrs, ...joinBody(parameters) };
}

export function promoteBody(parameters: PromoteParameters): RequestBody {
  return { primary_cluster_addr: parameters.primaryClusterAddr, force: parameters.force };
}

function joinBody(parameters: JoinParameters): RequestBody {
  if ((parameters.clientCertPem === undefined) !== (parameters.clientKeyPem === undefined)) {
    throw new RunbookError('INVALID_INPUT', '"clientCertPem" and "clientKeyPem" need each other');
  }
  return {
    primary_api_addr: parameters.primaryApiAddr,
    ca_file: parameters.caFile,
    ca_path: parameters.caPath,
    client_cert_pem: parameters.clientCertPem,
    client_key_pem: parameters.clientKeyPem,
  };
}
