import type { Command } from 'commander';
import { z } from 'zod';
import { RUNBOOK_NAMES } from '../../contracts/names';
import type { RunbookName } from '../../contracts/names';
import { RUNBOOK_INPUTS, TYPE_WORDS, inputMistakes } from '../../contracts/runbook-inputs';
import { jsonIn } from '../../contracts/words';
import { RunbookError } from '../../errors';
import { newCommand, printResult } from '../command';
import type { CommonOptions } from '../command';
import type { CliContext } from '../context';
import { readTextFile, refusePlainShare } from '../secret-input';
import { columns, meant } from '../text';
import type { CommandHost } from '../command-host';

export const commands = (host: CommandHost): Command[] => [runbooksCommand(host)];

/** The purpose of each runbook in one sentence; the README's table repeats it. */
export const RUNBOOK_PURPOSES: Readonly<Record<RunbookName, string>> = {
  drSwitchover:
    'Planned: the DR primary and one of its DR secondaries swap roles without data loss. Also for failback.',
  drFailover: 'Unplanned: the DR primary is gone, and a DR secondary becomes primary.',
  drRejoin: 'A former primary is back after a failover: it is demoted, unfenced and becomes a DR secondary.',
  performanceRejoin:
    'A former performance primary is back after an unplanned promotion: it is demoted, unfenced and follows the new one.',
  drSecondaryOnboarding: 'A cluster without replication is wiped and becomes a DR secondary.',
  performanceSecondaryOnboarding:
    'A cluster without replication is wiped and becomes a performance secondary, with its filter from the start.',
  performancePromotion: 'A performance secondary becomes the performance primary, planned or unplanned.',
  secondaryRepointing: 'A secondary is pointed to another primary, by token or by addresses.',
  filterReconciliation: 'The paths filters of performance secondaries are brought to the desired state.',
  secondaryDecommission: 'A secondary is revoked and cut off for good. It keeps its data.',
  primaryEnablement: 'A cluster becomes a primary for DR or performance replication.',
  replicationTeardown: 'Replication of one kind ends on a cluster.',
  operationTokenCeremony: 'Key holders give their shares for one DR operation token, for the next run or for a person.',
  operationTokenDisposal: 'Operation tokens that runs left behind are deleted, and proven invalid.',
  rootTokenCeremony: 'Key holders give their shares for a root token that only its recipient can read.',
  ceremonyRehearsal: 'Every key holder goes through the complete ceremony once, with a meaningless value.',
  batchTokenRotation: 'A new batch token for DR operations is created on the primary and stored in the record.',
  drReindex: 'The Merkle tree of a DR secondary is rebuilt.',
  merkleCheck: 'Reports whether the Merkle tree of a DR secondary is sound.',
  walSampler: 'Records WAL indexes, lag and heartbeats on a schedule, so that a failover can bound its data loss.',
  readiness: 'Reports whether a switchover and a failover would start now, point by point.',
  deploymentStatus: 'Shows each cluster as it is now, the last change of the primary, and the last readiness check.',
};

/** `runbook runbooks`: lists the runbooks, or the input fields of one. Needs no server. */
function runbooksCommand({ context }: CommandHost): Command {
  return newCommand('runbooks', ['runbook runbooks', 'runbook runbooks drFailover'])
    .argument('[runbook]', 'prints every input field of this runbook')
    .action((name: string | undefined, options: CommonOptions) => {
      if (name === undefined) {
        const all = RUNBOOK_NAMES.map((each) => ({ name: each, purpose: RUNBOOK_PURPOSES[each] }));
        printResult(
          context,
          options,
          'runbooks',
          { runbooks: all },
          columns(all.map((each) => [each.name, each.purpose])),
        );
        return;
      }
      const runbook = runbookName(name);
      const fields = inputFields(runbook);
      printResult(context, options, 'runbook', { runbook, purpose: RUNBOOK_PURPOSES[runbook], fields }, [
        `${runbook}: ${RUNBOOK_PURPOSES[runbook]}`,
        '',
        ...columns(
          fields.map((field) => {
            const without = field.default === undefined ? 'optional' : `default ${field.default}`;
            return [`  ${field.name}`, field.type, field.required ? 'required' : without];
          }),
        ),
      ]);
    });
}

