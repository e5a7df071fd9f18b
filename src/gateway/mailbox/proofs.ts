/** Who sends a request: each proves itself with the person's own key (docs/mailbox.md). */
import { durationText } from '../../contracts/words';
import { claimedHeader, DOCUMENT_TYPES, verifyDocument } from '../../documents/documents';
import { bodyDigest, REQUEST_SCHEME, REQUEST_WINDOW_S, requestPayload } from '../../documents/signed-request';
import { isRunbookError, RunbookError } from '../../errors';
import type { Inventory } from '../../inventory';
import { keyOfPerson } from '../../keys/people';
import { busy } from './limits';

/** A proof has some 700 characters. */
const MOST_CHARACTERS = 4_096;
/** A request may be this much younger or older than the gateway's clock says, so it is remembered for twice as long. */
const WINDOW_MS = REQUEST_WINDOW_S * 1_000;
const MOST_REMEMBERED = 20_000;

type Person = Inventory['people'] extends ReadonlyMap<string, infer P> ? P : never;

/** A request whose proof is valid. */
export interface Proven {
  readonly person: Person;
  /** Names the proof. */
  readonly id: string;
  /** When it was signed, in epoch milliseconds. */
  readonly at: number;
  /** Digest that the body must have. */
  readonly body: string;
}

interface ProofOptions {
  readonly people: () => Inventory['people'];
  /** Origins of this gateway. Empty: a request for any gateway counts. */
  readonly origins: readonly string[];
  /** For tests: epoch milliseconds. */
  readonly now?: (() => number) | undefined;
  /** For tests: how many requests are remembered. */
  readonly most?: number;
}

/** Judges proofs, and remembers those that were accepted: each counts once. */
export class Proofs {
  /** When a proof can be forgotten, the oldest first. */
  readonly #used = new Map<string, number>();

  constructor(private readonly options: ProofOptions) {}

  /**
   * @param authorization the header
   * @param path with the query, as it arrived
   * @throws RunbookError `REQUEST_REFUSED`
   */
  async verify(authorization: string | undefined, method: string, path: string): Promise<Proven> {
    const [scheme, jws = '', ...rest] = (authorization ?? '').split(' ');
    if (scheme !== REQUEST_SCHEME || jws === '' || rest.length > 0 || jws.length > MOST_CHARACTERS)
      throw refused('The request is not signed.', { needed: `the header "Authorization: ${REQUEST_SCHEME} ..."` });
    const { kid } = claimedHeader(jws);
    const person = [...this.options.people().values()].find(({ publicKeys }) =>
      publicKeys.some((key) => key.kid === kid),
    );
    if (person === undefined)
      throw refused('The request is signed with a key that the inventory lists for no person.', {
        needed: 'the key whose public line the inventory lists for you',
        next: 'Send the operators the line that `runbook join` printed, and try again when they have listed it.',
      });
    const { payload } = await verifyDocument(jws, DOCUMENT_TYPES.request, (id) => keyOfPerson(person, id)).catch(
      (error: unknown) => {
        throw isRunbookError(error) ? refused(error.message) : error;
      },
    );
    const { data } = requestPayload.safeParse(payload);
    if (data === undefined) throw refused('The request does not have the required members.');
    if (data.name !== person.name)
      throw refused('The request names another person than the one whose key signed it.', {
        next: 'Use your own name as the inventory lists it, or the key of that name.',
      });
    const { origins } = this.options;
    if (origins.length > 0 && !origins.includes(data.aud))
      throw refused('The request is signed for another gateway.', { needed: `the address ${origins.join(' or ')}` });
    if (data.method !== method || data.path !== path) throw refused('The request is signed for another call.');
    return { person, id: `${kid} ${data.jti}`, at: data.iat * 1_000, body: data.body };
  }

  /**
   * Uses a proof up. Must follow {@link verify} at once.
   *
   * @param enter - lets the request in, so that what is remembered is bounded by the limits; what it refuses was not used
   * @throws RunbookError `REQUEST_REFUSED` if its time has passed, or it was used before
   */
  useOnce<T>({ id, at }: Proven, enter: () => T): T {
    const { now = Date.now, most = MOST_REMEMBERED } = this.options;
    const time = now();
    if (Math.abs(time - at) > WINDOW_MS)
      throw refused(`The clocks of your device and of the gateway differ by ${durationText(Math.abs(time - at))}.`, {
        observed: `the request was signed at ${isoTime(at)}`,
        needed: `a time at most ${REQUEST_WINDOW_S} s from that of the gateway, ${isoTime(time)}`,
        next: 'Set the clock of your device if it is wrong. If it is right, tell the operators that the gateway has the wrong time.',
      });
    for (const [old, until] of this.#used) {
      if (until > time) break;
      this.#used.delete(old);
    }
    if (this.#used.has(id))
      throw refused('This request has already arrived.', {
        next: 'Sign it again. If you did not send it twice, somebody copied it: tell the operators.',
      });
    // Forgetting one that still counts would let it count twice.
    if (this.#used.size >= most) throw busy('The gateway gets too many requests.');
    const entered = enter();
    this.#used.set(id, time + 2 * WINDOW_MS);
    return entered;
  }
}

const isoTime = (ms: number): string => new Date(Math.min(Math.max(ms, 0), 8e15)).toISOString();

/** @throws RunbookError `REQUEST_REFUSED` if the body is not the one that was signed */
export function compareBody({ body }: Proven, arrived: Uint8Array): void {
  if (bodyDigest(arrived) !== body) throw refused('The body is not the one that was signed.');
}

function refused(
  message: string,
  {
    next = 'Sign the request again with `runbook` or the page.',
    ...more
  }: Partial<Record<'observed' | 'needed' | 'next', string>> = {},
): RunbookError {
  return new RunbookError('REQUEST_REFUSED', message, { httpStatus: 401, ...more, next });
}
