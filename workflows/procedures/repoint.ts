import type { RunbookActivities } from '../../activities';
import type { Authority, ExpectedFilter, KnownFilter, PathsFilterFacts } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Choice } from '../engine/parking';
import type { Run } from '../engine/run';
import type { OperationTokens } from './operation-tokens';
import { followingOf, kindName, pointingOf, statusOf } from './roles';

export const STOP_HERE: Choice = {
  action: 'abort',
  effect: 'end the run here: service stays up, what is not re-protected yet is listed in the report',
};

/** A secondary that is to follow a primary. */
interface RepointTarget {
  readonly deployment: string;
  readonly primary: string;
  readonly secondary: string;
  /** Of a plan that allows this. */
  readonly authority: Authority;
  /** For a plan of its own, whose gate may be opened again. What comes after a promotion or a rejoin is never too old. */
  readonly begin?: BeginApproved;
}

/** Carries out what begins something, as `Approvals.begin` does for one gate. */
export type BeginApproved = <T>(carryOut: (authority: Authority) => Promise<T>) => Promise<T>;

/**
 * Makes `secondary` follow `primary` as DR secondary: operation token, update-primary, and then proof that it streams. By
 * activation token, unless people chose addresses, which a demoted cluster does not take. No data is wiped.
 *
 * @returns whether it streams; false where people skipped it
 */
export async function repointDrSecondary(
  run: Run,
  tokens: OperationTokens,
  target: RepointTarget,
  way: UpdateWay = { form: 'token' },
): Promise<boolean> {
  const { deployment, primary, secondary } = target;
  const effect = `${secondary} stays without a primary; repeat it later with an activation token from ${primary}`;
  if (!(await tokens.ofUnlessSkipped(secondary, effect))) return false;
  const how = async () => ({ kind: 'dr', ...parametersOf(way), token: await tokens.of(secondary) }) as const;
  if (!(await point(run, target, `Point ${secondary} at ${primary}`, effect, how))) return false;
  const streaming = await run.skippableStep(
    `Wait until ${secondary} streams from ${primary}`,
    `whether ${secondary} catches up is not known at the end of this run`,
    (call) => call.awaitDrStreaming({ deployment, primary, secondary }),
    { choices: [STOP_HERE] },
  );
  if (!streaming) return false;
  run.state.notifications.protectedAgain(secondary, primary);
  run.state.left.settle(followingOf(secondary));
  return true;
}

type UpdatePrimary = Parameters<RunbookActivities['updatePrimary']>[0];

/** Public key, activation token and update-primary, or addresses alone: one activity. */
async function point(
  run: Run,
  { deployment, primary, secondary, authority: given, begin = (carryOut) => carryOut(given) }: RepointTarget,
  name: string,
  effect: string,
  how: () => Promise<Omit<UpdatePrimary, keyof RepointTarget>>,
): Promise<boolean> {
  const pointed = await run.skippableStep(
    name,
    effect,
    (call) =>
      begin(async (authority) => {
        const parameters = await how();
        const { kind } = parameters;
        const inDoubt = `${secondary} may have been pointed at ${primary} (${kindName(kind)}): read ${statusOf(kind)} of it. Where it does not follow, start secondaryRepointing, or revoke its id on ${primary}.`;
        const order = () => call.updatePrimary({ deployment, primary, secondary, authority, ...parameters });
        return run.state.left.during(pointingOf(secondary), inDoubt, order);
      }),
    { choices: [STOP_HERE] },
  );
  return pointed !== undefined;
}

/** How a secondary is pointed at a primary. */
interface UpdateWay {
  /** By addresses it keeps its id, and with it the filter's key; where it was demoted, or never followed, it needs a token. */
  readonly form: 'token' | 'addresses';
  /** How the activation token leaves the primary; `auto` where nothing is said. */
  readonly activation?: 'auto' | 'public-key' | 'wrapped';
  /** Those that people gave; else what is known of the primary. */
  readonly addresses?: readonly string[] | undefined;
}

function parametersOf({ form, activation, addresses }: UpdateWay) {
  return form === 'token' ? { by: form, form: activation } : { by: form, addresses };
}

