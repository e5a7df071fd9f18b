/** Who must approve (the inventory's `GatePolicy` is one). */
interface GateRule {
  /** How many different people. */
  readonly approvals: number;
  /** Each of these groups must be among them; only their members count. */
  readonly groups: readonly string[];
  readonly excludeRequester: boolean;
}

/** A verified approval with its person's groups, from the inventory. */
export interface CountedApproval {
  readonly name: string;
  readonly groups: readonly string[];
  readonly verdict: 'approve' | 'reject';
}

/** Whether a gate opens, and what it still needs. */
interface GateEvaluation {
  readonly satisfied: boolean;
  /** What is missing, each in words for people; empty where the gate is satisfied or rejected. */
  readonly missing: readonly string[];
  /** Who rejected first. */
  readonly rejectedBy?: string;
  /** Who counted, in the order of arrival. */
  readonly approvedBy: readonly string[];
}

/**
 * Evaluates a gate's policy: `approvals` different people out of `groups`, every group represented (one person may
 * represent several), the requester not counted where excluded. A rejection by anyone who may approve closes the gate,
 * also by the requester and also after that person's own approval. Pure.
 *
 * @param requester name of the person who asked for the run.
 */
export function evaluateGate(
  policy: GateRule,
  requester: string | undefined,
  approvals: readonly CountedApproval[],
): GateEvaluation {
  const members = approvals.filter(({ groups }) => groups.some((group) => policy.groups.includes(group)));
  const excluded = policy.excludeRequester ? requester : undefined;
  const counted = new Map<string, CountedApproval>();
  for (const approval of members) {
    const counts = approval.verdict === 'approve' && approval.name !== excluded && !counted.has(approval.name);
    if (counts) counted.set(approval.name, approval);
  }
  const approvedBy = [...counted.keys()];

  const rejection = members.find(({ verdict }) => verdict === 'reject');
  if (rejection !== undefined) return { satisfied: false, missing: [], rejectedBy: rejection.name, approvedBy };

  const missing: string[] = [];
  const others = excluded === undefined ? '' : `, other than ${excluded}, who asked`;
  const lacking = policy.approvals - counted.size;
  if (lacking > 0) {
    missing.push(
      `${lacking} more ${lacking === 1 ? 'approval' : 'approvals'} out of ${policy.groups.join(', ')}${others}`,
    );
  }
  for (const group of policy.groups) {
    const represented = [...counted.values()].some(({ groups }) => groups.includes(group));
    if (!represented && policy.groups.length > 1) missing.push(`an approval by a member of ${group}${others}`);
  }
  return { satisfied: missing.length === 0, missing, approvedBy };
}
