import { randomUUID } from 'node:crypto';
import { userInfo } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Command } from 'commander';
import { PLAN_ID, RUNBOOK_NAMES, lockWorkflowId, webUiLink } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { shellLine } from '../../contracts/next-commands';
import { readinessResult } from '../../contracts/readiness';
import type { ReadinessResult } from '../../contracts/readiness';
import { changeText, verdictsText, verdictWords, inLines, jsonIn } from '../../contracts/words';
import { RunbookError, isRunbookError } from '../../errors';
import { taskQueueSetting } from '../../worker/settings';
import { collect, newCommand, printResult, withServerOptions, withSession, duration } from '../command';
import type { ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT, exitCodeOfRun, exitCodeOfVerdicts, refusalIn } from '../errors';
import { pointLines, planLines } from '../render-plan';
import { describe, isPolled, queryStatus, readPollers, waitForReport } from '../run';
import type { RunReference, TemporalSession } from '../run';
import { buildInput, inputFields, runbookName } from './runbooks';
import type { CheckedInput } from './runbooks';
import { startRun } from '../start-run';
import { withSigningOptions } from '../signals';
import type { StatementOptions } from '../signals';
import { overTemporal } from '../run-session';
import type { CommandHost } from '../command-host';
import { orderTakeOver } from './statements';

export const commands = (host: CommandHost): Command[] => [
  planCommand(host),
  startCommand(host),
  readinessCommand(host),
];

/** Input fields that have their own option; `--set` sets any other. */
const FIELD_OPTIONS = {
  deployment: ['--deployment <name>', 'deployment of the inventory'],
  to: ['--to <cluster>', 'the cluster that becomes primary'],
  cluster: ['--cluster <name>', 'the cluster that the runbook acts on'],
  reason: ['--reason <text>', 'why; shown to holders and approvers'],
  requestedBy: [
    '--requested-by <name>',
    'who requests the run (default: RUNBOOKS_PERSON, or without --input your user name on this machine); a claim',
  ],
  tokenSource: ['--token-source <source>', 'auto, batch, ceremony or provided'],
  takeOver: ['--take-over', 'drFailover: the run that holds the lock becomes this failover'],
} as const satisfies Readonly<Record<string, readonly [flags: string, description: string]>>;

interface StartOptions
  extends StatementOptions, Readonly<Partial<Record<Exclude<keyof typeof FIELD_OPTIONS, 'reason'>, unknown>>> {
  readonly input?: string;
  readonly set: readonly string[];
}

/** `runbook start`: starts a run under the Workflow ID that is the deployment's lock. */
function startCommand(host: CommandHost): Command {
  const { context } = host;
  const command = newCommand('start', [
    'runbook start drSwitchover --deployment payments --to west --reason "planned maintenance"',
    `runbook start drSwitchover --input '{"deployment":"payments","to":"west","reason":"planned maintenance"}'`,
    'runbook start drSwitchover --input switchover.json',
    'runbook start drFailover --deployment payments --reason "site east is down" --take-over --name ada',
  ])
    .argument('<runbook>', 'such as drSwitchover; "runbook runbooks" lists them')
    .option(
      '--name <name>',
      'with --take-over: your name as the inventory lists it (default: RUNBOOKS_PERSON, or the requester)',
    );
  return withInputOptions(withSigningOptions(command)).action(async (name: string, options: StartOptions) => {
    const runbook = runbookName(name);
    const input = await inputOf(context, runbook, options);
    await withSession(context, options, async (session) => {
      const holder = await runToTakeOver(host, session, runbook, input);
      if (holder !== undefined) {
        const { requestedBy = userInfo().username, reason } = input;
        const name = options.name ?? (context.env['RUNBOOKS_PERSON'] || requestedBy);
        return orderTakeOver(host, options, overTemporal(context, options, session), holder, input.object, {
          name,
          reason,
        });
      }
      const workflowId = startWorkflowId(runbook, input);
      const runId = await startRun(host, session, runbook, workflowId, input);
      const begun = await awaitBeginning(session, { workflowId, runId });
      const ui = context.env['RUNBOOKS_TEMPORAL_UI'];
      const link = ui ? webUiLink(ui, session.namespace, workflowId, runId) : undefined;
      printResult(context, options, 'started', { runbook, workflowId, runId, link }, [
        `Started ${runbook} as ${workflowId} (run ${runId}).`,
        ...(begun ? [] : ['No worker has picked it up yet.']),
        ...(link === undefined ? [] : ['Web UI:', `  ${link}`]),
        `Follow it: ${shellLine('runbook', 'watch', workflowId)}`,
      ]);
    });
  });
}

