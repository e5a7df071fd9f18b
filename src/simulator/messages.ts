import { isJsonObject, type JsonObject, type JsonValue } from './json';
import { ServiceFault } from './service-fault';

/** A longer text in a body is an internal error for the service. */
const LARGEST_TEXT = 1024 * 1024;

/** A request as the routes see it. */
export interface ServiceRequest {
  /** `PUT` is `POST`, as in the service. */
  readonly method: string;
  /** Below `/v1/`. */
  readonly path: string;
  /** Empty for the root namespace, else with a trailing slash. */
  readonly namespace: string;
  readonly query: URLSearchParams;
  readonly body: JsonObject;
  readonly token: string | undefined;
}

export interface ServiceAnswer {
  readonly status: number;
  readonly body?: JsonValue;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The answer envelope of logical routes. */
export function envelope(
  requestId: string,
  data: JsonValue,
  extra: { warnings?: string[]; wrapInfo?: JsonObject; auth?: JsonObject } = {},
): ServiceAnswer {
  return {
    status: 200,
    body: {
      // A wrapped answer is built without its request's identity.
      request_id: extra.wrapInfo === undefined ? requestId : '',
      lease_id: '',
      renewable: false,
      lease_duration: 0,
      data,
      wrap_info: extra.wrapInfo ?? null,
      warnings: extra.warnings ?? null,
      auth: extra.auth ?? null,
      mount_type: 'system',
    },
  };
}

export const NO_CONTENT: ServiceAnswer = { status: 204 };

export function badRequest(text: string): ServiceFault {
  return new ServiceFault(400, [text]);
}

export function permissionDenied(): ServiceFault {
  return new ServiceFault(403, ['permission denied']);
}

/** The text for a token that is not valid at all, as opposed to one without the right. */
export function invalidToken(): ServiceFault {
  return new ServiceFault(403, ['2 errors occurred:\n\t* permission denied\n\t* invalid token\n\n']);
}

/** A text field; the empty string where it is absent. */
export function textField(body: JsonObject, name: string): string {
  const value = body[name];
  if (value === undefined || value === null) return '';
  if (typeof value === 'string' || typeof value === 'number') return String(value);
  throw badRequest(`error converting input for field "${name}": expected type 'string', got unconvertible type`);
}

/** A text field that must be there. */
export function requiredTextField(body: JsonObject, name: string): string {
  const value = textField(body, name);
  if (value === '') throw badRequest(`missing required field "${name}"`);
  return value;
}

export function booleanField(body: JsonObject, name: string): boolean {
  const value = body[name];
  if (value === undefined || value === null || value === false || value === 'false') return false;
  if (value === true || value === 'true') return true;
  throw badRequest(`error converting input for field "${name}": expected type 'bool'`);
}

/** A list of texts; a comma-separated text is one too. */
export function listField(body: JsonObject, name: string): string[] {
  const value = body[name];
  if (value === undefined || value === null || value === '') return [];
  if (typeof value === 'string') return value.split(',').map((part) => part.trim());
  if (Array.isArray(value) && value.every((part) => typeof part === 'string')) return value;
  throw badRequest(`error converting input for field "${name}": expected a list of texts`);
}

/** What a request without any body has. */
export const NO_BODY: JsonObject = Object.freeze({});

/** Body of a request. Malformed JSON is an internal error for the service, JSON of another type a bad request. */
export function parseBody(text: string): JsonObject {
  if (text.trim() === '') return NO_BODY;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw new ServiceFault(500, ['malformed JSON, unclosed containers']);
  }
  if (parsed === null) return {};
  if (!isJsonObject(parsed)) {
    const kind = Array.isArray(parsed) ? 'array' : parsed === true || parsed === false ? 'bool' : typeof parsed;
    throw badRequest(
      `error parsing JSON: failed to parse JSON input: json: cannot unmarshal ${kind} into Go value of type map[string]interface {}`,
    );
  }
  if (Object.values(parsed).some((value) => typeof value === 'string' && value.length > LARGEST_TEXT))
    throw new ServiceFault(500, ['JSON string value exceeds allowed length']);
  return parsed;
}
