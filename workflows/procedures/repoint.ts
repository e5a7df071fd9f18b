import { ifFilterUnknown } from '../../src/moves/records';
import type { ReplicationKind } from '../../src/contracts/runbook-inputs';
import {
  compareFilters,
  compareRoots as compareRootsStep,
  pointing,
  readFilter,
  waitFollows,
  waitStreams,
  writeFilter as writeFilterStep,
  writeFilterAgain,
} from '../../src/moves/following';
import type { RunbookActivities } from '../../activities';
import type { Authority, ExpectedFilter, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { OperationTokens } from './operation-tokens';
import { followingOf, pointingOf } from './roles';

export const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: service stays up, and the report lists what is not re-protected yet',
};

/** A secondary that should follow a primary. */
interface RepointTarget {
  readonly deployment: string;
  readonly primary: string;
  readonly secondary: string;
  /** From a plan that allows this. */
  readonly authority: Authority;
  /** For a plan of its own, whose gate may be opened again. Approvals never grow too old for what follows a promotion or a rejoin. */
  readonly begin?: BeginApproved;
}

/** Runs what begins something, as `Approvals.begin` does for one gate. */
export type BeginApproved = <T>(carryOut: (authority: Authority) => Promise<T>) => Promise<T>;

/**
 * Makes `secondary` follow `primary` as DR secondary: operation token, update-primary, and proof that it streams. By
 * activation token, unless people chose addresses, which a demoted cluster does not accept. No data is wiped.
 *
 * @returns whether it streams; false if people skipped it
 */
export async function repointDrSecondary(
  run: Run,
  tokens: OperationTokens,
  target: RepointTarget,
  way: UpdateWay = { form: 'token' },
): Promise<boolean> {
  const { deployment, primary, secondary } = target;
  const effect = `${secondary} stays without a primary; point it at ${primary} later with an activation token`;
  if (!(await tokens.ofUnlessSkipped(secondary, effect))) return false;
  const how = async () => ({ kind: 'dr', ...parametersOf(way), token: await tokens.of(secondary) }) as const;
  if (!(await point(run, target, { kind: 'dr', way, effect }, how))) return false;
  const streaming = await run.skippableStep(
    waitStreams(secondary, primary),
    `unknown at the end of this run whether ${secondary} catches up`,
    (call) => call.awaitDrStreaming({ deployment, primary, secondary }),
    {
      choices: [STOP_HERE],
      arrives: (call) => call.awaitDrStreaming({ deployment, primary, secondary, late: true }),
    },
  );
  if (!streaming) return false;
  run.state.notifications.protectedAgain(secondary, primary);
  run.state.left.settle(followingOf(secondary));
  return true;
}

type UpdatePrimary = Parameters<RunbookActivities['updatePrimary']>[0];

/** Public key, activation token and update-primary, or addresses alone, in one activity. */
async function point(
  run: Run,
  { deployment, primary, secondary, authority: given, begin = (carryOut) => carryOut(given) }: RepointTarget,
  { kind, way: { form }, effect }: { readonly kind: ReplicationKind; readonly way: UpdateWay; readonly effect: string },
  how: () => Promise<Omit<UpdatePrimary, keyof RepointTarget>>,
): Promise<boolean> {
  const { step, ifUnknown } = pointing(kind, secondary, primary, form);
  const pointed = await run.skippableStep(
    step,
    effect,
    (call) =>
      begin(async (authority) => {
        const parameters = await how();
        const order = () => call.updatePrimary({ deployment, primary, secondary, authority, ...parameters });
        return run.state.left.during(pointingOf(secondary), ifUnknown, order);
      }),
    { choices: [STOP_HERE] },
  );
  return pointed !== undefined;
}

/** How a secondary is pointed at a primary. */
interface UpdateWay {
  /** By addresses it keeps its id, and with it the key of its filter. If it was demoted, or never followed, it needs a token. */
  readonly form: 'token' | 'addresses';
  /** How the activation token leaves the primary. Default: `auto`. */
  readonly activation?: 'auto' | 'public-key' | 'wrapped';
  /** Addresses that people gave. Default: those known of the primary. */
  readonly addresses?: readonly string[] | undefined;
}

function parametersOf({ form, activation, addresses }: UpdateWay) {
  return form === 'token' ? { by: form, form: activation } : { by: form, addresses };
}

