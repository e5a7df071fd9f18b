import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { WorkflowExecutionAlreadyStartedError } from '@temporalio/client';
import { RUNBOOK_NAMES, lockWorkflowId } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import type { Report } from '../../contracts/report';
import { SIGNALS } from '../../contracts/signals';
import { RunbookError, isRunbookError } from '../../errors';
import { taskQueueSetting } from '../../worker/settings';
import { newCommand, printResult, withServerOptions, withSession } from '../command';
import type { CommandHost, ServerOptions } from '../command';
import { EXIT, exitCodeOfOutcome } from '../exit-codes';
import { planLines } from '../render-plan';
import { describe, readRunView } from '../run-view';
import { buildInput, inputFields, runbookName } from '../run-input';
import type { CheckedInput } from '../run-input';
import type { TemporalSession } from '../temporal';
import { PRINT_OPTION, giveSignal } from '../signals';
import type { StatementOptions } from '../signals';
import { controlDocument, taking } from './statements';
import { escapeUntrusted, shellLine } from '../text';
import { runLink } from '../web-ui';

export const commands = (host: CommandHost): Command[] => [planCommand(host), startCommand(host)];

interface StartOptions extends InputOptions, StatementOptions {
  readonly name?: string;
}

/** Fields of the input that have an option of their own; `--set` gives any other. */
const FIELD_OPTIONS = {
  deployment: ['--deployment <name>', 'deployment of the inventory'],
  to: ['--to <cluster>', 'the cluster that becomes primary'],
  from: ['--from <cluster>', 'the primary, compared with what is read'],
  cluster: ['--cluster <name>', 'the cluster that it is about'],
  primary: ['--primary <cluster>', 'the primary of a secondary that it is about'],
  secondary: ['--secondary <cluster>', 'the secondary that it is about'],
  kind: ['--kind <kind>', 'dr or performance'],
  uses: ['--uses <list>', 'operationTokenCeremony: what the token is for, comma-separated (dr.promote, ...)'],
  reason: ['--reason <text>', 'why; shown to holders and approvers'],
  ticket: ['--ticket <number>', 'a ticket or change number, for the report'],
  requestedBy: ['--requested-by <name>', 'who asks (default: the user of this machine); a claim, shown as such'],
  tokenSource: ['--token-source <source>', 'auto, batch or ceremony'],
  go: ['--go <mode>', 'required (default) or auto'],
  onStuck: ['--on-stuck <choice>', 'promote-back (default) or park'],
  acceptLoss: ['--accept-loss <loss>', 'none (default) or bounded'],
  acknowledgeNewerSecondary: ['--acknowledge-newer-secondary', 'the old primary stays out until it is upgraded'],
  takeOver: ['--take-over', 'drFailover: the run that holds the lock becomes this failover'],
} as const satisfies Readonly<Record<string, readonly [flags: string, description: string]>>;

interface InputOptions extends ServerOptions, Readonly<Partial<Record<keyof typeof FIELD_OPTIONS, unknown>>> {
  readonly input?: string;
  readonly set?: readonly string[];
  readonly uses?: string;
  readonly requestedBy?: string;
}

