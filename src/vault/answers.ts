import { RunbookError } from '../errors';
import { Fields, isObject } from './fields';
import { redactText } from './redact';
import type { Accepted, CallOptions, Caller, RequestDescription, ServiceAnswer } from './types';

/** Makes the call and reads its answer; `read` gets the whole body (see {@link dataOf}). */
export async function fetchAnswer<T>(
  caller: Caller,
  request: RequestDescription,
  options: CallOptions | undefined,
  read: (body: Fields, node: string, status: number) => T,
): Promise<T> {
  const answer = await caller.call(request, options);
  const what = `${request.method} ${request.path}`;
  const outcomeKnown = request.effect === 'reads';
  const warn = (warning: string) => caller.warn(warning);
  if (!isObject(answer.body)) {
    throw new RunbookError('RESPONSE_INVALID', `${what}: the answer ${answer.status} holds no JSON object`, {
      outcomeKnown,
      httpStatus: answer.status,
      cluster: caller.cluster,
    });
  }
  const body = new Fields(answer.body, { what, outcomeKnown, cluster: caller.cluster, warn });
  for (const warning of warningsOf(answer)) caller.warn(`${what}: ${warning}`);
  return read(body, answer.node, answer.status);
}

/** As {@link fetchAnswer}; 404 is `undefined`. */
export async function fetchIfPresent<T>(
  caller: Caller,
  request: RequestDescription,
  options: CallOptions | undefined,
  read: (body: Fields) => T,
): Promise<T | undefined> {
  try {
    return await fetchAnswer(caller, request, options, read);
  } catch (error) {
    if (error instanceof RunbookError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/** Makes a call that has no data to return: 200 with warnings, 202 or 204. */
export async function fetchAccepted(
  caller: Caller,
  request: RequestDescription,
  options: CallOptions | undefined,
): Promise<Accepted> {
  const answer = await caller.call(request, options);
  return { node: answer.node, warnings: warningsOf(answer) };
}

/** The object under `data`, or the body itself where the answer is bare. */
export function dataOf(body: Fields): Fields {
  return body.child('data') ?? body;
}

/** A percent-encoded path segment. */
export function segment(name: string, value: string): string {
  neededInput(name, value);
  if (value === '.' || value === '..') throw new RunbookError('INVALID_INPUT', `"${name}" must be more than dots`);
  return encodeURIComponent(value);
}

/** @throws RunbookError INVALID_INPUT where the parameter is empty. */
export function neededInput(name: string, value: string): void {
  if (typeof value !== 'string' || value.trim() === '') {
    throw new RunbookError('INVALID_INPUT', `"${name}" is required and must not be empty`);
  }
}

function warningsOf(answer: ServiceAnswer): readonly string[] {
  const warnings = isObject(answer.body) ? answer.body.warnings : undefined;
  if (!Array.isArray(warnings)) return [];
  return warnings.filter((warning): warning is string => typeof warning === 'string').map((text) => redactText(text));
}