/** @throws RunbookError `UNKNOWN_RUNBOOK`, listing the known ones */
export function runbookName(name: string): RunbookName {
  const known = RUNBOOK_NAMES.find((candidate) => candidate === name);
  if (known !== undefined) return known;
  const close = meant(name, RUNBOOK_NAMES);
  throw new RunbookError('UNKNOWN_RUNBOOK', `There is no runbook "${name}".`, {
    needed: `one of: ${RUNBOOK_NAMES.join(', ')}`,
    next: close === undefined ? '`runbook runbooks` lists them with their purpose.' : `Did you mean ${close}?`,
  });
}

/**
 * Assembles the input object from `--input` (JSON, a file, or `-` for standard input) and single fields, which take
 * precedence; `usual` supplies members that both omit. Checks it with the runbook's own schema, so that mistakes are
 * reported before a run exists.
 *
 * @throws RunbookError `INVALID_INPUT`, naming each wrong field
 */
export async function buildInput(
  context: CliContext,
  runbook: RunbookName,
  fields: Readonly<Record<string, unknown>>,
  inputOption?: string,
  usual: object = {},
) {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const object = { ...usual, ...(inputOption === undefined ? {} : await readObject(context, inputOption)), ...given };
  refusePlainShare(object);
  const parsed = RUNBOOK_INPUTS[runbook].safeParse(object);
  if (!parsed.success) {
    const mistakes = inputMistakes(parsed.error).join('; ');
    throw new RunbookError('INVALID_INPUT', `The input of ${runbook} is invalid: ${mistakes}.`, {
      next: `Nothing was started. Correct these fields. To list all fields: \`runbook runbooks ${runbook}\``,
    });
  }
  const { deployment, dryRun = false, ...members }: CommonMembers = parsed.data;
  const { cluster, reason = '', requestedBy } = members;
  return { deployment, cluster, dryRun, reason, requestedBy, object };
}

type CommonMembers = { deployment: string } & Partial<
  Readonly<{ dryRun: boolean; cluster: string; reason: string; requestedBy: string }>
>;

/** The members that lock and messages need, and the input object as given: the run itself fills in the defaults. */
export type CheckedInput = Awaited<ReturnType<typeof buildInput>>;

async function readObject(context: CliContext, input: string): Promise<object> {
  const file = input.replace(/^@/, '');
  const isJson = /^\s*[[{"]/.test(input);
  const value = jsonIn(isJson ? input : file === '-' ? await context.readInput() : await readTextFile(file));
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new RunbookError('INVALID_INPUT', 'The input is not a JSON object.', {
    needed: 'one JSON object, a file, or - for standard input',
  });
}

type FieldSchema = z.core.JSONSchema._JSONSchema;

/** The fields of a runbook's input object, from its schema; types as text, defaults as JSON. */
export function inputFields(runbook: RunbookName) {
  const { properties = {}, required = [] } = z.toJSONSchema(RUNBOOK_INPUTS[runbook], { io: 'input' });
  return Object.entries(properties).map(([name, field]) => ({
    name,
    type: typeText(field),
    required: required.includes(name),
    default: typeof field === 'object' ? JSON.stringify(field.default) : undefined,
  }));
}

function typeText(field: FieldSchema): string {
  if (typeof field === 'boolean') return 'any value';
  if (field.enum) return `one of ${field.enum.join(', ')}`;
  if (field.const !== undefined) return JSON.stringify(field.const);
  if (field.anyOf) return field.anyOf.map(typeText).join(', or ');
  if (field.type === 'array')
    return `a list of: ${field.items ? [field.items].flat().map(typeText).join(', ') : 'anything'}`;
  if (field.type === 'object')
    return `an object${field.properties ? ` of ${Object.keys(field.properties).join(', ')}` : ''}`;
  return TYPE_WORDS[String(field.type)] ?? 'any value';
}