/** `runbook start`: starts a run under the Workflow ID that is the deployment's lock. */
function startCommand(host: CommandHost): Command {
  const command = newCommand('start', [
    'runbook start drSwitchover --deployment payments --to west --reason "planned maintenance"',
    `runbook start drSwitchover --input '{"deployment":"payments","to":"west","reason":"planned maintenance"}'`,
    'runbook start drSwitchover --input @switchover.json',
    'runbook start drFailover --deployment payments --reason "site east is down" --take-over --name ada',
  ])
    .argument('<runbook>', 'such as drSwitchover; "runbook runbooks" lists them')
    .option('--name <name>', 'with --take-over: your name as the inventory lists it (default: who asks)')
    .option('--key-file <file>', 'with --take-over: your signing key, else RUNBOOKS_KEY_FILE')
    .option('--passphrase-file <file>', 'passphrase of the signing key (default: hidden prompt)')
    .option(...PRINT_OPTION);
  return withServerOptions(withInputOptions(command)).action(async (name: string, options: StartOptions) => {
    const { context } = host;
    const runbook = runbookName(name);
    const input = await buildInput(context, runbook, {
      input: options.input,
      fields: { ...fieldsOf(options), requestedBy: requester(runbook, options) },
    });
    await withSession(context, options, async (session) => {
      if (await takeOver(host, session, { runbook, input, options })) return;
      const workflowId = startWorkflowId(runbook, input);
      const runId = await startRun(session, runbook, workflowId, input, taskQueueSetting(context.env));
      const link = runLink(context.env, session.namespace, { workflowId, runId });
      printResult(context, options, { runbook, workflowId, runId, ...(link === undefined ? {} : { link }) }, [
        `Started ${runbook} as ${workflowId} (run ${runId}).`,
        ...(link === undefined ? [] : [`Web UI: ${link}`]),
        `Follow it: ${shellLine('runbook', 'watch', workflowId)}`,
      ]);
    });
  });
}

/** `runbook plan`: the same input, only reads, and prints what would be done. */
function planCommand(host: CommandHost): Command {
  const command = newCommand('plan', [
    'runbook plan drSwitchover --deployment payments --to west --reason "planned maintenance"',
  ]).argument('<runbook>', 'such as drSwitchover; "runbook runbooks" lists them');
  return withServerOptions(withInputOptions(command)).action(async (name: string, options: InputOptions) => {
    const { context } = host;
    const runbook = runbookName(name);
    const fields = { ...fieldsOf(options), requestedBy: requester(runbook, options), dryRun: true };
    const input = await buildInput(context, runbook, { input: options.input, fields });
    await withSession(context, options, async (session) => {
      const workflowId = planWorkflowId(input);
      await startRun(session, runbook, workflowId, input, taskQueueSetting(context.env));
      const report = await session.client.workflow.getHandle<() => Promise<Report>>(workflowId).result();
      const failed = report.preconditions.some(({ verdict }) => verdict === 'fail');
      printResult(context, options, report, planLines(report));
      host.finish(failed ? EXIT.refused : exitCodeOfOutcome(report.outcome));
    });
  });
}

function withInputOptions(command: Command): Command {
  command
    .option('--input <json>', 'the whole input: JSON, @file, or @- for standard input; the options below win')
    .option(
      '--set <field=value>',
      'any field of the input ("runbook runbooks NAME" lists them); JSON or text',
      collect,
      [],
    );
  for (const [flags, description] of Object.values(FIELD_OPTIONS)) command.option(flags, description);
  return command;
}

function collect(field: string, before: readonly string[]): readonly string[] {
  return [...before, field];
}

function fieldsOf(options: InputOptions): Record<string, unknown> {
  const fields = Object.keys(FIELD_OPTIONS).map((name) => [name, Reflect.get(options, name) as unknown]);
  const uses = options.uses?.split(',').map((use) => use.trim());
  const given = Object.fromEntries(fields) as Record<string, unknown>;
  return { ...given, uses, ...setFields(options.set ?? []) };
}

/** `--set field=value`: JSON where it is JSON, else text. */
function setFields(set: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(
    set.map((each) => {
      const cut = each.indexOf('=');
      if (cut < 1) {
        throw new RunbookError('INVALID_INPUT', 'A --set has no field name.', { needed: '--set field=value' });
      }
      return [each.slice(0, cut), jsonOrText(each.slice(cut + 1))];
    }),
  );
}

