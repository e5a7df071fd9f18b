import type { SharesChoice } from '../../src/contracts/runbook-inputs';
import { Ceremony } from './ceremony';
import { DirectCeremony } from './direct-ceremony';
import type { Run } from './run';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/** How key shares reach the service in this run: as it was started, else as the deployment says. */
export function sharesOf(run: Run, { shares }: { readonly shares?: SharesChoice | undefined }): SharesChoice {
  return shares ?? run.state.site.shares ?? 'sealed';
}

/** The way from key shares to operation tokens that this run goes. */
export function ceremonyFor(
  run: Run,
  input: { readonly shares?: SharesChoice | undefined },
  request: CeremonyRequest,
): TokenCeremony {
  const { targets, requestedBy, reason } = request;
  run.state.asked = { kind: 'operation-token', targets, requestedBy: { name: requestedBy, how: 'claimed' }, reason };
  return sharesOf(run, input) === 'direct' ? new DirectCeremony(run, request) : new Ceremony(run, request);
}