/** How a performance secondary is pointed at a primary. */
interface PerformanceWay extends UpdateWay {
  /** The filter that it must have, where an approved plan says so; else it is read on the primary. */
  readonly known?: KnownFilter;
}

/**
 * Points a performance secondary at a primary. By token its paths filter is written first, under the id that it will have,
 * so that what was filtered never leaves, and made sure of again after update-primary, which may drop it. By addresses
 * nothing is written: the primary keeps the filter under the id that the secondary has.
 *
 * @returns whether it follows with its filter; false where people skipped a step or it did not come
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
  const [name, effect] =
    form === 'token'
      ? [`Point ${secondary} at ${primary} (performance)`, `${secondary} keeps looking for the old primary`]
      : [
          `Give ${secondary} the addresses of ${primary}`,
          `${secondary} keeps looking for the old primary; re-point it by token`,
        ];
  const how = () => Promise.resolve({ kind: 'performance', ...parametersOf(way), expected } as const);
  const pointed = await point(run, target, name, effect, how);
  const after = form === 'token' ? await writeFilter(run, target, found, 'after') : before;
  owed?.isSettled();
  if (form === 'token' && after === 'done') tellMissing(run, target);
  if (!pointed) return false;
  const follows = await seenFollowing(run, deployment, primary, [secondary], `Wait until ${secondary} follows`);
  const equal = await sameFilterOnBothSides(run, target, found);
  const isDone = follows?.has(secondary) === true && after !== undefined && equal;
  if (isDone) run.state.left.settle(followingOf(secondary));
  return isDone;
}

/**
 * From here on update-primary may drop the filter. Where the run ends before it stands again, however that comes, the end
 * writes it; a run that is ended from outside says what is left.
 */
function owing(run: Run, target: RepointTarget, known: { readonly id: string; readonly filter: PathsFilterFacts }) {
  const { deployment, primary, secondary, authority } = target;
  const { id, filter } = known;
  const reason = `update-primary may have dropped the filter of ${secondary}`;
  const wanted = { deployment, primary, filters: { [secondary]: filter }, reason };
  const again = nextCommandOf.start('filterReconciliation', wanted);
  const text = `The paths filter of ${secondary} may be gone from ${primary} since update-primary: until it stands, ${secondary} receives what it must not have. At once: \`${again}\`.`;
  run.state.left.add(text, filterOf(id));
  let isOpen = true;
  run.onEnd(async () => {
    if (!isOpen) return;
    await run.cleanUp(`Write the paths filter of ${secondary} again`, async (call) => {
      const written = { deployment, cluster: primary, secondary, id, filter, authority };
      const { outcome } = await changingFilter(run, written, () => call.writePathsFilter(written));
      if (outcome === 'done') tellMissing(run, target);
    });
  });
  return { isSettled: () => (isOpen = false) };
}

function tellMissing(run: Run, { primary, secondary }: RepointTarget): void {
  run.state.finding({
    severity: 'warning',
    code: 'paths-filter-was-missing',
    text: `The paths filter of ${secondary} was not on ${primary} after update-primary and was written again: ${secondary} may have received what it must not have in between.`,
    next: `Look on ${secondary} whether what the filter keeps away is gone; it is removed there once the filter is in force.`,
  });
}

/** Under what it is left to do that a paths filter may not be as it must be. */
const filterOf = (id: string) => `filter of ${id}`;

/** A secondary of either kind, as an approved plan says: with the tokens of a DR secondary, or the filter of a performance one. */
export function repointAsPlanned(
  run: Run,
  target: RepointTarget,
  tokens: OperationTokens | undefined,
  known: KnownFilter | undefined,
  way: UpdateWay = { form: 'token' },
): Promise<boolean> {
  if (tokens) return repointDrSecondary(run, tokens, target, way);
  if (!known) throw new TypeError('the plan says which filter a performance secondary has');
  return repointPerformanceSecondary(run, target, { ...way, known });
}

/** Reads what the primary keeps for the secondary; `undefined` where people skipped it. */
function readFilterOf(run: Run, { deployment, primary, secondary }: RepointTarget): Promise<KnownFilter | undefined> {
  return run.skippableStep(
    `Read the paths filter of ${secondary}`,
    `${secondary} is not re-pointed: it would receive what its filter kept away from it`,
    (call) => call.readPathsFilter({ deployment, primary, secondary }),
    { choices: [STOP_HERE] },
  );
}

