import type { Check } from '../../src/contracts/plan';
import type { ReadinessPoint } from '../../src/contracts/readiness';
import type { Deployment } from '../../src/inventory';
import { inWords as accessInWords, isIn } from '../ceremony/ceremony-access';
import { majorVersion } from '../checks/versions';
import { credentialFacts } from '../checks/credentials';
import type { CredentialFacts } from '../checks/credentials';
import { PROMOTE, UPDATE_PRIMARY, batchTokenReady, ceremonyEntryOf, enoughHolders, freeSlot } from '../checks/tokens';
import type { CeremonyEntry } from '../checks/tokens';
import { readBatchToken } from '../tokens/operation-token';
import type { Look } from './look';
import { inspect } from './look';
import type { Question } from './point';
import { judged, notCheckable, unread } from './point';
import { batchTokenPoint } from './batch-token';
import type { ClusterView, SetView, World } from './world';

/** What was found out about the ways to a DR operation token on one secondary. */
interface TokenWays {
  /** Looked up on the primary; undefined where the inventory has none, or no primary answers. */
  readonly batch: CredentialFacts | undefined;
  readonly access: CeremonyEntry['access'];
  /** The source that the cluster accepts for the ceremony calls. */
  readonly from?: string | undefined;
  /** A run of the deployment works: an attempt may be its own. */
  readonly runWorks: boolean;
}

/** Where the operation token of each DR secondary comes from, and whether that way is open. */
export async function tokenSources(look: Look, world: World, runWorks: Promise<boolean>): Promise<ReadinessPoint[]> {
  const points = await Promise.all(
    world.sets.flatMap((set) => set.secondaries.map((view) => tokenSource(look, view, set, world, runWorks))),
  );
  return points.flat();
}

function tokenSource(look: Look, view: ClusterView, set: SetView, { deployment }: World, runWorks: Promise<boolean>) {
  const own = look.clusters.of(deployment.name, view.name);
  const [primary] = set.primaries;
  const hasBatch = own.entry.batchToken !== undefined;
  const questions = [sourceQuestion(view), slotQuestion(view)];
  if (!view.observation.reachable)
    return Promise.resolve(questions.flatMap((question) => unread(question, view.observation.error ?? 'no answer')));
  return inspect(
    look,
    questions,
    async (signal): Promise<TokenWays> => {
      const [batch, way] = await Promise.all([
        primary && hasBatch
          ? credentialFacts(
              look.clusters.of(deployment.name, primary.name),
              () => readBatchToken(own),
              [PROMOTE, UPDATE_PRIMARY],
              signal,
            )
          : undefined,
        ceremonyEntryOf(own, view.observation, signal),
      ]);
      return { batch, access: way.access, from: way.from, runWorks: await runWorks };
    },
    (ways) => judgeTokenSource(view, deployment, ways, hasBatch),
  );
}

function sourceQuestion({ name }: ClusterView): Question {
  return {
    id: 'token-source',
    cluster: name,
    source: 'api',
    needed: 'a batch token that lives on, or a ceremony that can be held',
    next: `Make a batch token for ${name} on the primary, or see to its holders and ceremonyCredential.`,
  };
}

function slotQuestion({ name }: ClusterView): Question {
  return {
    id: 'generation-slot',
    cluster: name,
    source: 'api',
    needed: 'no generation attempt under way',
    next: 'Let its owner finish or cancel it. Never cancel an attempt of somebody else.',
  };
}

/** Pure. */
function judgeTokenSource(
  view: ClusterView,
  deployment: Deployment,
  { batch, access, from, runWorks }: TokenWays,
  hasBatch: boolean,
): ReadinessPoint[] {
  const wanted = deployment.ceremony.tokenSource;
  const batchRules = batch ? batchTokenReady(batch, view.name, deployment, [PROMOTE, UPDATE_PRIMARY]) : [];
  const batchReady = batch !== undefined && allGood(batchRules);
  // A batch token that is about to end opens a ceremony now, and not on the day.
  const ending =
    from === 'batchToken' && batchRules.some(({ name, verdict }) => /lives/.test(name) && verdict !== 'ok');
  const ceremonyBad = [
    ...(isIn(access) && !ending
      ? []
      : [`the DR secondary accepts no stored credential (${ending ? 'a batch token that ends soon' : access})`]),
    ...[enoughHolders(view.observation, deployment)].filter(({ verdict }) => verdict === 'fail').map(inWords),
  ];
  return [
    ...source(view, { wanted, batchReady, batchRules, ceremonyBad, batchUnread: hasBatch && batch === undefined }),
    ...storedCredential(view, { access, from, runWorks }, { batchReady, ending }),
    ...(batch ? batchTokenPoint(view, deployment, batch, batchRules) : []),
    ...slot(view, runWorks),
  ];
}

