import { sidesOfSwitchover } from '../contracts/plan';
import type { RunbookPlan } from '../contracts/plan';
import { demotionOf } from './outage';
import { changesPerformancePrimary, performanceRoles } from './performance-roles';
import type { ActivityRecord, RunRecord } from './run-record';
import { factsOf, fieldsOf, kindOf, listOf, textOf } from './run-record';
import { cutOffAndLeft, isUndecided, preparedInVain, unsettledChanges } from './unsettled-changes';

/*
 * What people have to do after a run that could not say it itself. Each line rests on what the run did; nothing is
 * concluded from what it would have done.
 */

const STATUS = 'sys/replication/dr/status';

function ofType(run: RunRecord, type: string): readonly ActivityRecord[] {
  return run.activities.filter((activity) => activity.type === type);
}

function completed(run: RunRecord, type: string): readonly ActivityRecord[] {
  return ofType(run, type).filter(({ state }) => state === 'completed');
}

/** Completed changes whose result does not say that nothing was changed. */
function effective(run: RunRecord, type: string): readonly ActivityRecord[] {
  return completed(run, type).filter(({ result }) => result['outcome'] !== 'not-done');
}

/** Tries of a change of which it is not known whether they took effect. */
function undecided(activities: readonly ActivityRecord[]): readonly ActivityRecord[] {
  return activities.filter(isUndecided);
}

/** Promotions of DR secondaries, after a demotion or because the primary was gone. */
function drPromotions(run: RunRecord, planned: boolean): readonly ActivityRecord[] {
  return ofType(run, 'promoteSecondary').filter(
    (each) => kindOf(each) === 'dr' && (each.input['mode'] === 'planned') === planned,
  );
}

function inputText(activity: ActivityRecord, member: string): string {
  return textOf(activity.input[member]) ?? 'unknown cluster';
}

/** What a failover promoted, and whether that is known. Of a run that ended by itself its own word is enough. */
function failedOver(run: RunRecord): readonly string[] {
  const promotions = drPromotions(run, false);
  const last = promotions.at(-1);
  if (!last) return [];
  const [cluster, lost] = [inputText(last, 'cluster'), inputText(last, 'otherCluster')];
  if (promotions.some(({ state }) => state === 'completed')) {
    const ready = completed(run, 'awaitServiceReady').some(({ scheduledAt }) => scheduledAt >= last.scheduledAt);
    return [
      ...(ready ? [] : [`${cluster} was promoted, but no write on it was confirmed: check that it serves clients.`]),
      `Keep ${lost} fenced: it believes that it is primary when it comes back. Start drRejoin for it then.`,
    ];
  }
  if (undecided(promotions).length === 0) return [];
  return [
    `The promotion of ${cluster} was under way and its outcome was not recorded: read ${STATUS} of ${cluster} first, and keep ${lost} fenced. Only one of them may be primary.`,
  ];
}

/** Which cluster is the primary now, as far as the run knows it. */
function roles(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  const after = failedOver(run);
  if (changesPerformancePrimary(run)) return [...performanceRoles(run), ...after];
  if (after.length > 0) return after;
  const demotion = demotionOf(run);
  if (!demotion) return [];
  const sides = sidesOfSwitchover(plan);
  const from = demotion.cluster ?? sides?.from ?? 'the old primary';
  const to = sides?.to ?? 'the DR secondary';
  const promotions = drPromotions(run, true).filter(({ scheduledAt }) => scheduledAt >= demotion.at);
  const promoted = promotions.filter(({ state }) => state === 'completed').at(-1);
  if (promoted) {
    const cluster = inputText(promoted, 'cluster');
    const ready = completed(run, 'awaitServiceReady').some(({ scheduledAt }) => scheduledAt >= promoted.scheduledAt);
    return ready ? [] : [`${cluster} was promoted, but no write on it was confirmed: check that it serves clients.`];
  }
  const open = undecided(promotions).at(-1);
  if (open) {
    const cluster = inputText(open, 'cluster');
    return [
      `The promotion of ${cluster} was under way and its outcome was not recorded: read ${STATUS} of ${from} and ${to} first. Only one of them may be primary.`,
    ];
  }
  if (!demotion.proven) {
    return [
      `The demotion of ${from} was under way and its outcome was not recorded: read ${STATUS} of ${from}. If it is a secondary, clients have no primary: promote ${to}, or promote ${from} back.`,
    ];
  }
  return [
    `${from} is demoted and nothing was promoted: clients have no primary. Promote ${to}, or promote ${from} back; both need a DR operation token of the cluster that is promoted.`,
  ];
}

