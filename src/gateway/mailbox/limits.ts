import { RunbookError } from '../../errors';
import { Budget } from '../budget';

/** A page asks every few seconds; a command sends about five requests. */
const OF_PERSON = { burst: 60, msEach: 1_000, atOnce: 8 };
const IN_ALL = { burst: 300, msEach: 50, atOnce: 64 };
const AGAIN_MS = 2_000;

/** The error of a gateway that has too much to do. */
export function busy(message: string): RunbookError {
  return new RunbookError('GATEWAY_UNAVAILABLE', message, {
    ...{ httpStatus: 429, retryAfterMs: AGAIN_MS, outcomeKnown: true },
    next: 'Nothing was done. Try again in some seconds.',
  });
}

/** How many requests pass: at once and in time, for each person and in all. */
export class Limits {
  readonly #ofPerson = new Budget(undefined, OF_PERSON.burst, OF_PERSON.msEach);
  readonly #inAll = new Budget(undefined, IN_ALL.burst, IN_ALL.msEach);
  /** Documents are recorded in histories, whose room is limited: fewer of them. */
  readonly #documents = new Budget();
  readonly #underWay = new Map<string, number>();
  #atOnce = 0;

  /**
   * Lets a request in.
   *
   * @returns to be called when it has ended
   * @throws RunbookError `GATEWAY_UNAVAILABLE`
   */
  enter(person: string): () => void {
    const ofPerson = this.#underWay.get(person) ?? 0;
    if (ofPerson >= OF_PERSON.atOnce) throw busy(`You have ${ofPerson} requests under way.`);
    if (this.#atOnce >= IN_ALL.atOnce) throw busy('The gateway has too many requests under way.');
    // First the person's: whoever sends too much must not use up what others share.
    if (!this.#ofPerson.take(person)) throw busy('You sent too many requests: at most one each second.');
    if (!this.#inAll.take('all')) throw busy('The gateway gets too many requests.');
    this.#underWay.set(person, ofPerson + 1);
    this.#atOnce += 1;
    let over = false;
    return () => {
      if (over) return;
      over = true;
      this.#atOnce -= 1;
      const left = (this.#underWay.get(person) ?? 1) - 1;
      if (left === 0) this.#underWay.delete(person);
      else this.#underWay.set(person, left);
    };
  }

  /** @throws RunbookError `GATEWAY_UNAVAILABLE` if the person sent too many documents */
  takeDocument(person: string): void {
    if (this.#documents.take(person)) return;
    throw busy('You sent too many documents: at most 20 at once, and then one every 10 s.');
  }
}
