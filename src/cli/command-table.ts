import type { Command } from 'commander';
import type { CommandHost } from './command';
import type * as approveModule from './commands/approve';
import type * as controlModule from './commands/control';
import type * as decideModule from './commands/decide';
import type * as declineModule from './commands/decline';
import type * as holderPageModule from './commands/holder-page';
import type * as inventoryModule from './commands/inventory';
import type * as invitationModule from './commands/invitation';
import type * as keysModule from './commands/keys';
import type * as programsModule from './commands/programs';
import type * as readinessModule from './commands/readiness';
import type * as reportModule from './commands/report';
import type * as runsModule from './commands/runs';
import type * as runbooksModule from './commands/runbooks';
import type * as scanModule from './commands/scan';
import type * as shareModule from './commands/share';
import type * as startModule from './commands/start';
import type * as submitTokenModule from './commands/submit-token';
import type * as watchModule from './commands/watch';

/* Each command loads what it needs when it is asked for: a holder's `share` must not wait for the simulated service. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */

interface CommandGroup {
  readonly names: readonly string[];
  readonly load: (host: CommandHost) => readonly Command[];
}

/** All commands in the order of the help, with how to load them. */
export const COMMANDS: readonly CommandGroup[] = [
  {
    names: ['start', 'plan'],
    load: (host) => {
      const { startCommand, planCommand } = require('./commands/start') as typeof startModule;
      return [planCommand(host), startCommand(host)];
    },
  },
  {
    names: ['runbooks'],
    load: (host) => [(require('./commands/runbooks') as typeof runbooksModule).runbooksCommand(host)],
  },
  {
    names: ['readiness'],
    load: (host) => [(require('./commands/readiness') as typeof readinessModule).readinessCommand(host)],
  },
  {
    names: ['list', 'status'],
    load: (host) => {
      const { listCommand, statusCommand } = require('./commands/runs') as typeof runsModule;
      return [listCommand(host), statusCommand(host)];
    },
  },
  {
    names: ['watch'],
    load: (host) => [(require('./commands/watch') as typeof watchModule).watchCommand(host)],
  },
  {
    names: ['share'],
    load: (host) => [(require('./commands/share') as typeof shareModule).shareCommand(host)],
  },
  {
    names: ['invitation'],
    load: (host) => [(require('./commands/invitation') as typeof invitationModule).invitationCommand(host)],
  },
  {
    names: ['holder-page'],
    load: (host) => [(require('./commands/holder-page') as typeof holderPageModule).holderPageCommand(host)],
  },
  {
    names: ['submit-token'],
    load: (host) => [(require('./commands/submit-token') as typeof submitTokenModule).submitTokenCommand(host)],
  },
  {
    names: ['decline'],
    load: (host) => [(require('./commands/decline') as typeof declineModule).declineCommand(host)],
  },
  {
    names: ['approve'],
    load: (host) => [(require('./commands/approve') as typeof approveModule).approveCommand(host)],
  },
  {
    names: ['decide'],
    load: (host) => [(require('./commands/decide') as typeof decideModule).decideCommand(host)],
  },
  {
    names: ['pause', 'resume', 'abort'],
    load: (host) => (require('./commands/control') as typeof controlModule).controlCommands(host),
  },
  {
    names: ['report'],
    load: (host) => [(require('./commands/report') as typeof reportModule).reportCommand(host)],
  },
  {
    names: ['scan'],
    load: (host) => [(require('./commands/scan') as typeof scanModule).scanCommand(host)],
  },
  {
    names: ['keys'],
    load: (host) => [(require('./commands/keys') as typeof keysModule).keysCommand(host)],
  },
  {
    names: ['inventory'],
    load: (host) => [(require('./commands/inventory') as typeof inventoryModule).inventoryCommand(host)],
  },
  {
    names: ['worker', 'simulator', 'dev'],
    load: (host) => {
      const programs = require('./commands/programs') as typeof programsModule;
      return [programs.workerCommand(host), programs.simulatorCommand(host), programs.devCommand(host)];
    },
  },
];
