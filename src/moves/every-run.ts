import type { Move } from './move';

/* What every run does, whatever it is about. */

export const READ_AND_CHECK = 'Read and check the deployment';
export const READ_AGAIN = 'Read and check again';
export const FINAL_STATE = 'Read the final state';
export const WRITE_REPORT = 'Write the report';

/** The reading that the plan itself was made from. */
export const firstReading = { step: READ_AND_CHECK, note: 'this plan is its result' } as const satisfies Move;
/** People may take hours, and what was read before is out of date then. */
export const secondReading: Move = { step: READ_AGAIN, note: 'a plan that changed needs new approvals' };
/** For a plan whose approval is not always needed. */
export const readingAfterWait: Move = { ...secondReading, when: 'the run waited for people or for its window' };
export const finalReading: Move = { step: FINAL_STATE };
export const report: Move = { step: WRITE_REPORT, when: 'the workers keep report files' };

/** A copy of a cluster's storage before a step that cannot be undone. */
export const snapshotOf = (cluster: string) => `Take a snapshot of ${cluster}`;
