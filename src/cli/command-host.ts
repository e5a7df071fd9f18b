import type { CliContext } from './context';
import type { ExitCode } from './errors';

/** The context of a command, and where it reports its exit code. */
export interface CommandHost {
  readonly context: CliContext;
  readonly finish: (code: ExitCode) => void;
}
