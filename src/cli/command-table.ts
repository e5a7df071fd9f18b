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
import type * as watchModule from './commands/watch';

/* Each command loads what it needs when it is asked for: a holder's `share` must not wait for the simulated service. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */

interface CommandGroup {
  readonly names: readonly string[];
  readonly load: (host: CommandHost) => readonly Command[];
}

/** What the help says of each command, without loading it. */
export const SUMMARIES: Readonly<Record<string, string>> = {
  plan: 'only read, and show the plan: preconditions with observed and needed values, steps',
  start: 'start a run; exits at once, "runbook watch" follows it',
  runbooks: 'the runbooks, or the input fields of one',
  readiness: 'would a switchover and a failover start now? Changes nothing',
  list: 'the runs of this namespace, newest first',
  status: 'what a run does and waits for; answers within seconds, also without a worker',
  watch: 'follow a run until it ends; the exit code tells how',
  share: 'give your key share to a run that asks for it; it leaves this machine encrypted only',
  invitation: 'print the invitation of a run, to hand to holders who work offline',
  'holder-page': "write the holder's page: one HTML file that needs no network, to be saved beforehand",
  'provide-token':
    'give a run the operation token that people generated themselves; it leaves this machine encrypted only',
  decline: 'say that you cannot give your key share now; who stands by is asked at once',
  approve: 'approve or reject what a run will do next',
  decide: 'decide what happens with a parked step; "runbook status" lists the choices',
  pause: 'hold a run before its next step; inside an outage once a cluster serves',
  'take-over': 'order that a run becomes a failover; "start drFailover --take-over" does it with an input of its own',
  resume: 'let a paused run go on',
  abort: 'end a run at its next safe point, with its clean-ups and a report',
  report: 'what a run did, from its history alone; also for runs that are open or were terminated',
  scan: 'search a history, and files, for secrets; proves presence, never absence',
  keys: 'keys of people and workers',
  inventory: 'the inventory file',
  worker: 'run workflows and activities until Ctrl-C; settings from the environment',
  simulator: 'run the simulated service from a topology file until Ctrl-C',
  dev: 'Temporal dev server, simulated deployment "payments" and worker, until Ctrl-C',
};

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
    names: ['provide-token'],
    load: (host) => [(require('./commands/share') as typeof shareModule).provideTokenCommand(host)],
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
    names: ['pause', 'resume', 'abort', 'take-over'],
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
