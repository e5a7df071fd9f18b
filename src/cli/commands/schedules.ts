import { ScheduleAlreadyRunning, ScheduleNotFoundError } from '@temporalio/client';
import type { Client } from '@temporalio/client';
import { Command } from 'commander';
import { readSchedule, scheduleFix, scheduleOf, scheduleText } from '../../../activities/schedules';
import type { ScheduleReading } from '../../../activities/schedules';
import { escapeUntrusted } from '../../contracts/words';
import { SCHEDULED_RUNBOOKS, findDeployment, loadInventory, scheduleIdOf, wantedSchedules } from '../../inventory';
import type { WantedSchedule } from '../../inventory';
import { inventoryPath, taskQueueSetting } from '../../worker/settings';
import { SUMMARIES, newCommand, printResult, withServerOptions, withSession } from '../command';
import type { ServerOptions } from '../command';
import type { CliContext } from '../context';
import { EXIT, exitCodeOfVerdicts } from '../errors';
import { pointLines } from '../render-plan';
import type { Point } from '../render-plan';
import type { CommandHost } from '../command-host';

export const commands = (host: CommandHost): Command[] => [schedulesCommand(host)];

/** `runbook schedules`: the Schedules of Temporal that start the runs which nobody waits for. */
function schedulesCommand(host: CommandHost): Command {
  return new Command('schedules')
    .description(SUMMARIES['schedules'] ?? '')
    .addCommand(applyCommand(host))
    .addCommand(listCommand(host))
    .addCommand(deleteCommand(host));
}

const NAMED = 'a deployment of the inventory (default: all of them)';

/** What became of one Schedule. */
interface Applied {
  readonly scheduleId: string;
  readonly did: 'created' | 'updated' | 'unpaused' | 'deleted' | 'unchanged';
  readonly differences?: readonly string[];
  /** Somebody paused it, and it stays so. */
  readonly paused?: boolean;
}

/** `runbook schedules apply`: makes the Schedules those of the inventory. Repeating it changes nothing. */
function applyCommand({ context, finish }: CommandHost): Command {
  const command = newCommand(
    'apply',
    ['runbook schedules apply', 'runbook schedules apply payments --unpause'],
    'create, update and remove Schedules until they are those of the inventory; a paused one stays paused',
  )
    .argument('[deployment]', NAMED)
    .option('--unpause', 'also continue those that somebody paused');
  return withServerOptions(command).action(
    async (name: string | undefined, options: ServerOptions & { readonly unpause?: true }) => {
      const { deployments, wanted } = await wantedIn(context, name);
      const taskQueue = taskQueueSetting(context.env);
      const applied = await withSession(context, options, async ({ client }) => {
        const unwanted = await othersOf(client, deployments, wanted);
        const made = await Promise.all(wanted.map((each) => apply(client, each, taskQueue, options.unpause === true)));
        return [...made, ...(await Promise.all(unwanted.map((scheduleId) => remove(client, scheduleId)))).flat()];
      });
      const lines = applied.map(({ scheduleId, did, differences = [], paused = false }) => {
        const what = differences.length === 0 ? '' : ` (${differences.join(', ')})`;
        const still = paused
          ? ', and still paused: somebody paused it. To continue it: runbook schedules apply --unpause'
          : '';
        return `${escapeUntrusted(scheduleId)}: ${did}${what}${still}`;
      });
      printResult(context, options, 'schedules-applied', { schedules: applied }, lines);
      if (applied.some(({ paused }) => paused === true)) finish(EXIT.warned);
    },
  );
}

/** `runbook schedules list`: each Schedule compared with the inventory. */
function listCommand({ context, finish }: CommandHost): Command {
  const command = newCommand(
    'list',
    ['runbook schedules list', 'runbook schedules list payments --json'],
    'compare the Schedules with the inventory; exits with 7 if one is missing, paused or different',
  ).argument('[deployment]', NAMED);
  return withServerOptions(command).action(async (name: string | undefined, options: ServerOptions) => {
    const { deployments, wanted } = await wantedIn(context, name);
    const taskQueue = taskQueueSetting(context.env);
    const { readings, unwanted } = await withSession(context, options, async ({ client }) => ({
      readings: await Promise.all(wanted.map((each) => readSchedule(client, each, taskQueue))),
      unwanted: await othersOf(client, deployments, wanted),
    }));
    const points = [...schedulePoints(readings), ...unwanted.map(unwantedPoint)];
    const schedules = readings.map(({ wanted: { scheduleId, runbook, deployment }, ...reading }) => {
      const { state, differences, paused, next } = reading;
      return { scheduleId, runbook, deployment, state, differences, paused, next: isoOf(next) };
    });
    printResult(
      context,
      options,
      'schedules',
      { schedules, unwanted },
      points.length === 0 ? ['No Schedules.'] : pointLines(points),
    );
    finish(exitCodeOfVerdicts(points.map(({ verdict }) => verdict)));
  });
}

