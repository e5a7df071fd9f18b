/* Each command loads its modules on demand: a holder's `share` must not wait for the simulated service to load. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */
import type { Command } from 'commander';
import type { CommandHost } from './command-host';

/** The export of each file in `commands/`. */
export interface CommandModule {
  readonly commands: (host: CommandHost) => readonly Command[];
}

/** Loads the files in `commands/`. The build of `runbook.cjs` replaces this module by the one in `one-file/`. */
export const COMMAND_FILES = {
  doctor: () => require('./commands/doctor') as CommandModule,
  gateway: () => require('./commands/gateway') as CommandModule,
  init: () => require('./commands/init') as CommandModule,
  inventory: () => require('./commands/inventory') as CommandModule,
  keys: () => require('./commands/keys') as CommandModule,
  programs: () => require('./commands/programs') as CommandModule,
  reports: () => require('./commands/reports') as CommandModule,
  runbooks: () => require('./commands/runbooks') as CommandModule,
  runs: () => require('./commands/runs') as CommandModule,
  schedules: () => require('./commands/schedules') as CommandModule,
  share: () => require('./commands/share') as CommandModule,
  start: () => require('./commands/start') as CommandModule,
  statements: () => require('./commands/statements') as CommandModule,
  waiting: () => require('./commands/waiting') as CommandModule,
};

/** A file in `commands/`. */
export type CommandFile = keyof typeof COMMAND_FILES;

/** Commands that this program does not have. */
export const LEFT_OUT: readonly string[] = [];
