import { readFile } from 'node:fs/promises';
import { isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document } from 'yaml';
import { errnoOf, RunbookError } from '../errors';
import { redact } from '../keys/redaction';
import { crossCheck } from './checks';
import type { ShareGroup } from '../contracts/share-groups';
import { inventorySchema } from './schema';
import type { ParsedInventory } from './schema';
import { mistakesOf } from './schema-values';
import type { Mistake } from './schema-values';
import type { BatchTokenSource, ClusterEntry, Inventory } from './types';

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
  const mistakes = parsed.success ? crossCheck(parsed.data) : parsed.error.issues.flatMap(mistakesOf);
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
      const item: unknown = isSeq(node) ? node.items[Number(part)] : undefined;
      if (!isNode(item)) break;
      offset = item.range?.[0] ?? offset;
      node = item;
    }
  }
  return offset;
}

type ParsedDeployment = ParsedInventory['deployments'][string];

function assemble({ temporal, workers, people, deployments }: ParsedInventory): Inventory {
  const shareGroups = ({ ceremony }: ParsedDeployment): readonly ShareGroup[] => {
    const roster = [...ceremony.holders, ...ceremony.standBy];
    return ceremony.groups.map(({ group, shares }) => ({
      group,
      shares,
      members: roster.filter((name) => people[name]?.groups.includes(group) === true),
    }));
  };
  return {
    temporal,
    workers,
    people: new Map(Object.entries(people).map(([name, person]) => [name, { name, ...person }])),
    deployments: new Map(
      Object.entries(deployments).map(([name, entry]) => [
        name,
        {
          ...entry,
          name,
          clusters: clustersOf(name, entry),
          drSets: new Map(Object.entries(entry.drSets)),
          shareGroups: shareGroups(entry),
        },
      ]),
    ),
  };
}

function clustersOf(
  deployment: string,
  { clusters, drSets, batchTokens }: ParsedDeployment,
): ReadonlyMap<string, ClusterEntry> {
  return new Map(
    Object.entries(clusters).map(([name, cluster]) => {
      const drSet = Object.entries(drSets).find(([, members]) => members.includes(name))?.[0] ?? name;
      // A token that a rotation keeps is read where it is put.
      const batchToken: BatchTokenSource | undefined = cluster.batchToken ?? batchTokens[drSet]?.sink;
      return [name, { ...cluster, batchToken, name, deployment, drSet }];
    }),
  );
}
