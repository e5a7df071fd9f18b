import { keyShares } from '../contracts/words';
import type { Move } from './move';

/* Operation tokens: obtained before the steps that need them, and deleted at the end. */

export const INVITE = 'Invite the key holders';
export const ASK_FOR_TOKENS = 'Ask for operation tokens';
export const READ_ROLES = 'Read the roles';
export const DELETE_TOKENS = 'Delete the operation tokens';
export const DESTROY_KEYS = 'Destroy the ceremony keys';

export const generateToken = (cluster: string) => `Generate operation token on ${cluster}`;
export const generateRootToken = (cluster: string) => `Generate root token on ${cluster}`;
export const claimToken = (cluster: string) => `Claim the kept operation token of ${cluster}`;
export const verifyToken = (cluster: string) => `Verify the operation token of ${cluster}`;

/** What tokens of a run its plan is about. */
export interface Tokens {
  /** Where they come from; absent if the run needs none. */
  readonly source?: 'batch' | 'ceremony' | 'provided' | undefined;
  /** The cluster whose token the record keeps. */
  readonly kept?: { readonly cluster: string } | undefined;
  /** The cluster unseals itself: its holders have recovery key shares. */
  readonly recovery?: boolean | undefined;
  /** Every cluster whose token may be needed. */
  readonly clusters: readonly string[];
  /** And the other DR secondaries of the set that answer by then. */
  readonly andOthers?: boolean;
}

/** How people are asked for the tokens. */
export function asking({ source, kept, recovery, clusters, andOthers = false }: Tokens): Move[] {
  const asked = clusters.filter((each) => each !== kept?.cluster);
  if (source === undefined || source === 'batch' || (asked.length === 0 && !andOthers)) return [];
  const on = [...asked, ...(andOthers ? ['each other DR secondary that answers'] : [])].join(', ');
  return source === 'ceremony'
    ? [
        {
          step: INVITE,
          note: `for an operation token on ${on}, from the holders' ${keyShares(recovery)}`,
        },
      ]
    : [{ step: ASK_FOR_TOKENS, note: `people generate them on ${on}` }, { step: READ_ROLES }];
}

/** The record gives its token to this run alone, as soon as the plan is approved. */
export function claiming({ kept }: Tokens): Move[] {
  return kept ? [{ step: claimToken(kept.cluster) }] : [];
}

/** The token of one cluster, right before it is needed. */
export function obtaining({ source, kept }: Tokens, cluster: string): Move[] {
  if (kept?.cluster === cluster || source === 'provided') return [{ step: verifyToken(cluster) }];
  return source === 'ceremony' ? [{ step: generateToken(cluster) }] : [];
}

/** How it ends. Tokens that an earlier run could not delete are deleted too. */
export function disposing(tokens: Tokens): Move[] {
  if (tokens.source === undefined) return [];
  return [{ step: DELETE_TOKENS }, ...(asking(tokens).length > 0 ? [{ step: DESTROY_KEYS }] : [])];
}
