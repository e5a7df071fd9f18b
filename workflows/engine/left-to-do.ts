import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import { failureFacts } from './failures';

/** Who is primary: what is said of it replaces what was said before. */
export const rolesOf = (kind: ReplicationKind) => `roles ${kind}` as const;

/**
 * What people have to do where the run ends now. It is said before a change is ordered and settled by its result, so that
 * a run that is ended from outside, at whatever point, says it too.
 */
export class LeftToDo {
  readonly #left = new Map<string, string>();

  /** @param about - what it is replaced and settled by; the text itself where nothing more is said of the matter */
  add(text: string, about = text): void {
    this.#left.set(about, text);
  }

  settle(...about: readonly string[]): void {
    for (const each of about) this.#left.delete(each);
  }

  /**
   * Orders one change. Where it is refused for certain, what was left before is left still.
   *
   * @param unknown - what is left as long as nobody knows what became of it; nothing of the matter where it is undefined
   * @param afterwards - what is left once it is done
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

  /** All of it, who is primary first. */
  get texts(): readonly string[] {
    const ofRoles = ([about]: readonly [string, string]) => about.startsWith('roles ');
    const all = [...this.#left];
    return [...all.filter(ofRoles), ...all.filter((each) => !ofRoles(each))].map(([, text]) => text);
  }
}
