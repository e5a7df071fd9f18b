import { z } from 'zod';
import { inputMistakes } from '../contracts/input-mistakes';
import { RUNBOOK_NAMES } from '../contracts/names';
import type { RunbookName } from '../contracts/names';
import { RUNBOOK_INPUTS } from '../contracts/runbook-inputs';
import { RunbookError } from '../errors';
import type { CliContext } from './context';
import { readTextFile, refusePlainShare } from './secret-input';

/** @throws RunbookError `UNKNOWN_RUNBOOK`, listing the known ones. */
export function runbookName(name: string): RunbookName {
  const known = RUNBOOK_NAMES.find((candidate) => candidate === name);
  if (known !== undefined) return known;
  throw new RunbookError('UNKNOWN_RUNBOOK', `There is no runbook "${name}".`, {
    needed: `one of: ${RUNBOOK_NAMES.join(', ')}`,
  });
}

/**
 * Puts the one input object together: `--input` (JSON, a file, or `-` for standard input) and single fields, which
 * win. Checked with the runbook's own schema, so that a mistake is named before a run exists.
 *
 * @throws RunbookError `INVALID_INPUT`, naming each wrong field.
 */
export async function buildInput(
  context: CliContext,
  runbook: RunbookName,
  fields: Readonly<Record<string, unknown>>,
  whole?: string,
) {
  const given = Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  const object = { ...(whole === undefined ? {} : await readObject(context, whole)), ...given };
  refusePlainShare(object);
  const parsed = RUNBOOK_INPUTS[runbook].safeParse(object);
  if (!parsed.success) {
    const mistakes = inputMistakes(parsed.error).join('; ');
    throw new RunbookError('INVALID_INPUT', `The input of ${runbook} is refused: ${mistakes}.`, {
      next: `Correct these fields; nothing was started. All of them: \`runbook runbooks ${runbook}\``,
    });
  }
  const data: { deployment: string; dryRun?: boolean; cluster?: string | undefined } = parsed.data;
  return { deployment: data.deployment, cluster: data.cluster, dryRun: data.dryRun ?? false, object };
}

/** What lock and messages need of an input, and the object to send as it was given: the run itself fills in the defaults. */
export type CheckedInput = Awaited<ReturnType<typeof buildInput>>;

async function readObject(context: CliContext, input: string): Promise<object> {
  const file = input.replace(/^@/, '');
  const isJson = /^\s*[[{"]/.test(input);
  const text = isJson ? input : file === '-' ? await context.readInput() : await readTextFile(file);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Refused below, as what is JSON and no object.
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
  throw new RunbookError('INVALID_INPUT', 'The input is not a JSON object.', {
    needed: 'one JSON object, a file, or - for standard input',
  });
}

interface FieldSchema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly FieldSchema[];
  readonly items?: FieldSchema;
  readonly properties?: Readonly<Record<string, FieldSchema>>;
  readonly default?: unknown;
}

/** The fields of a runbook's one input object, from its schema; types in words, defaults as JSON. */
export function inputFields(runbook: RunbookName) {
  const schema = z.toJSONSchema(RUNBOOK_INPUTS[runbook], { io: 'input' }) as {
    readonly properties?: Readonly<Record<string, FieldSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(schema.properties ?? {}).map(([name, field]) => ({
    name,
    type: inWords(field),
    required: schema.required?.includes(name) ?? false,
    default: JSON.stringify(field.default),
  }));
}

function inWords(field: FieldSchema): string {
  if (field.enum) return `one of ${field.enum.join(', ')}`;
  if (field.const !== undefined) return JSON.stringify(field.const);
  if (field.anyOf) return field.anyOf.map(inWords).join(', or ');
  if (field.type === 'array') return `a list of: ${field.items ? inWords(field.items) : 'anything'}`;
  if (field.type === 'object')
    return `an object${field.properties ? ` of ${Object.keys(field.properties).join(', ')}` : ''}`;
  return (
    { string: 'text', boolean: 'true or false', integer: 'a number', number: 'a number' }[field.type ?? ''] ??
    'any value'
  );
}
