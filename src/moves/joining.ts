import type { ReplicationKind } from '../contracts/runbook-inputs';
import { kindName } from './kinds';

/* A cluster without replication becomes a primary or a secondary. */

export const enablePrimary = (kind: ReplicationKind, cluster: string) =>
  `Enable ${cluster} as ${kindName(kind)} primary`;
export const enableSecondary = (kind: ReplicationKind, secondary: string, primary: string) =>
  `Enable ${secondary} as ${kindName(kind)} secondary of ${primary}`;
export const writeFirstFilter = (secondary: string, primary: string) =>
  `Write the paths filter of ${secondary} on ${primary}`;
export const issueToken = (id: string, primary: string) => `Issue an activation token for ${id} on ${primary}`;
export const waitConnected = (id: string, primary: string) => `Wait until ${id} is connected to ${primary}`;
export const followCopy = (secondary: string) => `Follow the initial copy of ${secondary}`;
export const checkCredential = (secondary: string) => `Check whether ${secondary} accepts a credential again`;
