import type { Attested } from './run-facts';
import type { TokenUse } from './input-members';
import type { RunStatus, Waiting } from './run-status';
import { attestedName, escapeUntrusted } from './words';

/** What a token may be used for, after "to". */
const USE_WORDS: Readonly<Record<TokenUse | 'root-token.generate', string>> = {
  'dr.promote': 'promote it to DR primary',
  'dr.update-primary': 'point it to another primary',
  'dr.disable': 'DISABLE replication on it',
  'dr.reindex': 'reindex it',
  'dr.merkle-check': 'check its Merkle tree',
  'dr.operation-token.delete': 'delete that token again',
  'root-token.generate': 'do ANYTHING on it, without an end',
};

/** What people must not mistake where a run asks for tokens. */
export const GIVEN_AS_TOKEN =
  "Asked for: the TOKEN, generated with the service's own command line. Never a key share, never a root token";

const OF_HOLDERS: ReadonlySet<Waiting['for']> = new Set(['shares', 'rehearsal', 'action']);

/** For what, and on whose word, key holders are asked. What counts for them is the signed invitation, which says it too. */
export interface Asked {
  readonly kind: 'operation-token' | 'root-token' | 'rehearsal';
  /** None in a rehearsal. */
  readonly targets: readonly { readonly cluster: string; readonly uses: readonly (keyof typeof USE_WORDS)[] }[];
  readonly requestedBy: Attested;
  readonly reason: string;
  /** The token itself is asked for, which people generated with the command line of the service; never a key share. */
  readonly collects?: 'tokens' | undefined;
}

/** It in a few lines, each of one line whatever people wrote: clusters and uses, who asks, why. */
export function askedInWords({ kind, targets, requestedBy, reason, collects }: Asked): string[] {
  const token = kind === 'root-token' ? 'ROOT token' : 'DR operation token';
  const why = escapeUntrusted(reason).trim();
  return [
    ...targets.map(({ cluster, uses }) => `One ${token} on ${escapeUntrusted(cluster)}, to ${usesInWords(uses)}`),
    ...(collects ? [GIVEN_AS_TOKEN] : []),
    ...(kind === 'rehearsal' ? ['A rehearsal of tool, key and access: no token, and no key share'] : []),
    `Requested by ${requestedBy.how === 'claimed' ? `${escapeUntrusted(requestedBy.name)} (UNVERIFIED: ask that person)` : attestedName(requestedBy)}`,
    `Reason: ${why === '' ? 'none given' : why}`,
  ];
}

/** What a token is for, after "to"; each use once. */
export function usesInWords(uses: readonly (keyof typeof USE_WORDS)[]): string {
  return [...new Set(uses)].map((use) => USE_WORDS[use]).join('; ');
}

/** {@link askedInWords} while key holders are waited for, else nothing. */
export function askedNow({ asked, waiting }: Pick<RunStatus, 'asked' | 'waiting'>): string[] {
  return asked && waiting.some((each) => OF_HOLDERS.has(each.for)) ? askedInWords(asked) : [];
}
