import type { GateName } from '../contracts/gates';
import type { AllowedOperation, RunbookPlan } from '../contracts/payloads';
import { kindName } from './kinds';

/** The operations of a plan that one gate opens. If the plan has gate `go`, it opens once more what gate `plan` opened. */
function allowedAt(gate: string, { operations }: Pick<RunbookPlan, 'operations'>): readonly AllowedOperation[] {
  const first: string = gate === ('go' satisfies GateName) ? ('plan' satisfies GateName) : gate;
  return operations.filter((each) => each.gate === first);
}

/** What an approval of one gate allows, as sentences: nothing that another gate opens. */
export function allowedText(gate: string, plan: Pick<RunbookPlan, 'operations'>): Allowed {
  const allowed = allowedAt(gate, plan);
  if (allowed.length === 0) return { title: `Approving gate "${gate}" allows no change by itself`, operations: [] };
  const title = `Approving gate "${gate}" allows this run to do only the following`;
  return { title, operations: allowed.map((each) => operationText(each, plan)) };
}

export interface Allowed {
  readonly title: string;
  readonly operations: readonly string[];
}

/** What people allow, as the end of a sentence that begins "The approval allows to". */
function operationText(operation: AllowedOperation, plan: Pick<RunbookPlan, 'operations'>): string {
  const {
    kind = 'dr',
    endpoint,
    gate,
    on: { cluster },
    with: other,
    detail,
  } = operation;
  const about = detail === undefined ? '' : ` (${detail})`;
  const primary = other?.cluster ?? 'its primary';
  switch (endpoint) {
    case 'primary/enable':
      return `enable ${cluster} as ${kindName(kind)} primary`;
    case 'primary/demote':
      return `demote ${cluster}`;
    case 'primary/disable':
    case 'secondary/disable':
      return `disable ${kindName(kind)} replication on ${cluster}${about}`;
    case 'primary/secondary-token':
      return `issue an activation token on ${cluster}${about}`;
    case 'primary/revoke-secondary':
      return `revoke ${other?.cluster ?? 'a secondary'} on ${cluster}${about}`;
    case 'primary/paths-filter':
      return `write the paths filter${other ? ` of ${other.cluster}` : ''} on ${cluster}${about}`;
    case 'secondary/enable':
      return `enable ${cluster} as ${kindName(kind)} secondary of ${primary}, which WIPES it${about}`;
    case 'secondary/promote':
      if (gate === 'force') return `promote ${cluster} by force${about}`;
      return `promote ${cluster}${isDemoted(cluster, plan) ? ` again, if ${otherSide(operation, plan)} does not get there` : ''}`;
    case 'secondary/update-primary':
      if (!other) return `make ${cluster} forget its primary`;
      return `point ${cluster} at ${primary}${about}${isDemoted(primary, plan) ? ', in that case' : ''}`;
    case 'secondary/reindex':
      return `reindex ${cluster}${about}`;
    case 'quotas/rate-limit':
      return `refuse all clients of ${cluster} by a rate-limit quota`;
    case 'hook/fence':
      return `fence ${cluster} by the hook`;
    case 'hook/unfence':
      return `unfence ${cluster}, by the hook if there is one`;
    case 'root-token/generate':
      return `generate a root token on ${cluster}, encrypted to ${detail ?? 'its recipient'}`;
    case 'operation-token/hand-over':
      return `generate an operation token on ${cluster}, encrypted to ${detail ?? 'its recipient'}`;
    case 'operation-token/take':
      return `use the operation token of ${cluster} that the record keeps`;
    case 'record/forget-token':
      return `remove an orphan of ${cluster} from the record${about}`;
  }
}

/** Whether the plan demotes this cluster. What makes it primary again is the way back. */
function isDemoted(cluster: string, { operations }: Pick<RunbookPlan, 'operations'>): boolean {
  return operations.some(({ endpoint, on }) => endpoint === 'primary/demote' && on.cluster === cluster);
}

/** The cluster that becomes primary instead. */
function otherSide({ on }: AllowedOperation, { operations }: Pick<RunbookPlan, 'operations'>): string {
  const promotion = operations.find(
    ({ endpoint, on: next }) => endpoint === 'secondary/promote' && next.cluster !== on.cluster,
  );
  return promotion?.on.cluster ?? 'the new primary';
}
