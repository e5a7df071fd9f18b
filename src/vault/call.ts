import { RunbookError } from '../errors';
import { redactText } from '../redaction';
import { pathOf } from './endpoints';
import type { Endpoint } from './endpoints';
import { isObject } from './shape';
import type { Reader } from './shape';
import type { CallOptions, Caller, RequestDescription, ServiceAnswer } from './types';

/** Makes one call of the table and reads its answer. */
export async function callEndpoint(
  caller: Caller,
  endpoint: Endpoint<unknown, unknown>,
  parameters: unknown,
  options: CallOptions | undefined,
): Promise<unknown> {
  const { read, mayBeAbsent, tokenForHeader } = endpoint;
  const request = {
    ...endpoint,
    path: pathOf(endpoint, parameters),
    body: endpoint.body?.(parameters),
    consume: endpoint.consume?.(parameters),
  };
  try {
    const answer = await caller.call(request, options);
    if (read === undefined) return { node: answer.node, warnings: warningsOf(answer) };
    return readAnswer(caller, request, answer, (body, place) => read(body, place, parameters));
  } catch (error) {
    if (!(error instanceof RunbookError)) throw error;
    if (mayBeAbsent === true && error.code === 'NOT_FOUND') return undefined;
    if (tokenForHeader === undefined || options?.token !== undefined || error.code !== 'PERMISSION_DENIED') throw error;
    return callEndpoint(caller, endpoint, parameters, { ...options, token: tokenForHeader(parameters) });
  }
}

/** Reads the whole body of an answer. @throws RunbookError RESPONSE_INVALID */
export function readAnswer<T>(
  caller: Caller,
  { method, path, effect }: RequestDescription,
  answer: ServiceAnswer,
  read: Reader<T>,
): T {
  const what = `${method} ${path}`;
  const { cluster } = caller;
  const { node, status, body } = answer;
  const outcomeKnown = effect === 'reads';
  if (!isObject(body)) {
    throw new RunbookError('RESPONSE_INVALID', `${what}: the answer ${status} holds no JSON object`, {
      ...{ outcomeKnown, httpStatus: status, cluster },
    });
  }
  const warn = (warning: string) => caller.warn(warning);
  for (const warning of warningsOf(answer)) warn(`${what}: ${warning}`);
  return read(body, { what, cluster, node, status, outcomeKnown, path: [], warn });
}

function warningsOf({ body }: ServiceAnswer): readonly string[] {
  const warnings = isObject(body) ? body.warnings : undefined;
  if (!Array.isArray(warnings)) return [];
  return warnings.filter((warning): warning is string => typeof warning === 'string').map((text) => redactText(text));
}
