import { isRunbookError } from '../../../src/errors';
import { originOf } from '../../../src/client/addresses';
import type { ClusterAccess } from '../clusters';

/** Between two looks that far apart somebody may have led. */
const APART_MS = 5_000;
const LOOK_MS = 1_000;

/**
 * How long it was seen that no node of a cluster leads. No key share reaches an attempt then, and none is completed: an
 * election that takes long is no reason to fear for a token.
 */
export class LeaderlessTime {
  #lastAt: number | undefined;
  #totalMs = 0;

  get totalMs(): number {
    return this.#totalMs;
  }

  /** The attempt itself was seen: what was before is over. */
  reset(): void {
    this.#lastAt = undefined;
    this.#totalMs = 0;
  }

  /** To be called where the attempt could not be read. */
  async look(access: ClusterAccess, signal: AbortSignal): Promise<void> {
    const at = Date.now();
    const last = this.#lastAt;
    this.#lastAt = (await nobodyLeads(access, signal)) ? at : undefined;
    if (this.#lastAt !== undefined && last !== undefined && at - last <= APART_MS) this.#totalMs += at - last;
  }
}

/**
 * Every node says of itself that it does not lead, is sealed, or is not there; and none names a leader that was not asked,
 * as behind a load balancer. A node that does not answer in time may lead.
 */
async function nobodyLeads({ client, entry: { addresses } }: ClusterAccess, signal: AbortSignal): Promise<boolean> {
  const known = new Set(addresses.map(originOf));
  const opinions = await Promise.all(
    addresses.map((node) =>
      client.sys.leader({ node, signal, timeoutMs: LOOK_MS }).then(
        ({ haEnabled, isSelf, leaderAddress }) =>
          haEnabled && !isSelf && (leaderAddress === undefined || known.has(originOf(leaderAddress)))
            ? 'follows'
            : 'may lead',
        (error: unknown) => (isAway(error) ? 'away' : 'may lead'),
      ),
    ),
  );
  return opinions.includes('follows') && !opinions.includes('may lead');
}

function isAway(error: unknown): boolean {
  if (!isRunbookError(error)) throw error;
  const refused = error.code === 'UNREACHABLE' && error.message.includes('(ECONNREFUSED)');
  return refused || error.code === 'SERVICE_SEALED';
}