function protection(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  const promoted = drPromotions(run, true).findLast(({ state }) => state === 'completed');
  if (!promoted || !sidesOfSwitchover(plan)) return [];
  const primary = inputText(promoted, 'cluster');
  const toFollow = (kind: string) =>
    (plan?.operations ?? [])
      .filter(
        (each) => each.operation === `${kind}.secondary.repoint-after-switchover` && each.with?.cluster === primary,
      )
      .map(({ on }) => on.cluster);
  const streaming = new Set(completed(run, 'awaitDrStreaming').map((activity) => inputText(activity, 'secondary')));
  const unprotected = toFollow('dr')
    .filter((cluster) => !streaming.has(cluster))
    .map(
      (cluster) =>
        `${cluster} was not seen streaming from ${primary}: issue a DR activation token on ${primary} and run update-primary with it on ${cluster}.`,
    );
  const following = new Set(
    completed(run, 'awaitPerformanceSecondaries').flatMap(({ result }) =>
      listOf(result['following'])
        .map(fieldsOf)
        .flatMap(({ cluster, follows }) => (follows === true ? (textOf(cluster) ?? []) : [])),
    ),
  );
  const repointed = new Set(
    effective(run, 'updatePrimary')
      .filter((activity) => kindOf(activity) === 'performance')
      .map((activity) => inputText(activity, 'secondary')),
  );
  const astray = toFollow('performance')
    .filter((cluster) => !following.has(cluster) && !repointed.has(cluster))
    .map(
      (cluster) =>
        `Performance secondary ${cluster} was not seen following ${primary}: read its status and re-point it if needed.`,
    );
  return [...unprotected, ...astray];
}

/** Clusters that were wiped, or may have been, and were not seen streaming as what they were to become. */
function wiped(run: RunRecord): readonly string[] {
  const last = [...effective(run, 'enableSecondary'), ...undecided(ofType(run, 'enableSecondary'))].at(-1);
  const streams = completed(run, 'followBootstrap').some(({ result }) => result['verdict'] === 'streaming');
  if (!last || streams) return [];
  const [cluster, primary] = [inputText(last, 'secondary'), inputText(last, 'primary')];
  return [
    `${cluster} was enabled as ${inWords(last)} secondary of ${primary}${last.state === 'completed' ? '' : ', or was about to be,'} and was not seen streaming: read its status. If it is secondary, unseal its nodes with key shares of ${primary}; if it has no replication, it was not wiped.`,
  ];
}

const inWords = (activity: ActivityRecord) => (kindOf(activity) === 'dr' ? 'DR' : 'performance');

function activationTokens(run: RunRecord): readonly string[] {
  const idOf = (kind: string, id: unknown) => `${kind} ${textOf(id) ?? ''}`;
  const used = new Set(
    [...effective(run, 'updatePrimary'), ...effective(run, 'enableSecondary')].map((each) =>
      idOf(kindOf(each), fieldsOf(each.input['activation'])['id']),
    ),
  );
  return completed(run, 'issueActivationToken')
    .filter((each) => each.result['form'] !== 'none' && !used.has(idOf(kindOf(each), each.result['id'])))
    .map(
      (activity) =>
        `A ${inWords(activity)} activation token for ${inputText(activity, 'secondary')} (id ${textOf(activity.result['id']) ?? 'unknown'}) was issued on ${inputText(activity, 'primary')} and not seen used: revoke that id with revoke-secondary unless it is in use.`,
    );
}

type GeneratedKind = 'operation-token' | 'root-token';

/** Activities of token generations of one kind. What settles one names no kind: what it found does. */
function generations(run: RunRecord, kind: GeneratedKind, type: string): readonly ActivityRecord[] {
  return ofType(run, type).filter(({ input }) => textOf(fieldsOf(input['wanted'])['kind']) === kind);
}

function tokensMade(run: RunRecord, kind: GeneratedKind): readonly ActivityRecord[] {
  const member = kind === 'root-token' ? 'encrypted' : 'sealed';
  return ['startGeneration', 'completeGeneration', 'settleGeneration']
    .flatMap((type) => completed(run, type))
    .filter(({ result }) => result[member] !== undefined);
}

/** Those of which nobody found out how they ended. */
function openGenerations(run: RunRecord, kind: GeneratedKind): readonly ActivityRecord[] {
  const settled = new Set(completed(run, 'settleGeneration').map((each) => inputText(each, 'cluster')));
  return ['startGeneration', 'completeGeneration']
    .flatMap((type) => undecided(generations(run, kind, type)))
    .filter((each) => !settled.has(inputText(each, 'cluster')));
}

function clustersOf(activities: readonly ActivityRecord[]): string[] {
  return [...new Set(activities.map((each) => inputText(each, 'cluster')))];
}

