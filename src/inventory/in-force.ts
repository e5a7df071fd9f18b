import { createHash } from 'node:crypto';
import { RunbookError, isRunbookError } from '../errors';
import { parseInventory, readInventoryText } from './load';
import type { Inventory } from './load';
import { findDeployment } from './lookup';

/**
 * The inventory that counts: the file as it was last found without a mistake. Its text is compared, whatever the path leads
 * to: Kubernetes replaces a link behind the file, and no time stamp of it need change.
 */
export class InventoryInForce {
  /** Why the file as it is now is not taken; undefined where it is in force. */
  refusal: RunbookError | undefined;
  #seen: string;
  #judged: string;
  #inForce: string;

  private constructor(
    private readonly path: string | undefined,
    private readonly accept: (inventory: Inventory) => void,
    public current: Inventory,
    text: string,
  ) {
    this.#seen = this.#judged = this.#inForce = text;
  }

  /**
   * @param accept throws where this worker cannot work with an inventory
   * @throws RunbookError what is wrong with the file
   */
  static async open(path: string, accept: (inventory: Inventory) => void): Promise<InventoryInForce> {
    const text = await readInventoryText(path);
    const inventory = parseInventory(text, path);
    accept(inventory);
    return new InventoryInForce(path, accept, inventory, text);
  }

  /** One that never changes, for an embedding program. */
  static fixed(inventory: Inventory, accept: (inventory: Inventory) => void): InventoryInForce {
    accept(inventory);
    return new InventoryInForce(undefined, accept, inventory, '');
  }

  /**
   * Looks at the file. What is new counts once it was found the same twice: an editor may be in the middle of writing it.
   *
   * @returns what became of the file since the last look, where something did
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
    const judged = text === this.#inForce ? this.current : this.#judge(found, path);
    this.refusal = isRunbookError(judged) ? judged : undefined;
    if (isRunbookError(judged)) return 'refused';
    this.current = judged;
    this.#inForce = text;
    return 'taken';
  }

  #judge(found: string | RunbookError, path: string): Inventory | RunbookError {
    if (typeof found !== 'string') return found;
    try {
      const inventory = parseInventory(found, path);
      this.accept(inventory);
      return inventory;
    } catch (error) {
      return inventoryError(error);
    }
  }
}

function inventoryError(error: unknown): RunbookError {
  return isRunbookError(error)
    ? error
    : new RunbookError('INVENTORY_INVALID', 'This program cannot read the inventory.');
}

/**
 * What an approval rests on beside the plan: people, gates, clusters, hooks, how clients are kept still, what a snapshot is
 * taken before, and whom the ceremony asks. A plan names it, as base64url(SHA-256), and what it approves is not begun by
 * another inventory. Of the people those who have to do with this deployment.
 */
export function inventoryDigest(inventory: Inventory, deployment: string): string {
  const found = findDeployment(inventory, deployment);
  const { clusters, drSets, ceremony, gates, operators, laboratory, hooks, quiesce, snapshot } = found;
  const { holders, standBy, tokenProviders = [], groups } = ceremony;
  const named = new Set([...holders, ...standBy, ...tokenProviders]);
  const ofGates = Object.values(gates).flatMap((gate) => gate.groups);
  const counting = new Set([...ofGates, ...operators, ...groups.map(({ group }) => group)]);
  const concerned = [...inventory.people].filter(
    ([name, person]) => named.has(name) || person.groups.some((group) => counting.has(group)),
  );
  const rules = { clusters, drSets, ceremony, gates, operators, laboratory, hooks, snapshot, quiesce };
  const content = { people: new Map(concerned), ...rules };
  return createHash('sha256').update(JSON.stringify(content, inOrder), 'utf8').digest('base64url');
}

/** The order in which a file names its members says nothing. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const entries: [string, unknown][] =
    value instanceof Map ? [...(value as Map<string, unknown>)] : Object.entries(value);
  return Object.fromEntries(entries.toSorted(([one], [other]) => (one < other ? -1 : 1)));
}
