import type * as replaced from '../../dev-server/locations';
import { RunbookError } from '../../errors';

/** Set by the build. */
declare const RUNBOOK_VERSION: string;

export const programVersion: typeof replaced.programVersion = () => RUNBOOK_VERSION;

export const projectRoot: typeof replaced.projectRoot = () => {
  throw new RunbookError('INTERNAL', 'This command needs files that are not in this file.', {
    next: 'Run it on a worker host, with the installed package.',
  });
};

export const programFile: typeof replaced.programFile = () => __filename;
