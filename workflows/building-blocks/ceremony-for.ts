import { Ceremony } from './ceremony';
import type { Run } from './run';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** Asks the key holders for operation tokens, and shows what for. */
export function ceremonyFor(run: Run, request: CeremonyRequest): TokenCeremony {
  const { targets, requestedBy, reason } = request;
  run.state.asked = { kind: 'operation-token', targets, requestedBy: { name: requestedBy, how: 'claimed' }, reason };
  return new Ceremony(run, request);
}
