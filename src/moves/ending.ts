import type { ReplicationKind } from '../contracts/runbook-inputs';
import { kindName } from './kinds';

/* A replication role ends. No data is wiped. */

export const revoke = (secondary: string, primary: string) => `Revoke ${secondary} on ${primary}`;
export const verifyGone = (secondary: string) => `Verify that ${secondary} is gone`;
export const forgetPrimary = (secondary: string) => `Make ${secondary} forget its primary`;
export const disable = (kind: ReplicationKind, cluster: string) =>
  `Disable ${kindName(kind)} replication on ${cluster}`;
export const verifyDisabled = (cluster: string) => `Verify on every node of ${cluster} that it is disabled`;
