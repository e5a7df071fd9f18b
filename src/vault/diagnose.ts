import { RunbookError, isRunbookError } from '../errors';
import type { ServiceClient } from './service-client';
import type { CallOptions } from './types';

/**
 * Names a lasting 500 of authenticated calls. Where the active node says 200 of itself, unauthenticated reads work and an
 * authenticated lookup of the same token answers 500 too, an audit device is the likely reason (facts 11.15), and
 * AUDIT_DEVICE_BLOCKED is returned; else `error` as it came. Makes up to three reads; never throws.
 */
export async function diagnoseServerError(
  client: ServiceClient,
  error: unknown,
  options: CallOptions & Required<Pick<CallOptions, 'token'>>,
): Promise<unknown> {
  if (!isRunbookError(error, 'SERVICE_ERROR') || error.httpStatus !== 500) return error;
  if (!(await authenticatedReadsFail(client, options))) return error;
  return new RunbookError(
    'AUDIT_DEVICE_BLOCKED',
    `${error.message} (health is 200, authenticated reads fail as well)`,
    {
      cluster: client.cluster,
      httpStatus: 500,
      outcomeKnown: error.outcomeKnown,
      observed: 'health 200, authenticated lookup 500',
      needed: 'an audit device that accepts entries',
      next: 'Check the audit devices of the active node (disk full, socket peer gone), then try again.',
      cause: error,
    },
  );
}

async function authenticatedReadsFail(client: ServiceClient, options: CallOptions): Promise<boolean> {
  try {
    const health = await client.sys.health({ ...options, token: undefined });
    if (health.status !== 200) return false;
    const sameNode = { ...options, node: health.node };
    await client.sys.replicationStatus({ ...sameNode, token: undefined });
    return await client.sys.lookupSelf(sameNode).then(
      () => false,
      (error: unknown) => isRunbookError(error, 'SERVICE_ERROR') && error.httpStatus === 500,
    );
  } catch {
    return false;
  }
}