interface Source {
  readonly wanted: Deployment['ceremony']['tokenSource'];
  readonly batchReady: boolean;
  readonly batchRules: readonly Check[];
  readonly ceremonyBad: readonly string[];
  /** There is a batch token, and no primary that could look it up. */
  readonly batchUnread: boolean;
}

function source(view: ClusterView, { wanted, batchReady, batchRules, ceremonyBad, batchUnread }: Source) {
  const question = sourceQuestion(view);
  const batchBad = batchRules.filter(({ verdict }) => verdict !== 'ok').map(inWords);
  const life = batchRules.find(({ name }) => name.includes('lives'))?.observed ?? '';
  if (wanted === 'provided') return judged(question, 'ok', 'people generate the tokens themselves, and provide them');
  if (wanted !== 'ceremony' && batchReady) return judged(question, 'ok', `batch token, ${life}`);
  if (wanted === 'batch') {
    if (batchUnread) return unread(question, 'no primary answers that could look the batch token up');
    return judged(question, 'fail', batchBad.join('; ') || 'the inventory names no batch token');
  }
  if (ceremonyBad.length > 0) return judged(question, 'fail', [...ceremonyBad, ...batchBad].join('; '));
  if (batchBad.length > 0)
    return judged(question, 'warn', `ceremony; the batch token is of no use: ${batchBad.join('; ')}`);
  return judged(question, 'ok', 'ceremony of the key holders');
}

/** From version 2.0 even the calls of a ceremony need a token that a DR secondary accepts, and it serves no logins. */
function storedCredential(
  view: ClusterView,
  { access, from, runWorks }: Pick<TokenWays, 'access' | 'from' | 'runWorks'>,
  { batchReady, ending }: { readonly batchReady: boolean; readonly ending: boolean },
): ReadinessPoint[] {
  const { version } = view.observation;
  const question: Question = {
    id: 'stored-credential',
    cluster: view.name,
    source: 'api',
    needed: 'from version 2.0: a stored credential that a DR secondary accepts for the four ceremony calls',
    next: `Let batchTokenRotation keep a batch token, or give ceremonyCredential of ${view.name}. Without either a ceremony begins with a break-glass: people open the calls in the configuration of every node.`,
  };
  if (version === undefined) return unread(question, 'the version is not told');
  if (majorVersion(version) < 2) return judged(question, 'ok', `not needed by ${version}`);
  if (access === 'accepted' && !ending) return judged(question, 'ok', `${from ?? 'accepted'}, accepted by ${version}`);
  const observed = `${accessInWords({ access, ...(from && { from }) })}${ending ? ', which ends soon' : ''}, version ${version}`;
  if (access !== 'open') {
    return batchReady
      ? judged(question, 'ok', `the batch token, instead of a ceremony by ${version}`)
      : judged(question, 'fail', observed);
  }
  return judged(question, runWorks ? 'warn' : 'fail', observed, {
    reason: runWorks ? 'a run of this deployment works: it may be its break-glass' : 'anybody may occupy the one slot',
    next: `Take enable_unauthenticated_access out of the configuration of every node of ${view.name} and send SIGHUP.`,
  });
}

function slot(view: ClusterView, runWorks: boolean): ReadinessPoint[] {
  const question = slotQuestion(view);
  const found = freeSlot(view.observation, undefined);
  if (found.verdict === 'not-checkable')
    return notCheckable(question, 'the slot can be read with a credential that the DR secondary accepts only');
  if (found.verdict === 'ok') return judged(question, 'ok', found.observed);
  return runWorks
    ? judged(question, 'warn', found.observed.replace(' of somebody else', ''), {
        reason: 'a run of this deployment works: the attempt may be its own',
      })
    : judged(question, 'fail', found.observed);
}

function allGood(rules: readonly Check[]): boolean {
  return rules.every(({ verdict }) => verdict === 'ok');
}

function inWords({ name, observed, needed }: Check): string {
  return `${name}: ${observed} (needed: ${needed})`;
}
