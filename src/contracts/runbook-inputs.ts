import { z } from 'zod';
import { EXPORT_KEY, keepForMs } from './ceremony';
import {
  activationForm,
  asked,
  askedForChange,
  clusterAddress,
  clusterName,
  deploymentName,
  outsideSecondary,
  pathsFilter,
  quiesceMethod,
  replicationKind,
  secondaryId,
  tokenSourceChoice,
  tokenUse,
} from './input-members';
import type { RunbookName } from './names';
import { controlPayload } from './payloads';

export * from './input-members';

const EXPORT_LESS = `Export the key without the signatures of others and without pictures: ${EXPORT_KEY}`;
const recipientKey = z.string().trim().min(1).max(20_000, EXPORT_LESS);
/** Members for a former primary that is back. */
const rejoining = {
  ...askedForChange,
  /** The former primary. */
  cluster: clusterName,
  /** The primary that serves now. Read if it is not given, compared if it is. */
  primary: clusterName.optional(),
};

/** Members for a planned change of the primary. */
const planned = {
  /** The maximum loss at which the change continues. Above it, the old primary, which has every write, is promoted back. */
  acceptLoss: z.enum(['none', 'bounded']).default('none'),
  /** How clients are quiesced. Default: as in the inventory. */
  quiesce: quiesceMethod.optional(),
};

/** Exactly one of the two is onboarded. */
const onboarded = {
  primary: clusterName,
  /** The cluster that is wiped. */
  secondary: clusterName.optional(),
  /** Instead: what another team wipes themselves, with an activation token that only they can use. */
  outside: outsideSecondary.optional(),
  form: activationForm.default('auto'),
};

/** Exactly one of two members is given. Arguments for `refine`. */
const exactlyOne = (one: string, other: string) => {
  const isGiven = (input: Readonly<Record<string, unknown>>) =>
    (input[one] === undefined) !== (input[other] === undefined);
  const mistake = { path: [one], message: `exactly one of "${one}" and "${other}" is needed` };
  return [isGiven, mistake] as const;
};