function operationTokens(run: RunRecord, namingKept: boolean): readonly string[] {
  const states = new Map<string, string>();
  for (const { result } of completed(run, 'deleteOperationTokens')) {
    for (const disposal of listOf(result['disposals']).map(fieldsOf)) {
      states.set(textOf(disposal['cluster']) ?? '', textOf(disposal['state']) ?? '');
    }
  }
  const live = clustersOf(tokensMade(run, 'operation-token'));
  const open = clustersOf(openGenerations(run, 'operation-token'));
  const fingerprint = textOf(completed(run, 'createCeremony').at(-1)?.result['fingerprint']);
  return [
    ...live
      .filter((cluster) => states.get(cluster) !== 'deleted' && (namingKept || states.get(cluster) !== 'kept'))
      .map((cluster) =>
        states.get(cluster) === 'kept'
          ? `The DR operation token of ${cluster} was kept, sealed: delete it when ${cluster} is a DR secondary again.`
          : `A DR operation token of ${cluster} was generated and is not proven deleted: treat it as live, and delete it with secondary/operation-token/delete.`,
      ),
    ...open
      .filter((cluster) => !live.includes(cluster))
      .map(
        (cluster) =>
          `A generation attempt on ${cluster} may be open, or its token may exist: read generate-operation-token/attempt, and cancel it only if its fingerprint is ${fingerprint ?? 'the one of this run’s ceremony'}.`,
      ),
  ];
}

/** Root tokens that the run made, or may have made. Only their recipient can read and end them. */
function rootTokens(run: RunRecord): readonly string[] {
  const made = clustersOf(tokensMade(run, 'root-token'));
  return [
    ...made.map(
      (cluster) =>
        `A root token of ${cluster} was generated, encrypted to its recipient, and has no lifetime: the recipient revokes it when the work is done (vault token revoke -self).`,
    ),
    ...clustersOf(openGenerations(run, 'root-token'))
      .filter((cluster) => !made.includes(cluster))
      .map(
        (cluster) =>
          `A generation attempt on ${cluster} may be open, or a root token may exist that nobody holds: read sys/generate-root/attempt, and go through auth/token/accessors for policy root.`,
      ),
  ];
}

function ceremonyKeys(run: RunRecord): readonly string[] {
  const last = ofType(run, 'destroyCeremonyKeys')
    .filter(({ result }) => result['destroyed'] === true)
    .map(({ input }) => fieldsOf(input['ceremony']));
  const destroyed = new Set(last.map(keyName));
  // Where the keys of one round are destroyed those of all its rounds are.
  const places = new Set(last.map(keyPlace));
  const created = ['createCeremony', 'createRehearsal'].flatMap((type) => completed(run, type));
  const left = created.filter(({ result }) => !places.has(keyPlace(result)));
  const made = new Map(left.map(({ result }) => [keyName(result), textOf(result['keyHome']) ?? 'unknown']));
  return [...made]
    .filter(([name]) => !destroyed.has(name))
    .map(
      ([name, home]) =>
        `The keys of ceremony ${name} on key home ${home} were not destroyed: check that a worker with that key directory runs and removes them.`,
    );
}

function keyName(ceremony: ReturnType<typeof fieldsOf>): string {
  return `${textOf(ceremony['cid']) ?? 'unknown'}, round ${typeof ceremony['epoch'] === 'number' ? ceremony['epoch'] : '?'}`;
}

function keyPlace(ceremony: ReturnType<typeof fieldsOf>): string {
  return JSON.stringify([ceremony['cid'], ceremony['keyHome']]);
}

function hooks(run: RunRecord): readonly string[] {
  let held = false;
  for (const { input, state } of ofType(run, 'runHook')) {
    const hook = textOf(input['hook']);
    if (hook === 'quiesce') held = true;
    else if ((hook === 'traffic' || hook === 'release') && state === 'completed') held = false;
  }
  if (!held) return [];
  return [
    'The quiesce hook was started and the traffic hook did not finish: check that clients are let through to the primary.',
  ];
}

function openParkings(run: RunRecord): readonly string[] {
  const decided = factsOf(run, 'decided');
  return factsOf(run, 'parked')
    .filter(
      ({ step, parkingNo }) => !decided.some((decision) => decision.step === step && decision.parkingNo === parkingNo),
    )
    .map(({ step, code }) => `Step “${step}” failed with ${code} and nobody decided on it.`);
}

/** Secrets that the run made and that are not proven gone. A token that the run keeps on purpose is not among them. */
export function secretsLeft(run: RunRecord): readonly string[] {
  return [...activationTokens(run), ...operationTokens(run, false), ...rootTokens(run), ...ceremonyKeys(run)];
}

/** What a run that ended early left undone at the clusters, the most urgent first: roles, clients, protection. */
export function workLeft(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  return [
    ...roles(run, plan),
    ...unsettledChanges(run),
    ...preparedInVain(run),
    ...hooks(run),
    ...protection(run, plan),
  ];
}

/** What a run that could not say it itself left, the most urgent first. */
export function derivedLeftToDo(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  const parkings = openParkings(run);
  if (!run.close) {
    // The run is at work: only what it waits for is for people.
    return [...parkings, ...(run.waitingFor === undefined ? [] : [`The run waits for: ${run.waitingFor}`])];
  }
  return [
    ...roles(run, plan),
    ...wiped(run),
    ...unsettledChanges(run),
    ...preparedInVain(run),
    ...cutOffAndLeft(run),
    ...hooks(run),
    ...parkings,
    ...protection(run, plan),
    ...activationTokens(run),
    ...operationTokens(run, true),
    ...rootTokens(run),
    ...ceremonyKeys(run),
  ];
}
