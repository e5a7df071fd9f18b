import type { z } from 'zod';

/** What is wrong with an input, field by field, in words of ours. Names fields and what they take, and quotes no value. */
export function inputMistakes({ issues }: z.ZodError): string[] {
  return issues.flatMap((issue) => {
    const name = issue.path.join('.') || 'the input';
    const missing = issue.message.endsWith('received undefined') || (issue.code === 'too_small' && issue.minimum === 1);
    if (missing) return [`${name} is required`];
    switch (issue.code) {
      case 'unrecognized_keys':
        return issue.keys.map((key) => `${[...issue.path, key].join('.')} is no field of it`);
      case 'invalid_type':
        return [`${name}: ${TYPES[issue.expected] ?? issue.expected} is needed`];
      case 'invalid_value':
        return [`${name} is one of ${issue.values.join(', ')}`];
      case 'too_small':
        return [`${name}: at least ${issue.minimum}${issue.origin === 'string' ? ' characters' : ''}`];
      case 'too_big':
        return [`${name}: at most ${issue.maximum}${issue.origin === 'string' ? ' characters' : ''}`];
      default:
        return [`${name}: ${issue.message}`];
    }
  });
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
  array: 'a list',
  object: 'an object',
};
