import type { SharesChoice } from '../../src/contracts/runbook-inputs';
import { Ceremony } from './ceremony';
import { DirectCeremony } from './direct-ceremony';
import { stepFailure } from './failures';
import type { Run } from './run';
import type { CeremonyRequest, TokenCeremony } from './token-ceremony';

/**
 * How key shares reach the service in this run: as it was started, else as the deployment says.
 *
 * @throws ApplicationFailure PRECONDITION_FAILED for direct ones where the inventory wants them from groups
 */
export function sharesOf(run: Run, { shares }: { readonly shares?: SharesChoice | undefined }): SharesChoice {
  const { shareGroups, shares: usual = 'sealed' } = run.state.site;
  const chosen = shares ?? usual;
  if (chosen === 'sealed' || shareGroups === undefined) return chosen;
  throw stepFailure('PRECONDITION_FAILED', 'Groups of key holders cannot be checked in direct mode.', {
    observed: 'shares: direct, where nobody here sees who gave a share',
    needed: shareGroups,
    next: 'Start again with sealed shares, or take ceremony.groups out of the inventory.',
  });
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
