/** JSON values as they go over the wire; write-ahead-log indexes are bigint and become plain JSON integers. */
export type JsonValue =
  string | number | boolean | null | bigint | JsonValue[] | { [key: string]: JsonValue | undefined };
export type JsonObject = { [key: string]: JsonValue | undefined };

/** `JSON.stringify` with uint64 integers written in full. Node 20 has no way to make its own one do that. */
export function encodeJson(value: JsonValue): string {
  if (typeof value === 'bigint') return value.toString();
  if (Array.isArray(value)) return `[${value.map(encodeJson).join(',')}]`;
  if (value !== null && typeof value === 'object') {
    const members = Object.entries(value).flatMap(([key, member]) =>
      member === undefined ? [] : [`${JSON.stringify(key)}:${encodeJson(member)}`],
    );
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
