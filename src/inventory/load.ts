import { readFile } from 'node:fs/promises';
import { isAlias, isMap, isNode, isPair, isScalar, LineCounter, parseDocument } from 'yaml';
import type { Document } from 'yaml';
import { RunbookError } from '../errors';
import { errnoOf } from '../keys/errno';
import { redact } from '../keys/redaction';
import { crossCheck } from './checks';
import type { Mistake } from './checks';
import type { ShareGroup } from '../contracts/share-groups';
import { inventorySchema } from './schema';
import type { ParsedInventory } from './schema';
import type { BatchTokenSource, ClusterEntry, Deployment, Inventory } from './types';

/**
 * Loads and checks the inventory file.
 *
 * @param path of the file (`RUNBOOKS_INVENTORY`).
 * @throws RunbookError `INVENTORY_INVALID` with every mistake at once: line, column, path, what is wrong.
 */
export async function loadInventory(path: string): Promise<Inventory> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('INVENTORY_INVALID', `The inventory ${path} cannot be read (${reason}).`, {
      next: 'Set RUNBOOKS_INVENTORY to the path of a readable inventory file.',
    });
  }
  return parseInventory(text, path);
}

/** As {@link loadInventory}, for text in hand. `name` stands in the messages. */
export function parseInventory(text: string, name: string): Inventory {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: '1.2' });
  const report = (found: readonly { readonly offset: number; readonly text: string }[]) => {
    const sorted = [...found].sort((a, b) => a.offset - b.offset);
    const listed = sorted.map((mistake) => {
      const { line, col } = lines.linePos(mistake.offset);
      return `${name}:${line}:${col}: ${redact(mistake.text)}`;
    });
    const count = listed.length === 1 ? '1 mistake' : `${listed.length} mistakes`;
    return new RunbookError('INVENTORY_INVALID', `The inventory has ${count}:\n${listed.join('\n')}`);
  };

  if (document.errors.length > 0) {
    throw report(document.errors.map((error) => ({ offset: error.pos[0], text: error.message })));
  }
  const parsed = inventorySchema.safeParse(toPlain(document, report));
  const mistakes = parsed.success ? crossCheck(parsed.data) : flatten(parsed.error.issues);
  if (mistakes.length > 0) {
    throw report(mistakes.map((mistake) => ({ offset: offsetOf(document, mistake.path), text: describe(mistake) })));
  }
  return assemble(inventorySchema.parse(document.toJS()));
}

function toPlain(document: Document, report: (found: { offset: number; text: string }[]) => RunbookError): unknown {
  try {
    return document.toJS({ maxAliasCount: 100 });
  } catch {
    throw report([{ offset: 0, text: 'an alias is unknown, or there are too many of them' }]);
  }
}

interface SchemaIssue {
  readonly code?: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly keys?: readonly string[];
}

/** One mistake per unknown key, each at its own line. */
function flatten(issues: readonly SchemaIssue[]): Mistake[] {
  return issues.flatMap((issue): Mistake[] => {
    if (issue.code === 'unrecognized_keys' && issue.keys !== undefined) {
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: 'unknown field' }));
    }
    if (issue.code === 'invalid_key') {
      return [{ path: issue.path, message: 'a name consists of lower-case letters, digits and hyphens' }];
    }
    const missing = issue.code === 'invalid_type' && issue.message.endsWith('received undefined');
    return [{ path: issue.path, message: missing ? 'missing' : issue.message }];
  });
}

function describe({ path, message }: Mistake): string {
  const written = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('');
  return `${written.replace(/^\./, '') || '(the whole file)'}: ${message}`;
}

/** Where `path` is written: the key of the last member that exists. */
function offsetOf(document: Document, path: readonly PropertyKey[]): number {
  let node: unknown = document.contents;
  let offset = isNode(node) ? (node.range?.[0] ?? 0) : 0;
  for (const part of path) {
    if (isAlias(node)) node = node.resolve(document);
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(part));
      if (!isPair(pair)) break;
      if (isNode(pair.key)) offset = pair.key.range?.[0] ?? offset;
      node = pair.value;
    } else {
      const item: unknown =
        document.contents === null || !isNode(node) || !('items' in node)
          ? undefined
          : Array.isArray(node.items)
            ? node.items[Number(part)]
            : undefined;
      if (!isNode(item)) break;
      offset = item.range?.[0] ?? offset;
      node = item;
    }
  }
  return offset;
}

function assemble(parsed: ParsedInventory): Inventory {
  return {
    temporal: parsed.temporal,
    workers: parsed.workers,
    people: new Map(Object.entries(parsed.people).map(([name, person]) => [name, { name, ...person }])),
    deployments: new Map(
      Object.entries(parsed.deployments).map(([name, entry]): [string, Deployment] => [
        name,
        {
          ...entry,
          name,
          clusters: assembleClusters(name, entry),
          drSets: new Map(Object.entries(entry.drSets)),
          shareGroups: assembleShareGroups(parsed, entry),
        },
      ]),
    ),
  };
}

function assembleClusters(
  deployment: string,
  { clusters, drSets, batchTokens }: ParsedInventory['deployments'][string],
): ReadonlyMap<string, ClusterEntry> {
  const setOf = (cluster: string) => Object.entries(drSets).find(([, members]) => members.includes(cluster))?.[0];
  return new Map(
    Object.entries(clusters).map(([name, cluster]) => {
      const drSet = setOf(name) ?? name;
      // A token that a rotation keeps is read where it is put.
      const batchToken: BatchTokenSource | undefined = cluster.batchToken ?? batchTokens[drSet]?.sink;
      return [name, { ...cluster, batchToken, name, deployment, drSet }];
    }),
  );
}

function assembleShareGroups(
  { people }: ParsedInventory,
  { ceremony }: ParsedInventory['deployments'][string],
): readonly ShareGroup[] {
  const roster = [...ceremony.holders, ...ceremony.standBy];
  return ceremony.groups.map(({ group, shares }) => ({
    group,
    shares,
    members: roster.filter((name) => people[name]?.groups.includes(group) === true),
  }));
}
