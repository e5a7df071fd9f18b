import { z } from 'zod';
import {
  activationForm,
  clusterAddress,
  clusterName,
  deploymentName,
  outsideSecondary,
  replicationKind,
  RUNBOOK_INPUTS,
  tokenUse,
} from '../src/contracts/runbook-inputs';
import type { RunbookName } from '../src/contracts/names';
import { RUNBOOK_NAMES, SNAPSHOT_EVENTS } from '../src/contracts/names';
import { CONTROL_ACTIONS } from '../src/contracts/signals';
import { GATE_NAMES } from '../src/contracts/gates';
import { RunbookError } from '../src/errors';

const MOST = 1_000;
/** Signal numbers in one call: a run that is flooded with signals passes many. */
const MOST_ARRIVALS = 100_000;
const text = (most: number) => z.string().max(most);
const list = <T extends z.ZodType>(of: T, most = MOST) => z.array(of).max(most);
const positive = z.int().min(1);
const walIndex = z.string().regex(/^\d{1,20}$/, 'must be a WAL index in decimal digits');
/** A value that becomes part of an API path: the id of a secondary. */
const pathPart = z.string().regex(/^(?!\.{1,2}$)[^\s/\\?#%]{1,200}$/, 'must be a single path segment');
const person = text(200);
const digest = text(200);
const cid = z.uuid();
/** Verified by its own contents wherever it is used. */
const verified = z.looseObject({});
const paths = z.looseObject({ paths: list(text(1_000), 10_000).optional() });
const filterState = z.union([z.literal('none'), paths]);
const count = z.int().min(0).max(1_000_000);
const authority = z.looseObject({
  plan: z.looseObject({ text: text(1_000_000), digest }),
  approvals: z.partialRecord(z.enum(GATE_NAMES), list(positive)),
});
const ownAttempt = z.looseObject({ id: z.uuid(), mark: text(20), nonceDigest: text(100), set: list(positive) });
const ceremony = z.looseObject({
  cid,
  epoch: positive.optional(),
  threshold: positive.max(255).optional(),
  holders: list(person).optional(),
});

/** The same schema for several names. */
function all<T extends z.ZodType, N extends string>(type: T, ...names: readonly N[]) {
  return Object.fromEntries(names.map((name) => [name, type])) as Readonly<Record<N, T>>;
}

/**
 * One schema for each member of all activity inputs. A name means the same in all of them. If one is missing here,
 * `index.ts` does not compile. The types say which members are required; an activity checks what it cannot do without.
 */
export const INPUT_MEMBERS = {
  ...all(z.boolean(), 'calledBefore', 'former', 'late', 'mayBeSent', 'wayBack'),
  ...all(z.number().min(0).max(3_600_000), 'everyMs'),
  ...all(clusterName, 'cluster', 'credentialOf', 'from', 'newPrimary', 'oldPrimary', 'otherCluster', 'primary'),
  ...all(clusterName, 'secondary', 'to'),
  ...all(text(20), 'collectFor', 'keepFor'),
  ...all(text(200), 'drSet', 'ownFingerprint', 'requestedBy', 'runId'),
  ...all(text(100), 'runbook'),
  ...all(list(positive), 'held', 'shares'),
  ...all(z.looseObject({}), 'input', 'report'),
  ...all(digest, 'inputDigest', 'planDigest'),
  ...all(count, 'lost', 'tried'),
  ...all(verified, 'notification', 'token'),
  ...all(walIndex, 'reached', 'walBefore'),
  accepted: list(positive),
  addresses: list(clusterAddress, 20),
  action: z.enum(CONTROL_ACTIONS),
  alsoGone: list(clusterName, 20),
  arrived: list(positive, MOST_ARRIVALS),
  attempt: ownAttempt,
  attempts: list(ownAttempt),
  before: list(z.looseObject({ name: person })),
  by: z.enum(['token', 'addresses']),
  collects: z.literal('tokens'),
  deployment: deploymentName,
  entry: z.uuid(),
  epoch: positive.max(999_999_999),
  epochBefore: z.number().min(0),
  event: z.enum(SNAPSHOT_EVENTS),
  expected: paths.extend({ filter: filterState.optional() }),
  filter: filterState,
  form: activationForm,
  gate: z.enum(GATE_NAMES),
  given: z.unknown(),
  holders: list(person),
  // The other hooks are not an input: activities of their own run them and verify the approval.
  hook: z.enum(['quiesce', 'traffic', 'release']),
  id: pathPart,
  kind: z.enum(['dr', 'performance', 'operation-token', 'root-token']),
  metWith: list(digest),
  mode: z.enum(['planned', 'unplanned', 'forced']),
  options: z.looseObject({ diff: z.boolean(), force: z.boolean(), skipFlush: z.boolean() }),
  outside: outsideSecondary,
  parked: list(z.looseObject({ step: text(1_000), parkingNo: positive, choices: list(text(100)) })),
  quotas: z.looseObject({ exempt: list(text(1_000)) }),
  reason: text(2_000),
  recipientPgpKey: text(20_000),
  rejected: list(list(positive)),
  role: z.enum(['primary', 'secondary']),
  samples: positive.max(200),
  secondaries: list(clusterName),
  signals: list(z.looseObject({ signal: text(200), arrival: positive }), MOST_ARRIVALS),
  targets: list(z.looseObject({ cluster: clusterName, uses: list(tokenUse) })),
  tokens: list(verified),
  workflowId: text(1_000),
  authority,
  ceremony,
  cid,
  marker: z.looseObject({
    place: z.strictObject({ mount: text(1_000), path: text(1_000), version: z.literal([1, 2]) }),
    value: text(200),
    wal: walIndex,
  }),
  wanted: z.looseObject({
    kind: z.enum(['operation-token', 'root-token']),
    uses: list(tokenUse).optional(),
    recipientPgpKey: text(20_000).optional(),
    authority: authority.optional(),
  }),
} as const satisfies Readonly<Record<string, z.ZodType>>;

const anyInput = z.looseObject(INPUT_MEMBERS).partial();
const ofKind = anyInput.extend({ kind: replicationKind });
/** A DR secondary accepts no change without an operation token. */
const onSecondary = ofKind.refine(({ kind, token }) => kind !== 'dr' || token !== undefined, {
  path: ['token'],
  message: 'required for a DR secondary',
});
/** A performance secondary follows no primary unless its expected filter is given. */
const hasFilter = ({ kind, expected }: { readonly kind: string; readonly expected?: unknown }) =>
  kind === 'dr' || z.object({ filter: z.unknown() }).safeParse(expected).data?.filter !== undefined;
const filterNeeded = { path: ['expected'], message: 'required for a performance secondary' };
/** Activities that work for both kinds of replication. If one is missing here, `index.ts` does not compile. */
export const OF_KIND = {
  ...all(ofKind, 'awaitReplicationDisabled', 'awaitRole', 'awaitSecondaryGone', 'awaitServiceReady', 'proveWrite'),
  ...all(ofKind, 'checkFormerPrimaryDemoted', 'compareAfterDemotion', 'compareMerkleRoots', 'demotePrimary'),
  ...all(ofKind, 'disablePrimary', 'enablePrimary', 'awaitOutsideSecondary', 'followBootstrap'),
  ...all(ofKind, 'quiesceByQuota', 'revokeSecondary', 'unfenceFormerPrimary', 'writeMarker'),
  ...all(onSecondary, 'disableSecondary', 'forgetPrimary', 'promoteSecondary'),
  ...all(ofKind.refine(hasFilter, filterNeeded), 'enableSecondary', 'issueOutsideToken'),
  updatePrimary: onSecondary.refine(hasFilter, filterNeeded),
} as const satisfies Readonly<Record<string, z.ZodType>>;
/** The activity that assesses a runbook is named after it. It receives the input as the run has read it. */
const assessing = (runbook: RunbookName) => `assess${runbook.replace(/^./, (first) => first.toUpperCase())}`;
const ofRunbook = (name: string, runbook: RunbookName) =>
  [name, anyInput.extend({ input: RUNBOOK_INPUTS[runbook] })] as const;
const schemas = new Map<string, z.ZodType>([
  ...Object.entries(OF_KIND),
  // The input of these is a deployment only.
  ...RUNBOOK_NAMES.filter((name) => name !== 'readiness' && name !== 'deploymentStatus').map((name) =>
    ofRunbook(assessing(name), name),
  ),
  ofRunbook('requestTakeOver', 'drFailover'),
]);
// Without a filter, the existing one would be deleted.
schemas.set('writePathsFilter', anyInput.required({ filter: true }));
schemas.set(
  'sampleWal',
  anyInput
    .required({ deployment: true, samples: true, everyMs: true })
    .refine(({ samples, everyMs }) => samples * everyMs <= 5 * 3_600_000, {
      path: ['samples'],
      message: 'all samples of a run must fit into 5 hours',
    }),
);

/**
 * Refuses an input that has the wrong shape, numbers or lists beyond the limits of an activity, or names that could
 * change a path. The input itself is passed on unchanged.
 *
 * @throws RunbookError INVALID_INPUT, which names members and quotes no values
 */
export function checkInput(activity: string, input: unknown): void {
  const parsed = (schemas.get(activity) ?? anyInput).safeParse(input);
  if (parsed.success) return;
  const problems = parsed.error.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join('.') || 'input'}: ${message}`);
  throw new RunbookError('INVALID_INPUT', 'This activity received an input that this program never sends.', {
    observed: problems.join('; '),
    needed: 'an input from a run of this version',
    next: 'Nothing was done. If a run of this program sent it, the run and the worker have different versions.',
  });
}
