import type { Command } from 'commander';
import type { CommandHost } from './command';

/* Each command loads what it needs when it is asked for: a holder's `share` must not wait for the simulated service. */
/* eslint-disable @typescript-eslint/no-require-imports -- an import would load every command */

/** What a file of `commands/` gives. */
interface CommandModule {
  readonly commands: (host: CommandHost) => readonly Command[];
}

/** All commands in the order of the help: each with what the help says of it, and the file that has it. */
const TABLE = {
  plan: ['only read, and show the plan: preconditions with observed and needed values, steps', 'start'],
  start: ['start a run; exits at once, "runbook watch" follows it', 'start'],
  runbooks: ['the runbooks, or the input fields of one', 'runbooks'],
  readiness: ['would a switchover and a failover start now? Changes nothing', 'start'],
  list: ['the runs of this namespace, newest first', 'runs'],
  status: ['what a run does and waits for; answers within seconds, also without a worker', 'runs'],
  watch: ['follow a run until it ends; the exit code tells how', 'runs'],
  share: ['give your key share to a run that asks for it; it leaves this machine encrypted only', 'share'],
  'provide-token': [
    'give a run the operation token that people generated themselves; it leaves this machine encrypted only',
    'share',
  ],
  invitation: ['print the invitation of a run, to hand to holders who work offline', 'share'],
  'holder-page': ["write the holder's page: one HTML file that needs no network, to be saved beforehand", 'share'],
  approve: ['approve or reject what a run will do next', 'statements'],
  decide: ['decide what happens with a parked step; "runbook status" lists the choices', 'statements'],
  pause: ['hold a run before its next step; inside an outage once a cluster serves', 'statements'],
  resume: ['let a paused run go on', 'statements'],
  abort: ['end a run at its next safe point, with its clean-ups and a report', 'statements'],
  'take-over': [
    'order that a run becomes a failover; "start drFailover --take-over" does it with an input of its own',
    'statements',
  ],
  report: ['what a run did; a worker answers for one that is open, failed or was terminated', 'runs'],
  init: ['set up a deployment: reads the clusters, makes the keys, writes inventory and settings', 'init'],
  join: ["pin the workers' key and make your own, on your machine, from the line that the operators sent", 'keys'],
  doctor: ['what is missing here, each finding with what mends it; changes nothing', 'doctor'],
  keys: ['keys of people and workers', 'keys'],
  inventory: ['the inventory file', 'inventory'],
  policy: ["print the service's policy that the workers' credential needs; no server is asked", 'inventory'],
  completion: ['print what makes a shell complete commands: bash or zsh', 'runbooks'],
  worker: ['run workflows and activities until Ctrl-C; settings from the environment', 'programs'],
  simulator: ['run the simulated service from a topology file until Ctrl-C', 'programs'],
  dev: ['Temporal dev server, simulated deployment "payments" and worker, until Ctrl-C', 'programs'],
} as const;

/** What the help says of each command, in its order. */
export const SUMMARIES: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(TABLE).map(([name, [summary]]) => [name, summary]),
);

/** The commands of the file that has the command of this name; all commands where no name is given. */
export function loadCommands(host: CommandHost, name?: string): readonly Command[] {
  const files = Object.entries(TABLE).flatMap(([each, [, file]]) => (name === undefined || each === name ? file : []));
  return [...new Set(files)].flatMap((file) => (require(`./commands/${file}`) as CommandModule).commands(host));
}