/** What `--timeout` does. */
const waits = (what: string) => `stop waiting after this time, such as 2m; ${what} continues`;
const TWO_MINUTES = 120_000;

/** How long a plan is waited for while nobody polls, ms. */
const UNPOLLED_MS = 10_000;

/** `runbook plan`: takes the same input, only reads, and prints what a run would do. */
function planCommand(host: CommandHost): Command {
  const { context } = host;
  const command = newCommand('plan', [
    'runbook plan drSwitchover --deployment payments --to west --reason "planned maintenance"',
  ]).argument('<runbook>', 'such as drSwitchover; "runbook runbooks" lists them');
  command.option('--timeout <duration>', waits('the plan'), duration, TWO_MINUTES);
  return withInputOptions(command).action(
    async (name: string, options: StartOptions & { readonly timeout: number }) => {
      const runbook = runbookName(name);
      const input = await inputOf(context, runbook, options, { dryRun: true });
      await withSession(context, options, async (session) => {
        const workflowId = startWorkflowId(runbook, input);
        await startRun(host, session, runbook, workflowId, input);
        const polled = isPolled(await readPollers(session, taskQueueSetting(context.env)));
        // Long enough for a worker that is starting.
        const timeoutMs = Math.min(options.timeout, polled ? Infinity : UNPOLLED_MS);
        const report = await waitForReport(host, session, { what: 'the plan', run: { workflowId }, timeoutMs });
        if (report === undefined) return;
        const failed = report.preconditions.some(({ verdict }) => verdict === 'fail');
        printResult(context, options, 'plan', report, planLines(report));
        host.finish(failed ? EXIT.refused : exitCodeOfRun(report));
      });
    },
  );
}

function withInputOptions(command: Command): Command {
  command
    .option(
      '--input <input>',
      'the complete input: JSON, a file, or - for standard input; the options below override it',
    )
    .option('--set <field=value>', 'any input field ("runbook runbooks NAME" lists them); JSON or text', collect, []);
  for (const [flags, description] of Object.values(FIELD_OPTIONS)) command.option(flags, description);
  return withServerOptions(command);
}

function inputOf(context: CliContext, runbook: RunbookName, options: StartOptions, more: object = {}) {
  const named = Object.keys(FIELD_OPTIONS).map((name) => [name, Reflect.get(options, name) as unknown] as const);
  const fields = { ...Object.fromEntries([...named, ...options.set.map(setField)]), ...more };
  return buildInput(context, runbook, fields, options.input, whoAsks(context, runbook, options));
}

/**
 * The default requester, who cannot approve the run. With `--input`, which programs use, there is no default unless
 * RUNBOOKS_PERSON names a person.
 */
function whoAsks({ env }: CliContext, runbook: RunbookName, { input }: StartOptions): { requestedBy?: string } {
  const name = env['RUNBOOKS_PERSON'] || (input === undefined ? userInfo().username : '');
  const asks = name !== '' && inputFields(runbook).some((field) => field.name === 'requestedBy');
  return asks ? { requestedBy: name } : {};
}

/** `--set field=value`: the value as JSON if it parses, otherwise as text. */
function setField(text: string): [name: string, value: unknown] {
  const cut = text.indexOf('=');
  if (cut < 1) throw new RunbookError('INVALID_INPUT', '--set needs a field name.', { needed: '--set field=value' });
  const value = text.slice(cut + 1);
  const parsed = jsonIn(value);
  return [text.slice(0, cut), parsed === undefined ? value : parsed];
}

/**
 * The run that holds the lock, if it should become this failover. The person sends the order as a signal, because some people
 * are attested by the server's record of the sender.
 *
 * @returns undefined if there is no run to take over, or the input already contains a signed order
 */
