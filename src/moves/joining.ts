import type { ReplicationKind } from '../contracts/runbook-inputs';
import { teardownCommand } from './ending';
import { kindName, statusPath } from './kinds';
import type { Change } from './move';

/* A cluster without replication becomes a primary or a secondary. */

export const enableSecondary = (kind: ReplicationKind, secondary: string, primary: string) =>
  `Enable ${secondary} as ${kindName(kind)} secondary of ${primary}`;
export const writeFirstFilter = (secondary: string, primary: string) =>
  `Write the paths filter of ${secondary} on ${primary}`;
export const issueToken = (id: string, primary: string) => `Issue an activation token for ${id} on ${primary}`;
export const waitConnected = (id: string, primary: string) => `Wait until ${id} is connected to ${primary}`;
export const followCopy = (secondary: string) => `Follow the initial copy of ${secondary}`;
export const checkCredential = (secondary: string) => `Check whether ${secondary} accepts a credential again`;

/** A cluster without replication becomes a primary. Nothing on it is wiped. */
export function primaryEnabling(kind: ReplicationKind, cluster: string, deployment: string): Change {
  const undo = teardownCommand(deployment, kind, cluster);
  return {
    step: `Enable ${cluster} as ${kindName(kind)} primary`,
    ifUnknown: `${cluster} may have been made ${kindName(kind)} primary. Read its ${statusPath(kind)}. If it is primary and should not be: ${undo}.`,
    // Also if it was found enabled: the answer to an earlier attempt may have been lost.
    done: `${cluster} became ${kindName(kind)} primary and no secondary was connected to it. If it should not be primary: ${undo}.`,
  };
}
