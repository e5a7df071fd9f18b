import type { GenerationStatus, GenerationStrategy } from '../generation-attempt';
import type { JsonObject } from '../json';
import { badRequest, NO_BODY, NO_CONTENT, textField, type ServiceAnswer } from '../messages';
import { route, type Route, type RouteCall } from './route';

function flat(status: GenerationStatus): ServiceAnswer {
  return { status: 200, body: { ...status } };
}

/** A text field whose key may come in any letter case, and nothing but text, as in the service's raw handlers. */
function looseField(body: JsonObject, name: string, described: string): string {
  const key = Object.keys(body).find((candidate) => candidate.toLowerCase() === name) ?? name;
  const value = body[key];
  if (value === undefined || value === null || typeof value === 'string') return textField(body, key);
  const kind = Array.isArray(value) ? 'array' : typeof value === 'boolean' ? 'bool' : typeof value;
  throw badRequest(
    `failed to parse JSON input: json: cannot unmarshal ${kind} into Go struct field ${described} of type string`,
  );
}

function requireRole(call: RouteCall, strategy: GenerationStrategy): void {
  if (strategy === 'dr-operation-token' && !call.cluster.isDrSecondary)
    throw badRequest('DR operation tokens can only be generated on a DR secondary');
}

function generationRoutes(base: string, strategy: GenerationStrategy): Route[] {
  const step = (method: string, path: string, run: Route['run']): Route =>
    route(
      `${method} ${base}/${path}`,
      'generation',
      (call) => {
        requireRole(call, strategy);
        return run(call);
      },
      { onDrSecondary: true, rootNamespaceOnly: true },
    );
  return [
    step('GET', 'attempt', async (call) => flat(await call.node.attempts.read())),
    step('POST', 'attempt', async (call) => {
      const { body } = call.request;
      const started = await call.node.attempts.start(strategy, {
        otp: looseField(body, 'otp', 'GenerateRootInitRequest.otp'),
        pgp_key: looseField(body, 'pgp_key', 'GenerateRootInitRequest.pgp_key'),
      });
      return flat(started);
    }),
    step('DELETE', 'attempt', async (call) => {
      await call.node.attempts.cancel();
      return NO_CONTENT;
    }),
    step('POST', 'update', async (call) => {
      const { body } = call.request;
      if (body === NO_BODY) throw badRequest('EOF');
      const updated = await call.node.attempts.update(strategy, {
        key: looseField(body, 'key', 'GenerateRootUpdateRequest.Key'),
        nonce: looseField(body, 'nonce', 'GenerateRootUpdateRequest.Nonce'),
      });
      return flat(updated);
    }),
    // Whatever the method: it is a share, and none is there.
    ...['GET', 'DELETE'].map((method) =>
      step(method, 'update', () => {
        throw badRequest('EOF');
      }),
    ),
  ];
}

/** The two generation attempts, which share the one slot of the active node. */
export const GENERATION_ROUTES: readonly Route[] = [
  ...generationRoutes('sys/replication/dr/secondary/generate-operation-token', 'dr-operation-token'),
  ...generationRoutes('sys/generate-root', 'generate-root'),
];
