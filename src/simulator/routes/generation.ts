import { badRequest, NO_BODY, NO_CONTENT, textField, type JsonObject } from '../messages';
import type { Strategy } from '../generation-attempts';
import type { GenerationAttempts } from '../generation-attempts';
import { route, type Route, type RouteCall } from './route';

/** A string field with a case-insensitive key, which must be a string, as in the service's raw handlers. */
function looseField(body: JsonObject, name: string, described: string): string {
  const key = Object.keys(body).find((candidate) => candidate.toLowerCase() === name) ?? name;
  const value = body[key];
  if (value === undefined || value === null || typeof value === 'string') return textField(body, key);
  const kind = Array.isArray(value) ? 'array' : typeof value === 'boolean' ? 'bool' : typeof value;
  throw badRequest(
    `failed to parse JSON input: json: cannot unmarshal ${kind} into Go struct field ${described} of type string`,
  );
}

function generationRoutes(base: string, strategy: Strategy): Route[] {
  const step = (
    what: string,
    run: (call: RouteCall, attempts: GenerationAttempts) => Promise<JsonObject> | JsonObject | void,
  ) =>
    route(what.replace(' ', ` ${base}/`), 'generation', async (call) => {
      if (strategy === 'dr-operation-token' && !call.cluster.isDrSecondary)
        throw badRequest('DR operation tokens can only be generated on a DR secondary');
      const { attempts } = call.node;
      const body = await attempts.inTurn<JsonObject | void>(() => run(call, attempts));
      return body === undefined ? NO_CONTENT : { status: 200, body };
    });
  return [
    step('GET attempt', (_call, attempts) => attempts.status()),
    step('POST attempt', ({ body }, attempts) =>
      attempts.start(strategy, {
        otp: looseField(body, 'otp', 'GenerateRootInitRequest.otp'),
        pgpKey: looseField(body, 'pgp_key', 'GenerateRootInitRequest.pgp_key'),
      }),
    ),
    step('DELETE attempt', (_call, attempts) => attempts.cancel()),
    // With any method the call provides a share; without a body the share is missing.
    ...['POST update', 'GET update', 'DELETE update'].map((what) =>
      step(what, ({ body }, attempts) => {
        if (body === NO_BODY) throw badRequest('EOF');
        return attempts.update(strategy, {
          key: looseField(body, 'key', 'GenerateRootUpdateRequest.Key'),
          nonce: looseField(body, 'nonce', 'GenerateRootUpdateRequest.Nonce'),
        });
      }),
    ),
  ];
}

/** The two generation attempts, which share the one slot of the active node. */
export const GENERATION_ROUTES: readonly Route[] = [
  ...generationRoutes('sys/replication/dr/secondary/generate-operation-token', 'dr-operation-token'),
  ...generationRoutes('sys/generate-root', 'generate-root'),
];