const isoOf = (time: number | undefined) => (time === undefined ? undefined : new Date(time).toISOString());

/** Schedules as points, which `doctor` shows too. */
export function schedulePoints(readings: readonly ScheduleReading[]): Point[] {
  return readings.map((reading) => {
    const good = reading.state === 'as-wanted';
    const point = { id: reading.wanted.scheduleId, observed: scheduleText(reading) };
    return good
      ? { ...point, verdict: 'ok' }
      : {
          ...point,
          verdict: 'warn',
          needed: 'as the inventory has it, and not paused',
          next: `\`${scheduleFix([reading])}\``,
        };
  });
}

function unwantedPoint(scheduleId: string): Point {
  const observed = 'a Schedule that the inventory does not have';
  return { id: escapeUntrusted(scheduleId), verdict: 'warn', observed, next: '`runbook schedules apply` removes it' };
}

/** `runbook schedules delete`: removes those of one deployment, which the inventory need not have any more. */
function deleteCommand({ context }: CommandHost): Command {
  const command = newCommand(
    'delete',
    ['runbook schedules delete payments'],
    'remove the Schedules of a deployment; no samples and no readiness checks from then on',
  ).argument('<deployment>', 'a deployment; the inventory need not have it any more');
  return withServerOptions(command).action(async (deployment: string, options: ServerOptions) => {
    const removed = await withSession(context, options, async ({ client }) => {
      const known = SCHEDULED_RUNBOOKS.map((runbook) => scheduleIdOf(runbook, deployment));
      const found = await othersOf(client, [deployment], []);
      return (await Promise.all([...new Set([...known, ...found])].map((each) => remove(client, each)))).flat();
    });
    const lines = removed.map(({ scheduleId }) => `${escapeUntrusted(scheduleId)}: deleted`);
    const none = `No Schedules of ${escapeUntrusted(deployment)}.`;
    printResult(context, options, 'schedules-deleted', { schedules: removed }, lines.length === 0 ? [none] : lines);
  });
}

async function wantedIn({ env }: CliContext, name: string | undefined) {
  const inventory = await loadInventory(inventoryPath(env));
  const deployments = name === undefined ? [...inventory.deployments.values()] : [findDeployment(inventory, name)];
  return { deployments: deployments.map((each) => each.name), wanted: deployments.flatMap(wantedSchedules) };
}

/** Schedules of these deployments that are not among the wanted ones. Those of other deployments may be another inventory's. */
async function othersOf(
  { schedule }: Client,
  deployments: readonly string[],
  wanted: readonly WantedSchedule[],
): Promise<string[]> {
  const prefixes = deployments.flatMap((name) => SCHEDULED_RUNBOOKS.map((runbook) => scheduleIdOf(runbook, name)));
  const found: string[] = [];
  for await (const { scheduleId } of schedule.list())
    if (prefixes.some((prefix) => scheduleId === prefix || scheduleId.startsWith(`${prefix}:`))) found.push(scheduleId);
  return found.filter((scheduleId) => !wanted.some((each) => each.scheduleId === scheduleId));
}

async function apply(client: Client, wanted: WantedSchedule, taskQueue: string, unpause: boolean): Promise<Applied> {
  const { scheduleId } = wanted;
  const { state, differences, paused } = await readSchedule(client, wanted, taskQueue);
  const schedule = scheduleOf(wanted, taskQueue);
  const handle = client.schedule.getHandle(scheduleId);
  if (state === 'missing')
    return client.schedule.create({ scheduleId, ...schedule }).then(
      () => ({ scheduleId, did: 'created' as const }),
      (error: unknown) => {
        // Somebody else created it at the same time.
        if (error instanceof ScheduleAlreadyRunning) return apply(client, wanted, taskQueue, unpause);
        throw error;
      },
    );
  const continues = paused && unpause;
  if (differences.length > 0)
    await handle.update(({ state: { note } }) => ({ ...schedule, state: { paused, ...(note && { note }) } }));
  if (continues) await handle.unpause('runbook schedules apply --unpause');
  const did = differences.length > 0 ? 'updated' : continues ? 'unpaused' : 'unchanged';
  return { scheduleId, did, differences, paused: paused && !continues };
}

async function remove({ schedule }: Client, scheduleId: string): Promise<Applied[]> {
  try {
    await schedule.getHandle(scheduleId).delete();
    return [{ scheduleId, did: 'deleted' }];
  } catch (error) {
    if (error instanceof ScheduleNotFoundError) return [];
    throw error;
  }
}