/** How a performance secondary is pointed at a primary. */
interface PerformanceWay extends UpdateWay {
  /** The filter that it must have, if an approved plan says so. Otherwise it is read on the primary. */
  readonly known?: KnownFilter;
}

/**
 * Points a performance secondary at a primary. By token, its paths filter is written first, under the id that it will have, so
 * that what was filtered never leaves. It is verified again after update-primary, which may drop it. By addresses, nothing is
 * written: the primary keeps the filter under the id that the secondary has.
 *
 * @returns whether it follows with its filter; false if people skipped a step or it did not follow
 */
export async function repointPerformanceSecondary(
  run: Run,
  target: RepointTarget,
  { known, ...way }: PerformanceWay,
): Promise<boolean> {
  const { deployment, primary, secondary } = target;
  const { form } = way;
  const found = known ?? (await readFilterOf(run, target));
  if (!found) return false;
  const { filter } = found;
  const before = form === 'addresses' ? 'kept' : await writeFilter(run, target, found, 'before');
  if (before === undefined) return false;
  const owed = form === 'token' && filter ? owing(run, target, { id: found.id, filter }) : undefined;
  const expected: ExpectedFilter = { filter: filter ?? 'none' };
  const again = form === 'token' ? '' : '; re-point it by token';
  const effect = `${secondary} keeps looking for the old primary${again}`;
  const how = () => Promise.resolve({ kind: 'performance', ...parametersOf(way), expected } as const);
  const pointed = await point(run, target, { kind: 'performance', way, effect }, how);
  const after = form === 'token' ? await writeFilter(run, target, found, 'after') : before;
  owed?.isSettled();
  if (form === 'token' && after === 'done') reportMissingFilter(run, target);
  if (!pointed) return false;
  const follows = await seenFollowing(run, deployment, primary, [secondary], waitFollows(secondary));
  const equal = await sameFilterOnBothSides(run, target, found);
  const isDone = follows?.has(secondary) === true && after !== undefined && equal;
  if (isDone) run.state.left.settle(followingOf(secondary));
  return isDone;
}

/**
 * From here on update-primary may drop the filter. If the run ends before the filter is in place again, for whatever reason,
 * its clean-up writes it. A run that is ended from outside leaves a line in what is left to do.
 */
function owing(run: Run, target: RepointTarget, known: { readonly id: string; readonly filter: PathsFilterFacts }) {
  const { deployment, primary, secondary, authority } = target;
  const { id, filter } = known;
  const reason = `update-primary may have dropped the filter of ${secondary}`;
  const wanted = { deployment, primary, filters: { [secondary]: filter }, reason };
  const again = nextCommandOf.start('filterReconciliation', wanted);
  const text = `The paths filter of ${secondary} may be gone from ${primary} since update-primary. Until it is back, ${secondary} receives data that it must not have. Run at once: \`${again}\`.`;
  run.state.left.add(text, filterOf(id));
  let isOpen = true;
  run.onEnd(async () => {
    if (!isOpen) return;
    await run.cleanUp(writeFilterAgain(secondary), async (call) => {
      const written = { deployment, cluster: primary, secondary, id, filter, authority };
      const { outcome } = await changingFilter(run, written, () => call.writePathsFilter(written));
      if (outcome === 'done') reportMissingFilter(run, target);
    });
  });
  return { isSettled: () => (isOpen = false) };
}

function reportMissingFilter(run: Run, { primary, secondary }: RepointTarget): void {
  run.state.finding({
    severity: 'warning',
    code: 'paths-filter-was-missing',
    text: `The paths filter of ${secondary} was not on ${primary} after update-primary and was written again. In between, ${secondary} may have received data that it must not have.`,
    next: `Check on ${secondary} that the filtered data is gone. The service removes it there once the filter is in force.`,
  });
}

/** Key of the left-to-do line that a paths filter may be wrong. */
const filterOf = (id: string) => `filter of ${id}`;

/** Points a secondary of either kind as an approved plan says: with the tokens of a DR secondary, or the filter of a performance one. */
export function repointAsPlanned(
  run: Run,
  target: RepointTarget,
  tokens: OperationTokens | undefined,
  known: KnownFilter | undefined,
  way: UpdateWay = { form: 'token' },
): Promise<boolean> {
  if (tokens) return repointDrSecondary(run, tokens, target, way);
  if (!known) throw new TypeError('the plan must say which filter a performance secondary has');
  return repointPerformanceSecondary(run, target, { ...way, known });
}

