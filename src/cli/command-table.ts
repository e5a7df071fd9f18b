import type { Command } from 'commander';
import type { CommandHost } from './command';

/* Each command loads what it needs when it is asked for: a holder's `share` must not wait for the simulated service. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */

/** What a file of `commands/` gives. */
interface CommandModule {
  readonly commands: (host: CommandHost) => readonly Command[];
}

/** Commands that are loaded together, with what the help says of each without loading it. */
interface CommandGroup {
  readonly summaries: Readonly<Record<string, string>>;
  readonly load: () => CommandModule;
}

/** All commands in the order of the help. */
export const COMMANDS: readonly CommandGroup[] = [
  {
    summaries: {
      plan: 'only read, and show the plan: preconditions with observed and needed values, steps',
      start: 'start a run; exits at once, "runbook watch" follows it',
    },
    load: () => require('./commands/start') as CommandModule,
  },
  {
    summaries: { runbooks: 'the runbooks, or the input fields of one' },
    load: () => require('./commands/runbooks') as CommandModule,
  },
  {
    summaries: { readiness: 'would a switchover and a failover start now? Changes nothing' },
    load: () => require('./commands/readiness') as CommandModule,
  },
  {
    summaries: {
      list: 'the runs of this namespace, newest first',
      status: 'what a run does and waits for; answers within seconds, also without a worker',
    },
    load: () => require('./commands/runs') as CommandModule,
  },
  {
    summaries: { watch: 'follow a run until it ends; the exit code tells how' },
    load: () => require('./commands/watch') as CommandModule,
  },
  {
    summaries: {
      share: 'give your key share to a run that asks for it; it leaves this machine encrypted only',
      'provide-token':
        'give a run the operation token that people generated themselves; it leaves this machine encrypted only',
      invitation: 'print the invitation of a run, to hand to holders who work offline',
    },
    load: () => require('./commands/share') as CommandModule,
  },
  {
    summaries: {
      'holder-page': "write the holder's page: one HTML file that needs no network, to be saved beforehand",
    },
    load: () => require('./commands/holder-page') as CommandModule,
  },
  {
    summaries: {
      decline: 'say that you cannot give your key share now; who stands by is asked at once',
      approve: 'approve or reject what a run will do next',
      decide: 'decide what happens with a parked step; "runbook status" lists the choices',
      pause: 'hold a run before its next step; inside an outage once a cluster serves',
      resume: 'let a paused run go on',
      abort: 'end a run at its next safe point, with its clean-ups and a report',
      'take-over':
        'order that a run becomes a failover; "start drFailover --take-over" does it with an input of its own',
    },
    load: () => require('./commands/statements') as CommandModule,
  },
  {
    summaries: { report: 'what a run did; of one that is open, failed or was terminated a worker tells it' },
    load: () => require('./commands/report') as CommandModule,
  },
  {
    summaries: { scan: 'search a history, and files, for secrets; proves presence, never absence' },
    load: () => require('./commands/scan') as CommandModule,
  },
  {
    summaries: { keys: 'keys of people and workers' },
    load: () => require('./commands/keys') as CommandModule,
  },
  {
    summaries: { inventory: 'the inventory file' },
    load: () => require('./commands/inventory') as CommandModule,
  },
  {
    summaries: {
      worker: 'run workflows and activities until Ctrl-C; settings from the environment',
      simulator: 'run the simulated service from a topology file until Ctrl-C',
      dev: 'Temporal dev server, simulated deployment "payments" and worker, until Ctrl-C',
    },
    load: () => require('./commands/programs') as CommandModule,
  },
];

/** What the help says of each command, in its order. */
export const SUMMARIES: Readonly<Record<string, string>> = Object.assign(
  {},
  ...COMMANDS.map(({ summaries }) => summaries),
) as Readonly<Record<string, string>>;
