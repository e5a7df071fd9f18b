import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import { RUNBOOK_NAMES } from '../src/contracts/names';

export { drSwitchover } from './dr-switchover';
export { operationTokenCeremony } from './operation-token-ceremony';

/** A mistyped workflow type would otherwise wedge for ever and hold its Workflow ID. */
export default async function unknownRunbook(): Promise<never> {
  throw ApplicationFailure.create({
    type: 'UNKNOWN_RUNBOOK',
    nonRetryable: true,
    message: `There is no runbook ${workflowInfo().workflowType}. Runbooks: ${RUNBOOK_NAMES.join(', ')}.`,
  });
}