async function runToTakeOver(
  { context }: CommandHost,
  { client, namespace }: TemporalSession,
  runbook: RunbookName,
  input: CheckedInput,
) {
  const { object, dryRun } = input;
  const workflowId = lockWorkflowId(runbook, input);
  const isTakeOver = runbook === 'drFailover' && !dryRun && object['takeOver'] === true;
  if (!isTakeOver || object['takeOverDocument'] !== undefined || workflowId === undefined) return undefined;
  const holder = await describe(client, { workflowId }).catch((error: unknown) => {
    if (isRunbookError(error, 'NOT_FOUND')) return undefined;
    throw error;
  });
  if (holder?.status.name !== 'RUNNING') return undefined;
  // A workflow that is not a runbook reads no signals: the start reports what holds the lock.
  const ours = RUNBOOK_NAMES.some((known) => known === holder.type);
  if (!ours || holder.taskQueue !== taskQueueSetting(context.env)) return undefined;
  return { workflowId, runId: holder.runId, namespace };
}

/**
 * The lock, if the runbook has one. A plan takes no lock, and neither does a failover with a signed take-over order, which
 * its run passes to the holder of the lock: both get a unique ID.
 */
function startWorkflowId(runbook: RunbookName, input: CheckedInput): string {
  const { deployment, cluster, dryRun, object } = input;
  if (dryRun) return `${PLAN_ID}${cluster ?? deployment}:${randomUUID()}`;
  const passesOrder = runbook === 'drFailover' && object['takeOverDocument'] !== undefined;
  const lock = passesOrder ? undefined : lockWorkflowId(runbook, input);
  return lock ?? `${runbook}:${deployment}:${randomUUID()}`;
}

const BEGINS_WITHIN_MS = 3_000;

/**
 * Waits until a worker has accepted the input, which it does first.
 *
 * @throws the failure of the run if its input is refused; the command then does not report a start
 */
async function awaitBeginning({ client }: TemporalSession, run: RunReference): Promise<boolean> {
  const until = Date.now() + BEGINS_WITHIN_MS;
  while (Date.now() < until) {
    // The run was started. If Temporal does not answer now, or denies this client the query, the start did not fail.
    if (await queryStatus(client, run, until - Date.now()).catch(() => undefined)) return true;
    const described = await describe(client, run).catch((error: unknown) => {
      if (isRunbookError(error, 'TEMPORAL_UNAVAILABLE') || refusalIn(error)) return undefined;
      throw error;
    });
    if (described !== undefined && described.status.name !== 'RUNNING') {
      await client.workflow.getHandle(run.workflowId, run.runId, { followRuns: false }).result();
      return true;
    }
    await delay(100);
  }
  return false;
}

/** `runbook readiness`: starts the check, waits for it, and prints its points; the exit code reports the verdict. */
function readinessCommand(host: CommandHost): Command {
  const command = newCommand('readiness', ['runbook readiness payments', 'runbook readiness payments --json'])
    .argument('<deployment>')
    .option('--timeout <duration>', waits('the check'), duration, TWO_MINUTES);
  return withServerOptions(command).action(
    async (deployment: string, options: ServerOptions & { readonly timeout: number }) => {
      const { context, finish } = host;
      const input = await buildInput(context, 'readiness', { deployment });
      await withSession(context, options, async (session) => {
        const workflowId = lockWorkflowId('readiness', { deployment }) ?? '';
        // A check that is already running answers the same question.
        await startRun(host, session, 'readiness', workflowId, input, 'USE_EXISTING');
        const waiting = { what: 'the check', run: { workflowId }, timeoutMs: options.timeout };
        const report = await waitForReport(host, session, waiting);
        if (report === undefined) return;
        const found = readinessResult.safeParse(report.result);
        if (!found.success) {
          context.err(`The check ended as "${report.outcome}" without a verdict.`);
          return finish(report.outcome === 'completed' ? EXIT.failed : exitCodeOfRun(report));
        }
        printResult(context, options, 'readiness', found.data, readinessText(found.data));
        finish(exitCodeOfVerdicts([found.data.switchover, found.data.failover]));
      });
    },
  );
}

/** The verdicts, what changed, and all points. */
export function readinessText(given: ReadinessResult): string[] {
  const { switchover, failover, changes, candidates, points } = inLines(given);
  const each = candidates.map((one) => `  to ${one.cluster} (${one.drSet}): ${verdictsText(one)}`);
  return [
    `Switchover: ${verdictWords(switchover)}. Failover: ${verdictWords(failover)}.`,
    ...(candidates.length > 1 ? each : []),
    ...(changes.length > 0 ? ['', 'Since the last check', ...changes.map((one) => `  ${changeText(one)}`)] : []),
    '',
    ...pointLines(points),
    '',
    'Nothing was changed.',
  ];
}
