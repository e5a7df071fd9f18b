import type { OnCluster } from './inputs';

/** A ceremony on one cluster, by the token that it makes. */
export type OnCeremony = OnCluster & { readonly kind: 'operation-token' | 'root-token' };

/** How a ceremony can go on. */
export interface CeremonyOpened {
  /** `open`: by the configuration of the cluster, so that it must be taken back. */
  readonly access: 'not-needed' | 'accepted' | 'open';
  readonly observed: string;
}

/** `closed`: a call without a token is refused. `unknown`: the cluster does not say now. */
export interface CeremonyClosed {
  readonly state: 'closed' | 'open' | 'unknown';
  readonly observed: string;
}

/**
 * The break-glass of version 2.0 and later (facts 5.6): where nothing in hand lets a ceremony in, people open its calls in
 * the configuration of the cluster, and close them again.
 */
export interface BreakGlassActivities {
  /** What people do at which node: the exact configuration and signal. Names no secret. */
  describeBreakGlass(
    input: OnCeremony,
  ): Promise<{ readonly open: readonly string[]; readonly close: readonly string[]; readonly observed: string }>;
  /** Waits until a credential is accepted, or the calls are open without one. */
  awaitCeremonyOpened(input: OnCeremony): Promise<CeremonyOpened>;
  /** One look, without a token. */
  checkCeremonyClosed(input: OnCeremony): Promise<CeremonyClosed>;
  /** Waits until a call without a token is refused; what was seen last where that does not happen in time. */
  awaitCeremonyClosed(input: OnCeremony): Promise<CeremonyClosed>;
}
