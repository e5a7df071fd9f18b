import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isAlias, isMap, isNode, isPair, isScalar, isSeq, LineCounter, parseDocument } from 'yaml';
import type { Document, YAMLParseError } from 'yaml';
import { formatPublicKey, parsePublicKey, spokenFingerprint } from '../documents/public-keys';
import type { PublicKeyEntry } from '../documents/public-keys';
import { errnoOf, isRunbookError, RunbookError } from '../errors';
import { redact } from '../secret';
import { crossChecks } from './checks';
import { findDeployment, hasJoined } from './lookup';
import { inventorySchema } from './schema';
import type { ParsedDeployment, ParsedInventory, ClusterEntry, Deployment, Inventory } from './schema';
import { mistakesOf } from './schema-values';
import type { Mistake } from './schema-values';

/**
 * Loads and checks the inventory file.
 *
 * @param path of the file (`RUNBOOKS_INVENTORY`).
 * @throws RunbookError `INVENTORY_INVALID` with all mistakes at once, the contradictions between members too: line,
 *   column, path, and what is wrong.
 */
export async function loadInventory(path: string): Promise<Inventory> {
  return parseInventory(await readInventoryText(path), path);
}

/** @throws RunbookError `INVENTORY_INVALID` if it cannot be read. */
async function readInventoryText(path: string): Promise<string> {
  try {
    return await readFile(path, 'utf8');
  } catch (error) {
    const reason = errnoOf(error) ?? 'unknown reason';
    throw new RunbookError('INVENTORY_INVALID', `The inventory ${path} cannot be read (${reason}).`, {
      next: 'Set RUNBOOKS_INVENTORY to the path of a readable inventory file.',
    });
  }
}

/** As {@link loadInventory}, but from text. `name` is used in the messages. */
export function parseInventory(text: string, name: string): Inventory {
  const lines = new LineCounter();
  const document = parseDocument(text, { lineCounter: lines, prettyErrors: false, version: '1.2', merge: true });
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
    throw refusal(document.errors.map((error) => ({ offset: error.pos[0], text: yamlMistake(error) })));
  let plain: unknown;
  try {
    plain = document.toJS({ maxAliasCount: 100 });
  } catch {
    throw refusal([{ offset: 0, text: 'an alias is unknown, or there are too many aliases' }]);
  }
  const parsed = inventorySchema.safeParse(plain);
  if (!parsed.success) {
    const wrong = parsed.error.issues.flatMap(mistakesOf);
    throw refusalOf([...wrong, ...contradictionsBeside(wrong, plain)]);
  }
  const mistakes = [...crossChecks(parsed.data)];
  if (mistakes.length > 0) throw refusalOf(mistakes);
  return assemble(parsed.data);
}

/**
 * The contradictions among the members that are not wrong themselves, so that people see every mistake at once. None if
 * the file makes no sense without what is wrong. A contradiction at or around a wrong member may only follow from it.
 */
function contradictionsBeside(wrong: readonly Mistake[], plain: unknown): readonly Mistake[] {
  const rest: unknown = structuredClone(plain);
  for (const { path } of wrong) removeAt(rest, path);
  const parsed = inventorySchema.safeParse(rest);
  if (!parsed.success) return [];
  const touches = (one: Mistake['path'], other: Mistake['path']) =>
    one.slice(0, Math.min(one.length, other.length)).every((part, index) => part === other[index]);
  return [...crossChecks(parsed.data)].filter(({ path }) => !wrong.some((each) => touches(each.path, path)));
}

/** Members only: without one of its items, a list would mean something else. */
function removeAt(value: unknown, path: Mistake['path']): void {
  const parents = path.slice(0, -1);
  const parent = parents.reduce<unknown>((each, part) => (isRecord(each) ? each[part] : undefined), value);
  const last = path.at(-1);
  if (last !== undefined && isRecord(parent) && !Array.isArray(parent)) Reflect.deleteProperty(parent, last);
}

function isRecord(value: unknown): value is Record<PropertyKey, unknown> {
  return typeof value === 'object' && value !== null;
}