/** The schema of each runbook's one input object. */
export const RUNBOOK_INPUTS = {
  /** The input of `drSwitchover`: planned, both clusters answer, no data may be lost. */
  drSwitchover: z.strictObject({
    ...askedForChange,
    /** The DR secondary that becomes primary. */
    to: clusterName,
    /** The DR primary. Read from the service if it is not given, compared if it is. */
    from: clusterName.optional(),
    /** `required`: one person says go after the last check. `auto`: the approval of the plan is enough. */
    go: z.enum(['required', 'auto']).default('required'),
    /** What to do if the secondary cannot be promoted within its budget. */
    onStuck: z.enum(['promote-back', 'park']).default('promote-back'),
    ...planned,
    tokenSource: tokenSourceChoice.optional(),
    /** Accepts that the old primary stays out until it is upgraded, if the new primary's version is newer. */
    acknowledgeNewerSecondary: z.boolean().default(false),
  }),
  /** The input of `drFailover`: the primary is gone. */
  drFailover: z.strictObject({
    ...askedForChange,
    /** The DR secondary that becomes primary. Default: the one that is furthest ahead is proposed. */
    to: clusterName.optional(),
    /** The primary that is gone. Default: found from what its secondaries report. */
    from: clusterName.optional(),
    /**
     * Further members of the DR set that report nothing and could be the primary too, as far as can be seen. The approvers attest
     * that these serve nobody.
     */
    alsoGone: z.array(clusterName).max(20).optional(),
    /** Takes the lock over from a run that waits or is parked. That run becomes this failover. */
    takeOver: z.boolean().default(false),
    /** Who takes over: the `runbooks-control-v1` document that `runbook start drFailover --take-over` makes. */
    takeOverDocument: z.union([z.string().max(16_384), controlPayload]).optional(),
    /** How it is ensured that the old primary serves nobody: by the `fence` hook, or attested by the approvers. */
    fencing: z.enum(['auto', 'hook', 'attested']).default('auto'),
    tokenSource: tokenSourceChoice.optional(),
  }),
  /** The input of `drRejoin`: a former primary is back after a failover. */
  drRejoin: z.strictObject({ ...rejoining, tokenSource: tokenSourceChoice.optional() }),
  /** The input of `performanceRejoin`: a former performance primary is back after an unplanned promotion. */
  performanceRejoin: z.strictObject(rejoining),
  /** The input of `drSecondaryOnboarding`: a cluster without replication becomes a DR secondary. It is wiped. */
  drSecondaryOnboarding: z
    .strictObject({ ...askedForChange, ...onboarded })
    .refine(...exactlyOne('secondary', 'outside')),
  /** The input of `performanceSecondaryOnboarding`. The cluster is wiped. */
  performanceSecondaryOnboarding: z
    .strictObject({
      ...askedForChange,
      ...onboarded,
      /** What it must not see, or may only see: `inventory` takes what the inventory wants, `none` sends everything. */
      filter: z.union([z.enum(['inventory', 'none']), pathsFilter]).default('inventory'),
    })
    .refine(...exactlyOne('secondary', 'outside')),
  /** The input of `secondaryRepointing`: a secondary follows another primary. */
  secondaryRepointing: z
    .strictObject({
      ...askedForChange,
      kind: replicationKind,
      /** The primary that it follows from now on. */
      primary: clusterName,
      secondary: clusterName,
      /**
       * `token` always works: an activation token, encrypted if the secondary makes a key, otherwise wrapped. `public-key` and
       * `wrapped` require one of these. `addresses` is lighter, and not for a cluster that was demoted.
       */
      form: z.enum(['token', 'public-key', 'wrapped', 'addresses']).default('token'),
      /** With form `addresses`: where the primary is tried, in this order. Default: what is known about it. */
      addresses: z.array(clusterAddress).min(1).max(20).optional(),
      tokenSource: tokenSourceChoice.optional(),
    })
    .refine(({ form, addresses }) => addresses === undefined || form === 'addresses', {
      message: 'addresses need {"form": "addresses"}',
      path: ['addresses'],
    }),
  /** The input of `secondaryDecommission`: a secondary is cut off for good. */
  secondaryDecommission: z
    .strictObject({
      ...askedForChange,
      kind: replicationKind,
      primary: clusterName,
      /** The secondary, if the inventory knows it. */
      secondary: clusterName.optional(),
      /** Otherwise the id by which the primary knows it. */
      id: z.string().trim().min(1).max(200).optional(),
      /** What happens on the secondary once it is revoked. */
      afterwards: z.enum(['forget-primary', 'disable', 'nothing']).default('forget-primary'),
      tokenSource: tokenSourceChoice.optional(),
      /** Revokes it even if it is the only connected DR secondary. */
      acknowledgeLastSecondary: z.boolean().default(false),
    })
    .refine(...exactlyOne('secondary', 'id')),
  /** The input of `primaryEnablement`: a cluster without replication becomes primary. Nothing is wiped. */
  primaryEnablement: z.strictObject({
    ...askedForChange,
    kind: replicationKind,
    cluster: clusterName,
  }),
  /** The input of `replicationTeardown`: replication ends on a primary or a secondary. */
  replicationTeardown: z.strictObject({
    ...askedForChange,
    kind: replicationKind,
    cluster: clusterName,
    tokenSource: tokenSourceChoice.optional(),
  }),
  /** The input of `performancePromotion`: a performance secondary becomes the performance primary. */
  performancePromotion: z.strictObject({
    ...askedForChange,
    to: clusterName,
    /** The performance primary. Read if it is not given, compared if it is. */
    from: clusterName.optional(),
    /** `planned`: the old primary answers and is demoted first. `unplanned`: it is gone. */
    mode: z.enum(['planned', 'unplanned']).default('planned'),
    ...planned,
    /** Unplanned: promotes even if a usable DR secondary of the failed primary could be promoted instead. */
    overrideDrSecondary: z.boolean().default(false),
  }),
  /** The input of `filterReconciliation`: the paths filters become what is wanted. */
  filterReconciliation: z.strictObject({
    ...askedForChange,
    /** The performance primary. Read if it is not given. */
    primary: clusterName.optional(),
    /** What is wanted, by the name of the secondary. Default: the inventory's `pathsFilters`. */
    filters: z.record(clusterName, z.union([z.literal('none'), pathsFilter])).optional(),
    /** The same by id, for secondaries that are not clusters of the inventory. */
    ids: z.record(secondaryId, z.union([z.literal('none'), pathsFilter])).optional(),
  }),
  /** The input of `drReindex`: the Merkle tree of a DR secondary is rebuilt. */
  drReindex: z.strictObject({
    ...askedForChange,
    cluster: clusterName,
    /** Only compares, and repairs what differs. */
    diff: z.boolean().default(false),
    /** Reindexes even if a reindex is not needed, or is under way. */
    force: z.boolean().default(false),
    /** Skips the flush of the tree to storage. This is faster, and must never be interrupted. */
    skipFlush: z.boolean().default(false),
    tokenSource: tokenSourceChoice.optional(),
  }),
  /** The input of `merkleCheck`: whether the Merkle tree of a DR secondary is sound. */
  merkleCheck: z.strictObject({
    ...askedForChange,
    cluster: clusterName,
    tokenSource: tokenSourceChoice.optional(),
  }),
  /** The input of `walSampler`: records WAL indexes, lag and canary age. Meant for a Temporal Schedule. */
  walSampler: z
    .strictObject({
      deployment: deploymentName,
      /** How many samples one run takes. Its result has all of them, some 300 bytes per cluster. */
      samples: z.int().min(1).max(200).default(12),
      /** Seconds between two samples. */
      everySeconds: z.number().min(0.1).max(3_600).default(5),
    })
    .refine(({ samples, everySeconds }) => samples * everySeconds <= 18_000, {
      path: ['samples'],
      message: 'all samples of a run must fit into 5 hours; a Schedule starts the next run',
    }),
  /** The input of `readiness`: whether a switchover and a failover would start now. Meant for a Temporal Schedule too. */
  readiness: z.strictObject({ deployment: deploymentName }),
  /** The input of `deploymentStatus`: each cluster as it is now. `runbook status` starts it where no run is open. */
  deploymentStatus: z.strictObject({ deployment: deploymentName }),
  /** The input of `operationTokenCeremony`: one operation token for one cluster, for a later run or for a person. */
  operationTokenCeremony: z
    .strictObject({
      ...askedForChange,
      cluster: clusterName,
      uses: z.array(tokenUse).min(1),
      /** The PGP public key (base64 of the binary key) of the person who gets the token. Only that person can read it. */
      recipient: recipientKey.optional(),
      /** How long the record keeps the token, sealed, for the next drSwitchover or drFailover, such as `12h`; at most `7d`. */
      keepFor: z
        .string()
        .refine((text) => keepForMs(text) !== undefined, 'must be a duration such as 90m, 12h or 2d, at most 7 days')
        .optional(),
    })
    .refine(...exactlyOne('keepFor', 'recipient')),
  /** The input of `operationTokenDisposal`: the tokens in the record are deleted, and it is proven that they are refused. */
  operationTokenDisposal: z.strictObject({
    ...askedForChange,
    /** Only the tokens of this cluster. Default: of every cluster of the deployment. */
    cluster: clusterName.optional(),
    /** A person holds a token of this cluster and gives it to the run, which deletes it. Nothing else is done then. */
    provided: clusterName.optional(),
    /** Orphans to remove from the record, by their numbers in the plan of a dry run. Nothing else is done then. */
    forget: z.array(z.int().min(1)).min(1).max(20).optional(),
  }),
  /** The input of `rootTokenCeremony`: a root token of one cluster from the holders' key shares (`sys/generate-root`). */
  rootTokenCeremony: z.strictObject({
    ...askedForChange,
    cluster: clusterName,
    /** The PGP public key (base64 of the binary key) of the person who gets the token. Only that person can read it. */
    recipientPgpKey: recipientKey,
  }),
  /**
   * The input of `ceremonyRehearsal`: every holder goes through the complete ceremony once, with a value that means nothing. It
   * calls no service.
   */
  ceremonyRehearsal: z.strictObject({
    ...asked,
    /** Only these people. Default: every holder and stand-by holder. */
    holders: z.array(z.string().trim().min(1).max(100)).min(1).optional(),
    /** How long the run waits for them, such as `2d`. */
    collectFor: z
      .string()
      .regex(/^([1-9]\d{0,3}[smh]|([1-9]|[12]\d|30)d)$/, 'a duration such as 30m, 12h or 2d, at most 30 days')
      .default('1d'),
  }),
  /** The input of `batchTokenRotation`: a new batch token for DR operations, created on the primary and stored in the record. */
  batchTokenRotation: z.strictObject({
    ...askedForChange,
    /** The DR set whose primary creates the token. Needed if the deployment has several. */
    drSet: z.string().trim().min(1).optional(),
    /** `due`: only if less than half of the current token's life is left, or it cannot be used. For Schedules. */
    when: z.enum(['now', 'due']).default('now'),
  }),
} as const satisfies Readonly<Record<RunbookName, z.ZodType>>;

