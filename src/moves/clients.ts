import type { Move } from './move';

/* The clients of a primary: they write nothing while it is changed, and are directed to the new one. */

export const QUIESCE = 'Quiesce clients';
export const RELEASE = 'Release clients';
export const DIRECT = 'Direct clients to the new primary';
export const PROBE = "Probe the clients' address";

export const readQuotas = (cluster: string) => `Read the quotas of ${cluster}`;

/** What the deployment has for its clients. */
export interface ClientHooks {
  readonly traffic: boolean;
  readonly release: boolean;
  readonly probe: boolean;
}

/** How clients reach the new primary once it serves. */
export function directing(by: string, { traffic, release, probe }: ClientHooks): Move[] {
  return [
    ...(traffic ? [{ step: DIRECT }] : []),
    ...(by === 'quota' || (by === 'hook' && release) ? [{ step: RELEASE }] : []),
    ...(probe ? [{ step: PROBE, note: 'the first success ends the OUTAGE' }] : []),
  ];
}
