import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { failureFacts } from './failures';

/** Key of the line about which cluster is primary. A new line replaces the old one. */
export const rolesOf = (kind: ReplicationKind) => `roles ${kind}` as const;

/**
 * What people have to do if the run ends now. A line is added before a change is ordered, and settled by its result, so that it
 * is there too if the run is ended from outside, at whatever point.
 */
export class LeftToDo {
  readonly #left = new Map<string, string>();

  /** @param about - key by which the line is replaced and settled; default: the text itself */
  add(text: string, about = text): void {
    this.#left.set(about, text);
  }

  settle(...about: readonly string[]): void {
    for (const each of about) this.#left.delete(each);
  }

  /**
   * Orders one change. If it is refused with certainty, the line from before applies again.
   *
   * @param unknown - the line while the outcome is not known; undefined: none for this key
   * @param afterwards - the line once the change is done
   */
  async during<T>(
    about: string,
    unknown: string | undefined,
    order: () => Promise<T>,
    afterwards?: string,
  ): Promise<T> {
    const before = this.#left.get(about);
    const leave = (text: string | undefined) => {
      if (text === undefined) this.settle(about);
      else this.add(text, about);
    };
    leave(unknown);
    let next = before;
    try {
      const result = await order();
      next = afterwards;
      return result;
    } catch (error) {
      if (failureFacts(error)?.outcomeKnown !== true) next = unknown;
      throw error;
    } finally {
      leave(next);
    }
  }

  /** All lines, those about the primary first. */
  get texts(): readonly string[] {
    const ofRoles = ([about]: readonly [string, string]) => about.startsWith('roles ');
    const all = [...this.#left];
    return [...all.filter(ofRoles), ...all.filter((each) => !ofRoles(each))].map(([, text]) => text);
  }
}
