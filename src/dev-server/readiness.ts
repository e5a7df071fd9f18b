import { Connection } from '@temporalio/client';
import { errorMessage } from './error-message';

const CALL_DEADLINE_MS = 2_000;

/**
 * Whether the server at `address` serves: it is healthy, knows the namespace, and has the search attributes registered.
 *
 * @returns `serving`, or what is missing, in words.
 */
export async function isServing(
  address: string,
  namespace: string,
  searchAttributes: readonly string[],
): Promise<string> {
  const connection = Connection.lazy({ address, connectTimeout: CALL_DEADLINE_MS });
  try {
    return await connection.withDeadline(Date.now() + CALL_DEADLINE_MS, async () => {
      await connection.workflowService.describeNamespace({ namespace });
      if (searchAttributes.length === 0) return 'serving';
      const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace });
      const missing = searchAttributes.filter((name) => customAttributes?.[name] === undefined);
      return missing.length === 0 ? 'serving' : `search attributes are not registered yet: ${missing.join(', ')}`;
    });
  } catch (error) {
    return errorMessage(error);
  } finally {
    await connection.close();
  }
}
