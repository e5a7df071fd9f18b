/* eslint-disable @typescript-eslint/no-require-imports -- as in the module that this one replaces */
import type * as replaced from '../command-files';

type CommandModule = replaced.CommandModule;

/** The files with the commands of people: none of them loads the worker, and none needs another file of the package. */
export const COMMAND_FILES: Partial<typeof replaced.COMMAND_FILES> = {
  inventory: () => require('../commands/inventory') as CommandModule,
  keys: () => require('../commands/keys') as CommandModule,
  reports: () => require('../commands/reports') as CommandModule,
  runbooks: () => require('../commands/runbooks') as CommandModule,
  runs: () => require('../commands/runs') as CommandModule,
  share: () => require('../commands/share') as CommandModule,
  start: () => require('../commands/start') as CommandModule,
  statements: () => require('../commands/statements') as CommandModule,
  waiting: () => require('../commands/waiting') as CommandModule,
};

export const LEFT_OUT: typeof replaced.LEFT_OUT = [
  ...['holder-page', 'approver-page', 'init', 'doctor', 'policy', 'schedules', 'worker', 'gateway', 'simulator', 'dev'],
];