/** Changes a paths filter; where nobody knows what became of that, it is left to do to read it. */
export function changingFilter<T>(
  run: Run,
  { cluster, id }: { readonly cluster: string; readonly id: string },
  order: () => Promise<T>,
): Promise<T> {
  const inDoubt = `The paths filter of ${id} on ${cluster} may have been changed: read it before a secondary is connected under that id.`;
  return run.state.left.during(filterOf(id), inDoubt, order);
}

/** @returns `undefined` where people skipped it: before update-primary nothing is sent then */
async function writeFilter(
  run: Run,
  { deployment, primary, secondary, authority }: RepointTarget,
  { id, filter }: KnownFilter,
  when: 'before' | 'after',
): Promise<'done' | 'already' | 'no filter' | undefined> {
  if (!filter) return 'no filter';
  const written = await run.skippableStep(
    `Write the paths filter of ${secondary} (${when} update-primary)`,
    when === 'before'
      ? `${secondary} is not re-pointed: it would receive what its filter kept away from it`
      : `${secondary} may receive what its filter kept away from it`,
    (call) => {
      const written = { deployment, cluster: primary, secondary, id, filter, authority };
      return changingFilter(run, written, () => call.writePathsFilter(written));
    },
    { choices: [STOP_HERE], skipNeedsTwo: when === 'after' },
  );
  return written && (written.outcome === 'already' ? 'already' : 'done');
}

/** Compares the dynamic filter on both sides, and with the filter that must be there. */
export async function sameFilterOnBothSides(
  run: Run,
  { deployment, primary, secondary }: Omit<RepointTarget, 'authority'>,
  { id, filter }: KnownFilter,
): Promise<boolean> {
  const compared = await run.skippableStep(
    `Compare the dynamic filter of ${secondary} on both sides`,
    'whether both sides filter the same is not known',
    (call) => call.compareDynamicFilters({ deployment, primary, secondary, id, expected: filter }),
    { choices: [STOP_HERE], skipNeedsTwo: true },
  );
  if (compared && !compared.equal) {
    const wanted = { deployment, primary, filters: { [secondary]: filter ?? 'none' } };
    const reason = `${secondary} filtered otherwise than ${primary}`;
    const again = nextCommandOf.start('filterReconciliation', { ...wanted, reason });
    run.state.finding({
      severity: 'critical',
      code: 'dynamic-filter-differs',
      text: `The dynamic filter of ${secondary} is not as it must be on ${primary} and ${secondary}: ${compared.observed}`,
      next: `See that ${secondary} is connected to ${primary}, then compare again: \`${again}\`. As long as they differ, what clients write may reach ${secondary} although its filter keeps it away.`,
    });
  }
  return compared?.equal === true;
}

/** The performance secondaries that were seen following; undefined where people skipped the step. */
export async function seenFollowing(
  run: Run,
  deployment: string,
  primary: string,
  secondaries: readonly string[],
  name: string,
): Promise<ReadonlySet<string> | undefined> {
  const seen = await run.skippableStep(name, 'whether performance secondaries follow is not known', (call) =>
    call.awaitPerformanceSecondaries({ deployment, primary, secondaries }),
  );
  return seen && new Set(seen.following.filter(({ follows }) => follows).map(({ cluster }) => cluster));
}

/**
 * Compares the Merkle roots of both sides: what streams may still differ, and what differs while clients write proves nothing.
 *
 * @returns the verdict; `undefined` where people skipped it, or where the root differs by design: with a paths filter
 */
export async function compareRoots(
  run: Run,
  sides: Parameters<RunbookActivities['compareMerkleRoots']>[0],
  filter: PathsFilterFacts | undefined,
): Promise<string | undefined> {
  if (filter) return undefined;
  const compared = await run.skippableStep(
    `Compare the Merkle roots of ${sides.primary} and ${sides.secondary}`,
    'whether both hold the same data is not known',
    (call) => call.compareMerkleRoots(sides),
    { choices: [STOP_HERE] },
  );
  return compared?.verdict;
}
