import type { TokenSource } from '../../src/contracts/runbook-inputs';
import { Ceremony } from './ceremony';
import { ProvidedTokens } from './provided-tokens';
import type { Run } from '../engine/run';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Asks people for operation tokens: for key shares that make them, or for the tokens themselves; and shows what for. */
export function ceremonyFor(run: Run, source: Exclude<TokenSource, 'batch'>, request: CeremonyRequest): TokenCeremony {
  const { targets, requestedBy, reason } = request;
  const asked = {
    kind: 'operation-token',
    targets,
    requestedBy: { name: requestedBy, how: 'claimed' },
    reason,
  } as const;
  run.state.asked = source === 'provided' ? { ...asked, collects: 'tokens' } : asked;
  return source === 'provided' ? new ProvidedTokens(run, request) : new Ceremony(run, request);
}