function jsonOrText(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** An input given as a whole says itself who asks, or says nothing; a runbook that asks nobody has no such field. */
function requester(runbook: RunbookName, { requestedBy, input }: InputOptions): string | undefined {
  const asks = inputFields(runbook).some(({ name }) => name === 'requestedBy');
  return requestedBy ?? (input === undefined && asks ? userInfo().username : undefined);
}

/**
 * Orders the run that holds the lock to become this failover. The person gives the signal, because some are attested by
 * the server's record of its sender.
 *
 * @returns false where nothing is to be taken over, or a document that was made before travels with the start
 */
async function takeOver(
  host: CommandHost,
  session: TemporalSession,
  {
    runbook,
    input,
    options,
  }: { readonly runbook: RunbookName; readonly input: CheckedInput; readonly options: StartOptions },
): Promise<boolean> {
  const { object, dryRun } = input;
  const asked = runbook === 'drFailover' && !dryRun && object['takeOver'] === true;
  const workflowId = lockWorkflowId(runbook, input);
  if (!asked || object['takeOverDocument'] !== undefined || workflowId === undefined) return false;
  const holder = await describe(session.client, { workflowId }).catch((error: unknown) => {
    if (isRunbookError(error, 'NOT_FOUND')) return undefined;
    throw error;
  });
  if (holder?.status.name !== 'RUNNING') return false;
  // What is none of ours answers no signal: the start names who holds the lock.
  const ours = RUNBOOK_NAMES.some((known) => known === holder.type);
  if (!ours || holder.taskQueue !== taskQueueSetting(host.context.env)) return false;
  const run = { workflowId, runId: holder.runId };
  const { requestedBy, reason } = object;
  const name = options.name ?? (typeof requestedBy === 'string' ? requestedBy : userInfo().username);
  const order = { ...options, action: 'takeOver', name, reason: typeof reason === 'string' ? reason : '' } as const;
  const document = await controlDocument(host.context, session, run, order);
  await giveSignal(host, options, session.client, run, SIGNALS.takeOver, { ...object, ...taking(document) });
  return true;
}

/** The lock, where the runbook has one. A failover that brings the document of a take-over tells the holder by a run of its own. */
function startWorkflowId(runbook: RunbookName, input: CheckedInput): string {
  if (input.dryRun) return planWorkflowId(input);
  const lock = lockWorkflowId(runbook, input);
  const free = lock === undefined || (runbook === 'drFailover' && input.object['takeOverDocument'] !== undefined);
  return free ? `${runbook}:${input.deployment}:${randomUUID()}` : lock;
}

/** A plan takes no lock: any ID will do that no other run has. */
function planWorkflowId({ deployment, cluster }: CheckedInput): string {
  return `plan:${cluster ?? deployment}:${randomUUID()}`;
}

async function startRun(
  session: TemporalSession,
  runbook: RunbookName,
  workflowId: string,
  input: CheckedInput,
  taskQueue: string,
): Promise<string> {
  try {
    const handle = await session.client.workflow.start(runbook, {
      workflowId,
      taskQueue,
      args: [input.object],
      // Told before a worker has looked at the run.
      memo: { runbook, deployment: input.deployment },
      // The lock: a second run of the same ID is refused, and a running one is never ended for it.
      workflowIdConflictPolicy: 'FAIL',
      workflowIdReusePolicy: 'ALLOW_DUPLICATE',
      staticSummary: `${runbook} of ${escapeUntrusted(input.cluster ?? input.deployment)}`,
    });
    return handle.firstExecutionRunId;
  } catch (error) {
    if (error instanceof WorkflowExecutionAlreadyStartedError) throw await lockHeld(session, workflowId);
    throw error;
  }
}

/** The error for a held lock, which names the run that holds it. */
async function lockHeld(session: TemporalSession, workflowId: string): Promise<RunbookError> {
  const holder = await readRunView(session, { workflowId });
  const phase = holder.status?.phase ?? holder.memo?.phase;
  return new RunbookError('LOCK_HELD', `${workflowId} is held by a run of ${holder.runbook}. Nothing was started.`, {
    observed: `run ${holder.runId}, ${holder.state} since ${holder.startedAt}${phase === undefined ? '' : `, phase ${phase}`}`,
    needed: 'no open run with this Workflow ID',
    next: `Look at it with "${shellLine('runbook', 'status', workflowId)}"; start again when it has ended.`,
  });
}