/** The parser's own text speaks to programmers in this case. */
function yamlMistake({ code, message }: YAMLParseError): string {
  return code === 'MULTIPLE_DOCS' ? 'a second document begins here ("---"): keep one document in the file' : message;
}

function describe({ path, message }: Mistake): string {
  const written = path.map((part) => (typeof part === 'number' ? `[${part}]` : `.${String(part)}`)).join('');
  return `${written.replace(/^\./, '') || '(the whole file)'}: ${message}`;
}

/** The offset of `path` in the text: the key of the last member that exists. */
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

function assemble({ temporal, workers, people, deployments, triggers }: ParsedInventory): Inventory {
  const assembled = [...deployments.values()].map((deployment): Deployment => {
    const { holders, standBy } = deployment.ceremony;
    const notJoined = [...holders, ...standBy].filter((name) => {
      const person = people.get(name);
      return person !== undefined && !hasJoined(person);
    });
    return { ...deployment, clusters: clustersOf(deployment), notJoined };
  });
  return { temporal, workers, people, triggers, deployments: new Map(assembled.map((each) => [each.name, each])) };
}

function clustersOf({ name: deployment, clusters, drSets, batchTokens }: ParsedDeployment): Deployment['clusters'] {
  const entries = [...clusters.values()].map((cluster): ClusterEntry => {
    const drSet = [...drSets].find(([, members]) => members.includes(cluster.name))?.[0] ?? cluster.name;
    const rotated = Object.hasOwn(batchTokens, drSet) ? 'record' : undefined;
    return { ...cluster, deployment, drSet, batchToken: cluster.batchToken ?? rotated };
  });
  return new Map(entries.map((each) => [each.name, each]));
}

/**
 * The inventory in force: the last version of the file without a mistake. Compares the text, not time stamps:
 * Kubernetes replaces a link behind the path, and the file's time stamp need not change.
 */
export class InventoryInForce {
  /** Why the current file is refused; undefined if it is in force. */
  refusal: RunbookError | undefined;
  #seen: string;
  #judged: string;

  private constructor(
    private readonly path: string | undefined,
    public current: Inventory,
    text: string,
  ) {
    this.#seen = this.#judged = text;
  }

  /** @throws RunbookError `INVENTORY_INVALID` */
  static async open(path: string): Promise<InventoryInForce> {
    const text = await readInventoryText(path);
    return new InventoryInForce(path, parseInventory(text, path), text);
  }

  /** An inventory that never changes, for an embedding program. */
  static fixed(inventory: Inventory): InventoryInForce {
    return new InventoryInForce(undefined, inventory, '');
  }