export type InputOf<R extends RunbookName> = z.infer<(typeof RUNBOOK_INPUTS)[R]>;

/** Maximum number of reported mistakes, and of letters of a name, so that the report of an input stays small enough to be an error. */
const MAX_REPORTED = { mistakes: 20, letters: 100 };

/** The mistakes of an input, field by field, as text of ours. Names fields and what they accept, and quotes no value. */
export function inputMistakes({ issues }: z.ZodError): string[] {
  const nameOf = (path: readonly PropertyKey[]) => path.join('.').slice(0, MAX_REPORTED.letters);
  const mistakes = issues.flatMap((issue) => {
    const name = nameOf(issue.path) || 'the input';
    const missing = issue.message.endsWith('received undefined') || (issue.code === 'too_small' && issue.minimum === 1);
    if (missing) return [`${name} is required`];
    switch (issue.code) {
      case 'unrecognized_keys':
        return issue.keys.map((key) => `${nameOf([...issue.path, key])} is not a known field`);
      case 'invalid_type':
        return [`${name}: must be ${TYPE_WORDS[issue.expected] ?? issue.expected}`];
      case 'invalid_value':
        return [`${name} must be one of ${issue.values.join(', ')}`];
      case 'too_small':
        return [`${name}: at least ${issue.minimum}${issue.origin === 'string' ? ' characters' : ''}`];
      case 'too_big': {
        const most = `at most ${issue.maximum}${issue.origin === 'string' ? ' characters' : ''}`;
        return [`${name}: ${most}${issue.message === EXPORT_LESS ? `. ${EXPORT_LESS}` : ''}`];
      }
      default:
        return [`${name}: ${issue.message}`];
    }
  });
  return mistakes.slice(0, MAX_REPORTED.mistakes);
}

/** Types of members, as zod and JSON Schema call them. */
export const TYPE_WORDS: Readonly<Record<string, string>> = {
  string: 'text',
  boolean: 'true or false',
  number: 'a number',
  int: 'a whole number',
  integer: 'a whole number',
  array: 'a list',
  object: 'an object',
};
