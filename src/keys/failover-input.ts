import { hash } from 'node:crypto';
import { RUNBOOK_INPUTS } from '../contracts/runbook-inputs';
import { RunbookError } from '../errors';

/**
 * The digest of a failover's input, which a take-over document names: whoever sees the document cannot order another
 * failover with it. Defaults count as if they were written out, and the order of members does not matter.
 *
 * @throws RunbookError INVALID_INPUT
 */
export function failoverInputDigest(input: unknown): string {
  const parsed = RUNBOOK_INPUTS.drFailover.safeParse(input);
  if (!parsed.success)
    throw new RunbookError('INVALID_INPUT', 'This is not the input of drFailover.', {
      needed: 'a deployment and a reason',
    });
  const { takeOver: _takeOver, takeOverDocument: _document, ...bound } = parsed.data;
  return hash('sha256', JSON.stringify(Object.fromEntries(Object.entries(bound).sort(byName))), 'base64url');
}

const byName = ([one]: readonly [string, unknown], [other]: readonly [string, unknown]) => (one < other ? -1 : 1);
