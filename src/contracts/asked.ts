import type { Attested } from './run-facts';
import type { TokenUse } from './inputs/common';
import type { RunStatus, Waiting } from './run-status';

/** What a token may be used for, after "to". */
export const USE_WORDS: Readonly<Record<TokenUse | 'root-token.generate', string>> = {
  'dr.promote': 'promote it to DR primary',
  'dr.update-primary': 'point it to another primary',
  'dr.disable': 'DISABLE replication on it',
  'dr.reindex': 'reindex it',
  'dr.merkle-check': 'check its Merkle tree',
  'dr.operation-token.delete': 'delete that token again',
  'root-token.generate': 'do ANYTHING on it, without an end',
};

const OF_HOLDERS: ReadonlySet<Waiting['for']> = new Set(['shares', 'rehearsal', 'action']);

/** For what, and on whose word, key holders are asked. What counts for them is the signed invitation, which says it too. */
export interface Asked {
  readonly kind: 'operation-token' | 'root-token' | 'rehearsal';
  /** None in a rehearsal. */
  readonly targets: readonly { readonly cluster: string; readonly uses: readonly (keyof typeof USE_WORDS)[] }[];
  readonly requestedBy: Attested;
  readonly reason: string;
}

/** It in a few lines, while key holders are waited for: clusters and uses, who asks, why. */
export function askedNow({ asked, waiting }: Pick<RunStatus, 'asked' | 'waiting'>): string[] {
  if (!asked || !waiting.some((each) => OF_HOLDERS.has(each.for))) return [];
  const { kind, targets, reason } = asked;
  const { name, how } = asked.requestedBy;
  const token = kind === 'root-token' ? 'ROOT token' : 'DR operation token';
  return [
    ...targets.map(
      ({ cluster, uses }) => `One ${token} on ${cluster}, to ${uses.map((use) => USE_WORDS[use]).join('; ')}`,
    ),
    ...(kind === 'rehearsal' ? ['A rehearsal of tool, key and access: no token, and no key share'] : []),
    `Requested by ${how === 'claimed' ? `${name} (UNVERIFIED: ask that person)` : `${name} (${how})`}`,
    `Reason: ${reason}`,
  ];
}