  /**
   * Reads the file. A new text counts once it was found unchanged twice: an editor may still be writing it.
   *
   * @returns what happened to a changed file; undefined if there is nothing new
   */
  async look(): Promise<'taken' | 'refused' | undefined> {
    const { path } = this;
    if (path === undefined) return undefined;
    const found = await readInventoryText(path).catch(inventoryError);
    const text = typeof found === 'string' ? found : `\0${found.message}`;
    const settled = text === this.#seen;
    this.#seen = text;
    if (!settled || text === this.#judged) return undefined;
    this.#judged = text;
    try {
      if (typeof found !== 'string') throw found;
      this.current = parseInventory(found, path);
      this.refusal = undefined;
      return 'taken';
    } catch (error) {
      this.refusal = inventoryError(error);
      return 'refused';
    }
  }
}

function inventoryError(error: unknown): RunbookError {
  return isRunbookError(error)
    ? error
    : new RunbookError('INVENTORY_INVALID', 'This program cannot read the inventory.');
}

/**
 * Digest of what an approval relies on besides the plan: people, gates, clusters, hooks, how clients are quiesced and
 * what counts as quiet, what a snapshot is taken before, and whom the ceremony asks. The plan contains the digest,
 * base64url of SHA-256, and nothing that it approves begins under another inventory. Covers only people who concern
 * this deployment.
 */
export function inventoryDigest(inventory: Inventory, deployment: string): string {
  const found = findDeployment(inventory, deployment);
  const { clusters, drSets, ceremony, gates, operators, laboratory, hooks, quiesce, snapshot, limits } = found;
  const { holders, standBy, tokenProviders = [] } = ceremony;
  const named = new Set([...holders, ...standBy, ...tokenProviders]);
  const ofGates = Object.values(gates).flatMap((gate) => gate.groups);
  const counting = new Set([...ofGates, ...operators]);
  const concerned = [...inventory.people].filter(
    ([name, person]) => named.has(name) || person.groups.some((group) => counting.has(group)),
  );
  const { walStillMs, walStillEntries } = limits;
  const still = { walStillMs, walStillEntries };
  const rules = { clusters, drSets, ceremony, gates, operators, still, laboratory, hooks, snapshot, quiesce };
  const content = { people: new Map(concerned), ...rules };
  return createHash('sha256').update(JSON.stringify(content, inOrder), 'utf8').digest('base64url');
}

/** Sorts members: their order in the file has no meaning. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries: [string, unknown][] =
    value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}

/** A person, and the key to list for them in the inventory. */
export interface PersonKey {
  readonly name: string;
  readonly key: PublicKeyEntry;
  /** For a person who is not in the file yet. */
  readonly groups?: readonly string[] | undefined;
  /** Replaces the keys that are listed. */
  readonly replace?: boolean | undefined;
}

/**
 * Adds a person's public key to the text of an inventory; comments and order stay. If the person's attestation was
 * `claimed`, they must sign from then on.
 *
 * @returns the new text; the same text if the key is already listed.
 * @throws RunbookError `INVALID_INPUT` if the person is unknown and no groups are given, if the person has another key,
 *   or if somebody else has this one.
 */
export function listKey(text: string, { name, key, groups, replace = false }: PersonKey): string {
  const document = parseDocument(text, { version: '1.2' });
  const people = document.get('people');
  if (document.errors.length > 0 || !isMap(people))
    throw refused('The inventory is not a readable file with people.', '"runbook inventory check" lists its mistakes.');
  const listed = (of: string): string[] => {
    const keys: unknown = document.getIn(['people', of, 'publicKeys']);
    const found: unknown = keys === undefined ? [] : document.createNode(keys).toJS(document);
    return Array.isArray(found) ? found.filter((each): each is string => typeof each === 'string') : [];
  };
  const everybody = people.items.map((item) => String(item.key));
  const kidOf = (line: string) => parsePublicKey(line.trim())?.kid;
  const isKey = (line: string): boolean => kidOf(line) === key.kid;
  const owner = everybody.find((each) => each !== name && listed(each).some(isKey));
  if (owner !== undefined)
    throw refused(`${owner} already has this key: one key, one person.`, 'Ask both by voice who created it.');
  if (listed(name).some(isKey)) return text;
  if (!everybody.includes(name) && groups === undefined)
    throw refused(
      `${name} is not among the people of this inventory.`,
      'Check the name. For a new person, add their groups: --groups approvers,operators; or --groups none for a key holder.',
    );
  const others = listed(name).map((line) => spokenFingerprint(kidOf(line) ?? ''));
  if (others.length > 0 && !replace)
    throw refused(
      `${name} has another key: ${others.join(', ')}.`,
      'Ask them by voice why they have a new key. Then add --replace: signatures of the earlier key no longer count.',
    );
  const entry = document.getIn(['people', name]);
  if (!isMap(entry)) {
    const fresh = document.createNode(groups === undefined ? {} : { groups: [...groups] });
    fresh.flow = true;
    document.setIn(['people', name], fresh);
  }
  const keys = document.createNode([formatPublicKey(key)]);
  keys.flow = true;
  document.setIn(['people', name, 'publicKeys'], keys);
  if (document.getIn(['people', name, 'attestation']) === 'claimed') document.deleteIn(['people', name, 'attestation']);
  return document.toString({ lineWidth: 0 });
}

function refused(message: string, next: string): RunbookError {
  return new RunbookError('INVALID_INPUT', `${message} Nothing was changed.`, { next });
}
