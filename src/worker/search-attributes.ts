import type { NativeConnection } from '@temporalio/worker';
import { SEARCH_ATTRIBUTES } from '../dev-server/settings';

const DEADLINE_MS = 5_000;

/**
 * Whether the server has every search attribute of the runbooks. Runs write them only then: an attribute that is not
 * registered fails a workflow task for ever. A server that does not say (no operator service, no permission) counts as
 * "no".
 */
export async function searchAttributesRegistered(connection: NativeConnection, namespace: string): Promise<boolean> {
  try {
    const { customAttributes } = await connection.withDeadline(Date.now() + DEADLINE_MS, () =>
      connection.operatorService.listSearchAttributes({ namespace }),
    );
    return Object.keys(SEARCH_ATTRIBUTES).every((name) => name in customAttributes);
  } catch {
    return false;
  }
}
