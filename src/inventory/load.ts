import { readFile } from 'node:fs/promises';
import { isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document } from 'yaml';
import { z } from 'zod';
import { errnoOf, RunbookError } from '../errors';
import { redact } from '../keys/redaction';
import type { ShareGroup } from '../contracts/share-groups';
import { crossChecks } from './checks';
import { hasJoined } from './lookup';
import { inventorySchema } from './schema';
import type { BatchTokenSource, ParsedDeployment, ParsedInventory, Person } from './schema';
import { UNKNOWN_FIELD, meant, mistakesOf } from './schema-values';
import type { Mistake } from './schema-values';

/** One cluster: its nodes' API addresses and the sources of its credentials. */
export type ClusterEntry = Readonly<Omit<Parsed<ParsedDeployment['clusters']>, 'batchToken'>> & {
  readonly batchToken?: BatchTokenSource | undefined;
  readonly deployment: string;
  /** The DR set that it is a member of. Membership, not a role. */
  readonly drSet: string;
};
type Parsed<M> = M extends ReadonlyMap<string, infer T> ? T : never;

/** A named group of clusters that replicate among themselves. It states membership, never roles. */
export type Deployment = Readonly<Omit<ParsedDeployment, 'clusters'>> & {
  readonly clusters: ReadonlyMap<string, ClusterEntry>;
  /** The groups of the ceremony's policy with their members on the roster, in term or not. */
  readonly shareGroups: readonly ShareGroup[];
  /** Holders on the roster, stand-by or not, whose key nobody has listed yet. */
  readonly notJoined: readonly string[];
};

/** What the worker knows of the site. */
export interface Inventory extends Pick<ParsedInventory, 'temporal' | 'workers'> {
  readonly people: ReadonlyMap<string, Person>;
  readonly deployments: ReadonlyMap<string, Deployment>;
}

/**
 * Loads and checks the inventory file.
 *
 * @param path of the file (`RUNBOOKS_INVENTORY`).
 * @throws RunbookError `INVENTORY_INVALID` with every mistake at once: line, column, path, what is wrong.
 */
export async function loadInventory(path: string): Promise<Inventory> {
  return parseInventory(await readInventoryText(path), path);
}

/** @throws RunbookError `INVENTORY_INVALID` where it cannot be read. */
export async function readInventoryText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('INVENTORY_INVALID', `The inventory ${path} cannot be read (${reason}).`, {
      next: 'Set RUNBOOKS_INVENTORY to the path of a readable inventory file.',
    });
  }
}

/** As {@link loadInventory}, for text in hand. `name` stands in the messages. */
export function parseInventory(text: string, name: string): Inventory {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: '1.2' });
  const refusal = (found: readonly { readonly offset: number; readonly text: string }[]) => {
    const listed = found
      .toSorted((a, b) => a.offset - b.offset)
      .map((mistake) => {
        const { line, col } = lines.linePos(mistake.offset);
        return `${name}:${line}:${col}: ${redact(mistake.text)}`;
      });
    const count = listed.length === 1 ? '1 mistake' : `${listed.length} mistakes`;
    return new RunbookError('INVENTORY_INVALID', `The inventory has ${count}:\n${listed.join('\n')}`);
  };
  const refusalOf = (mistakes: readonly Mistake[]) =>
    refusal(mistakes.map((mistake) => ({ offset: offsetOf(document, mistake.path), text: describe(mistake) })));

  if (document.errors.length > 0)
    throw refusal(document.errors.map((error) => ({ offset: error.pos[0], text: error.message })));
  let plain: unknown;
  try {
    plain = document.toJS({ maxAliasCount: 100 });
  } catch {
    throw refusal([{ offset: 0, text: 'an alias is unknown, or there are too many of them' }]);
  }
  const parsed = inventorySchema.safeParse(plain);
  if (!parsed.success) {
    const mistakes = parsed.error.issues.flatMap(mistakesOf).map(nearestField);
    throw refusalOf([...mistakes, ...mistakesBeside(plain, mistakes)]);
  }
  const mistakes = [...crossChecks(parsed.data)];
  if (mistakes.length > 0) throw refusalOf(mistakes);
  return assemble(parsed.data);
}

/** A field that is known, for one that is not. */
function nearestField(mistake: Mistake): Mistake {
  const { path, message } = mistake;
  if (message !== UNKNOWN_FIELD) return mistake;
  const schema = JSON.stringify(z.toJSONSchema(inventorySchema, { io: 'input', unrepresentable: 'any' }));
  // Every member that is described is one: `"caFile":{"type": ...}`.
  const fields = new Set(
    [...schema.matchAll(/"(\w+)":\{"(?:\$ref|type|anyOf|default|minLength|const|enum)"/g)].map(([, name = '']) => name),
  );
  return { path, message: `${message}${meant(String(path.at(-1)), fields)}` };
}

/**
 * What the rest of the file says of itself, where it can be read without the members that are wrong: nobody should have to
 * mend it twice. Without a person, or an element of a list, others would only seem wrong.
 */
function mistakesBeside(plain: unknown, mistakes: readonly Mistake[]): readonly Mistake[] {
  const rest: unknown = structuredClone(plain);
  for (const { path } of mistakes) {
    const [name, holder] = [path.at(-1), path.slice(0, -1).reduce(memberOf, rest)];
    if (path[0] === 'people' || typeof name !== 'string' || typeof holder !== 'object' || holder === null) return [];
    Reflect.deleteProperty(holder, name);
  }
  const parsed = inventorySchema.safeParse(rest);
  return parsed.success ? [...crossChecks(parsed.data)] : [];
}

function memberOf(holder: unknown, name: PropertyKey): unknown {
  return typeof holder === 'object' && holder !== null ? (Reflect.get(holder, name) as unknown) : undefined;
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

function assemble({ temporal, workers, people, deployments }: ParsedInventory): Inventory {
  const assembled = [...deployments.values()].map((deployment): Deployment => {
    const { holders, standBy, groups } = deployment.ceremony;
    const membersOf = (group: string) =>
      [...holders, ...standBy].filter((name) => people.get(name)?.groups.includes(group) === true);
    const shareGroups = groups.map((each) => ({ ...each, members: membersOf(each.group) }));
    const notJoined = [...holders, ...standBy].filter((name) => {
      const person = people.get(name);
      return person !== undefined && !hasJoined(person);
    });
    return { ...deployment, clusters: clustersOf(deployment), shareGroups, notJoined };
  });
  return { temporal, workers, people, deployments: new Map(assembled.map((each) => [each.name, each])) };
}

function clustersOf({ name: deployment, clusters, drSets, batchTokens }: ParsedDeployment): Deployment['clusters'] {
  const entries = [...clusters.values()].map((cluster): ClusterEntry => {
    const drSet = [...drSets].find(([, members]) => members.includes(cluster.name))?.[0] ?? cluster.name;
    // A token that a rotation keeps is read where it is put.
    return { ...cluster, deployment, drSet, batchToken: cluster.batchToken ?? batchTokens[drSet]?.sink };
  });
  return new Map(entries.map((each) => [each.name, each]));
}