/** Reads the filter that the primary keeps for the secondary; `undefined` if people skipped it. */
function readFilterOf(run: Run, { deployment, primary, secondary }: RepointTarget): Promise<KnownFilter | undefined> {
  return run.skippableStep(
    readFilter(secondary),
    `${secondary} is not re-pointed: it would receive data that its filter kept away from it`,
    (call) => call.readPathsFilter({ deployment, primary, secondary }),
    { choices: [STOP_HERE] },
  );
}

/** Changes a paths filter. If the outcome is not known, reading the filter is left to do. */
export function changingFilter<T>(
  run: Run,
  { cluster, id }: { readonly cluster: string; readonly id: string },
  order: () => Promise<T>,
): Promise<T> {
  return run.state.left.during(filterOf(id), ifFilterUnknown(id, cluster), order);
}

/** @returns `undefined` if people skipped it: nothing is sent then before update-primary */
async function writeFilter(
  run: Run,
  { deployment, primary, secondary, authority }: RepointTarget,
  { id, filter }: KnownFilter,
  when: 'before' | 'after',
): Promise<'done' | 'already' | 'no filter' | undefined> {
  if (!filter) return 'no filter';
  const written = await run.skippableStep(
    writeFilterStep(secondary, when),
    when === 'before'
      ? `${secondary} is not re-pointed: it would receive data that its filter kept away from it`
      : `${secondary} may receive data that its filter kept away from it`,
    (call) => {
      const written = { deployment, cluster: primary, secondary, id, filter, authority };
      return changingFilter(run, written, () => call.writePathsFilter(written));
    },
    { choices: [STOP_HERE], skipNeedsTwo: when === 'after' },
  );
  return written && (written.outcome === 'already' ? 'already' : 'done');
}

/** Compares the dynamic filter on both clusters, and with the filter that must be there. */
export async function sameFilterOnBothSides(
  run: Run,
  { deployment, primary, secondary }: Omit<RepointTarget, 'authority'>,
  { id, filter }: KnownFilter,
): Promise<boolean> {
  const compared = await run.skippableStep(
    compareFilters(secondary),
    'unknown whether both clusters filter the same',
    (call) => call.compareDynamicFilters({ deployment, primary, secondary, id, expected: filter }),
    { choices: [STOP_HERE], skipNeedsTwo: true },
  );
  if (compared && !compared.equal) {
    const wanted = { deployment, primary, filters: { [secondary]: filter ?? 'none' } };
    const reason = `${secondary} filtered differently from ${primary}`;
    const again = nextCommandOf.start('filterReconciliation', { ...wanted, reason });
    run.state.finding({
      severity: 'critical',
      code: 'dynamic-filter-differs',
      text: `The dynamic filter of ${secondary} is not what it must be on ${primary} and ${secondary}: ${compared.observed}`,
      next: `Make sure that ${secondary} is connected to ${primary}, then compare again: \`${again}\`. As long as they differ, client writes may reach ${secondary} although its filter should keep them away.`,
    });
  }
  return compared?.equal === true;
}

/** The performance secondaries that were seen following; undefined if people skipped the step. */
export async function seenFollowing(
  run: Run,
  deployment: string,
  primary: string,
  secondaries: readonly string[],
  name: string,
): Promise<ReadonlySet<string> | undefined> {
  const seen = await run.skippableStep(name, 'unknown whether the performance secondaries follow', (call) =>
    call.awaitPerformanceSecondaries({ deployment, primary, secondaries }),
  );
  return seen && new Set(seen.following.filter(({ follows }) => follows).map(({ cluster }) => cluster));
}

/**
 * Compares the Merkle roots of both clusters. A secondary that still streams may differ, and a difference while clients write
 * proves nothing.
 *
 * @returns the verdict; `undefined` if people skipped it, or if the roots differ by design because of a paths filter
 */
export async function compareRoots(
  run: Run,
  sides: Parameters<RunbookActivities['compareMerkleRoots']>[0],
  filter: PathsFilterFacts | undefined,
): Promise<string | undefined> {
  if (filter) return undefined;
  const compared = await run.skippableStep(
    compareRootsStep(sides.primary, sides.secondary),
    'unknown whether both hold the same data',
    (call) => call.compareMerkleRoots(sides),
    { choices: [STOP_HERE] },
  );
  return compared?.verdict;
}
