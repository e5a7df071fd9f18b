/**
 * What anybody outside of the service can know of the generation attempts of one order, from the calls that reached the
 * service. A token **may exist** that nobody holds where the last share of an attempt was sent and its answer was not heard:
 * a share that is under way may complete the attempt after any look. A service that
 * forgot the attempt for another reason looks the same from outside: such an alarm is no orphan, and only the simulator
 * knows it.
 */
import type { RecordedCall } from '../../src/simulator';
import { THRESHOLD } from './orders';

const GIVE = '/generate-operation-token/update';

/** Calls with a share. A node that is not active and may not pass it on leads on to the one that is, and takes nothing. */
export function givesOf(calls: readonly RecordedCall[]): RecordedCall[] {
  return calls.filter(
    ({ method, path, status, mayBePassedOn }) =>
      method === 'POST' && path.endsWith(GIVE) && (status !== 307 || mayBePassedOn),
  );
}

/**
 * An error that leaves open whether the share was taken: of a server, or of a standby that may have passed it on. 503
 * where nothing may be passed on: the service took nothing.
 */
function isOpen({ status, mayBePassedOn }: RecordedCall): boolean {
  return status === 503 || status === 307 ? mayBePassedOn : status >= 500;
}

export function textOf(body: RecordedCall['body'], name: 'nonce' | 'key'): string {
  const value = body[name];
  return typeof value === 'string' ? value : '';
}

/**
 * Nonces of the attempts of which a token may exist that nobody holds.
 *
 * @param unheard - numbers of the calls whose caller was dead when the answer came
 */
export function mayExist(calls: readonly RecordedCall[], unheard: ReadonlySet<number>): string[] {
  const heard = ({ seq, delivered }: RecordedCall) => delivered && !unheard.has(seq);
  const gives = givesOf(calls);
  const nonces = [...new Set(gives.map(({ body }) => textOf(body, 'nonce')))];
  return nonces.filter((nonce) => {
    const last = lastShares(gives.filter(({ body }) => textOf(body, 'nonce') === nonce));
    if (last.some((call) => heard(call) && call.attempt?.progress === THRESHOLD)) return false;
    return last.some((call) => !heard(call) || isOpen(call));
  });
}

/**
 * Nonces of the attempts that lacked their last share alone, and got none: a share that left for a node that was going away
 * is in no list of calls, and whoever sent it cannot tell.
 */
export function lackedTheLast(calls: readonly RecordedCall[]): string[] {
  const gives = givesOf(calls);
  const complete = gives
    .filter(({ attempt }) => attempt?.progress === THRESHOLD - 1)
    .map(({ body }) => textOf(body, 'nonce'));
  return complete.filter(
    (nonce) => lastShares(gives.filter(({ body }) => textOf(body, 'nonce') === nonce)).length === 0,
  );
}

/** Of the calls of one attempt those with a share that may complete it. */
function lastShares(gives: readonly RecordedCall[]): RecordedCall[] {
  const given = new Set<string>();
  return gives.filter(({ body }) => {
    const key = textOf(body, 'key');
    const others = new Set(given);
    others.delete(key);
    given.add(key);
    return others.size >= THRESHOLD - 1;
  });
}

/** One attempt takes each share once. */
export function givenTwice(gives: readonly RecordedCall[]): string[] {
  const taken = new Set<string>();
  return gives.flatMap(({ body, status }) => {
    const pair = `${textOf(body, 'nonce')} ${textOf(body, 'key')}`;
    const twice = taken.has(pair) ? ['a share was given again to an attempt that had taken it'] : [];
    if (status === 200) taken.add(pair);
    return twice;
  });
}
