import { z } from 'zod';
import type { RunbookName } from '../contracts/names';
import { RUNBOOK_INPUTS } from '../contracts/runbook-inputs';

/** One field of a runbook's input. */
export interface InputField {
  readonly name: string;
  /** In words: `text`, `true or false`, `one of a, b`, a number, an object. */
  readonly type: string;
  readonly needed: boolean;
  /** What counts where it is not given. */
  readonly otherwise: string;
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

/** The fields of a runbook's one input object, from its schema. */
export function inputFields(runbook: RunbookName): InputField[] {
  const schema = z.toJSONSchema(RUNBOOK_INPUTS[runbook], { io: 'input' }) as {
    readonly properties?: Readonly<Record<string, FieldSchema>>;
    readonly required?: readonly string[];
  };
  return Object.entries(schema.properties ?? {}).map(([name, field]) => ({
    name,
    type: inWords(field),
    needed: schema.required?.includes(name) ?? false,
    otherwise: field.default === undefined ? 'may be left out' : `default ${JSON.stringify(field.default)}`,
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
