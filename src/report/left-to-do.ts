import { quotaName } from '../contracts/names';
import { sidesOfSwitchover } from '../contracts/plan';
import type { RunbookPlan } from '../contracts/plan';
import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import type { ReplicationKind } from '../contracts/runbook-inputs';
import { demotionOf } from './outage';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { completed, factsOf, fieldsOf, kindOf, listOf, ofType, textOf } from './run-record';

/*
 * What people have to do after a run that could not say it itself. Each line rests on what the run did; nothing is
 * concluded from what it would have done.
 */

/** Whether it is not known if a change took effect. */
function isUndecided({ state, failure }: ActivityRecord): boolean {
  return state === 'running' || state === 'cancelled' || (state === 'failed' && failure?.outcomeKnown !== true);
}

function inputText({ input }: Pick<ActivityRecord, 'input'>, member: string): string {
  return textOf(input[member]) ?? 'unknown';
}

const clusterName = (activity: ActivityRecord) => inputText(activity, 'cluster');
const secondaryName = (activity: ActivityRecord) => textOf(activity.input['secondary']) ?? inputText(activity, 'id');
const kindName = (activity: ActivityRecord) => (kindOf(activity) === 'dr' ? 'DR' : 'performance');
const statusOf = (kind: ReplicationKind) => `sys/replication/${kind}/status`;

/** Which cluster is the primary of a kind now, as far as the run knows it. */
function roles(run: RunRecord, kind: ReplicationKind, plan: RunbookPlan | undefined): readonly string[] {
  const primary = kind === 'dr' ? 'primary' : 'performance primary';
  const promotions = ofType(run, 'promoteSecondary').filter((each) => kindOf(each) === kind);
  // The later one: after a promotion that is done another one may be under way, of a failover that took the run over.
  const open = promotions.findLast((each) => each.state === 'completed' || isUndecided(each));
  if (open?.state === 'completed') return afterPromotion(run, open);
  if (open) {
    const [cluster, other] = [clusterName(open), inputText(open, 'otherCluster')];
    const fenced = isFailover(open) ? `, and keep ${other} fenced` : '';
    return [
      `The promotion of ${cluster} was under way and its outcome was not recorded: read ${statusOf(kind)} of ${other} and ${cluster} first${fenced}. Only one of them may be ${primary}.`,
    ];
  }
  const demotion = demotionOf(run);
  if (demotion?.kind !== kind) return [];
  const from = demotion.cluster ?? 'the old primary';
  const to = sidesOfSwitchover(plan)?.to ?? 'the DR secondary';
  const none = kind === 'dr' ? 'clients have no primary' : 'no cluster is performance primary';
  if (!demotion.proven) {
    const next =
      kind === 'dr' ? `promote ${to}, or promote ${from} back` : 'promote it back, or another secondary, never both';
    return [
      `The demotion of ${from} was under way and its outcome was not recorded: read ${statusOf(kind)} of ${from}. If it is a secondary, ${none}: ${next}.`,
    ];
  }
  const next =
    kind === 'dr'
      ? `Promote ${to}, or promote ${from} back; both need a DR operation token of the cluster that is promoted.`
      : `Promote ${from} back, which holds every write, or another secondary, never both; then re-point every secondary by token.`;
  return [`${from} is demoted and nothing was promoted: ${none}. ${next}`];
}

const isFailover = (promotion: ActivityRecord) => promotion.input['mode'] !== 'planned';

function afterPromotion(run: RunRecord, promoted: ActivityRecord): readonly string[] {
  const cluster = clusterName(promoted);
  const serves = completed(run, 'awaitServiceReady').some(({ scheduledAt }) => scheduledAt >= promoted.scheduledAt);
  return [
    ...(serves
      ? []
      : [`${cluster} was promoted, but was not seen to serve: check that clients reach it and can write.`]),
    ...(isFailover(promoted)
      ? [
          `Keep ${inputText(promoted, 'otherCluster')} fenced: it believes that it is primary when it comes back. Start ${kindOf(promoted)}Rejoin for it then.`,
        ]
      : []),
    ...(kindOf(promoted) === 'performance'
      ? [
          `A promotion forgets the secondaries: see in ${statusOf('performance')} which ones follow ${cluster}, and re-point the others with secondaryRepointing.`,
        ]
      : []),
  ];
}

/** Secondaries that a switchover was to point at the new primary, and that were not seen there. */
function protection(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  const promoted = completed(run, 'promoteSecondary').findLast(({ input }) => input['mode'] === 'planned');
  if (!promoted || !plan || !sidesOfSwitchover(plan)) return [];
  const primary = clusterName(promoted);
  const astray = (kind: ReplicationKind, seen: readonly string[]) =>
    plan.operations
      .filter(({ operation }) => operation === `${kind}.secondary.repoint-after-switchover`)
      .filter(({ on, with: leader }) => leader?.cluster === primary && !seen.includes(on.cluster))
      .map(({ on }) => on.cluster);
  const secondaries = (activities: readonly ActivityRecord[]) => activities.map((each) => inputText(each, 'secondary'));
  const following = completed(run, 'awaitPerformanceSecondaries')
    .flatMap(({ result }) => listOf(result['following']).map(fieldsOf))
    .flatMap(({ cluster, follows }) => (follows === true ? (textOf(cluster) ?? []) : []));
  const repointed = completed(run, 'updatePrimary').filter((each) => kindOf(each) === 'performance');
  return [
    ...astray('dr', secondaries(completed(run, 'awaitDrStreaming'))).map(
      (cluster) =>
        `${cluster} was not seen streaming from ${primary}: issue a DR activation token on ${primary} and run update-primary with it on ${cluster}.`,
    ),
    ...astray('performance', [...following, ...secondaries(repointed)]).map(
      (cluster) =>
        `Performance secondary ${cluster} was not seen following ${primary}: read its status and re-point it if needed.`,
    ),
  ];
}

/** Clusters that were wiped, or may have been, and were not seen streaming as what they were to become. */
function wiped(run: RunRecord): readonly string[] {
  const last = [...completed(run, 'enableSecondary'), ...ofType(run, 'enableSecondary').filter(isUndecided)].at(-1);
  const streams = completed(run, 'followBootstrap').some(({ result }) => result['verdict'] === 'streaming');
  if (!last || streams) return [];
  const [cluster, primary] = [inputText(last, 'secondary'), inputText(last, 'primary')];
  const maybe = last.state === 'completed' ? '' : ', or was about to be,';
  return [
    `${cluster} was enabled as ${kindName(last)} secondary of ${primary}${maybe} and was not seen streaming: read its status. If it is secondary, unseal its nodes with key shares of ${primary} (those that unseal themselves are restarted); if it has no replication, it was not wiped: revoke its id on ${primary} then.`,
  ];
}

interface ChangeText {
  /** What it changes, and what else tells two of them apart. */
  readonly on: (activity: ActivityRecord) => string;
  /** After "may have been". */
  readonly done: (activity: ActivityRecord) => string;
  /** What to read, and what to do then. */
  readonly next: (activity: ActivityRecord, status: string) => string;
}

const disabled = (role: string, cost: string): ChangeText => ({
  on: clusterName,
  done: (activity) => `disabled as ${kindName(activity)} ${role}`,
  next: (_activity, status) => `read ${status} of it. If it is disabled, ${cost}.`,
});

/** Changes that nothing else here tells of, should their outcome not be known. */
const CHANGES: Readonly<Record<string, ChangeText>> = {
  enablePrimary: {
    on: clusterName,
    done: (activity) => `made ${kindName(activity)} primary`,
    next: (activity, status) =>
      `read ${status} of it. If it is primary and is to be none, end that with replicationTeardown {"kind": "${kindOf(activity)}", "cluster": "${clusterName(activity)}"}.`,
  },
  revokeSecondary: {
    on: (activity) => `${secondaryName(activity)} on ${clusterName(activity)}`,
    done: () => 'revoked',
    next: (activity, status) =>
      `read known_secondaries in ${status} of ${clusterName(activity)}. Where the id ${inputText(activity, 'id')} is missing, ${secondaryName(activity)} is cut off: finish with secondaryDecommission, or connect it again with secondaryRepointing.`,
  },
  forgetPrimary: {
    on: clusterName,
    done: (activity) => `made to forget its ${kindName(activity)} primary`,
    next: (_activity, status) =>
      `read ${status} of it. Where it knows no primary any more, secondaryRepointing connects it again, without a wipe.`,
  },
  disablePrimary: disabled('primary', 'its secondaries are cut off for good, and still look for it'),
  disableSecondary: disabled(
    'secondary',
    'it becomes a secondary again only by being wiped, and its primary may still know its id',
  ),
  updatePrimary: {
    on: secondaryName,
    done: (activity) => `pointed at ${inputText(activity, 'primary')} (${kindName(activity)})`,
    next: (activity, status) =>
      `read ${status} of it. Where it does not follow, start secondaryRepointing, or revoke its id on ${inputText(activity, 'primary')}.`,
  },
  writePathsFilter: {
    on: (activity) => `The paths filter of ${inputText(activity, 'id')} on ${clusterName(activity)}`,
    done: () => 'written',
    next: () => 'read it before a secondary is connected under that id.',
  },
};

function changeText(activity: ActivityRecord, verb: (done: string) => string): string {
  const { on, done, next } = CHANGES[activity.type] ?? {};
  return `${on?.(activity)} ${verb(done?.(activity) ?? '')}: ${next?.(activity, statusOf(kindOf(activity)))}`;
}

/** Changes that may have been made: their last word is that nobody knows. */
function unsettledChanges(run: RunRecord): readonly string[] {
  const last = new Map<string, ActivityRecord>();
  for (const activity of ofType(run, ...Object.keys(CHANGES))) {
    const key = `${activity.type} ${kindOf(activity)} ${CHANGES[activity.type]?.on(activity)}`;
    if (activity.state === 'completed') last.delete(key);
    else if (isUndecided(activity)) last.set(key, activity);
  }
  return [...last.values()].map((activity) => changeText(activity, (done) => `may have been ${done}`));
}

/** What an onboarding prepared before its wipe, and did not come to use. */
function preparedInVain(run: RunRecord): readonly string[] {
  if (!run.runbook.endsWith('SecondaryOnboarding') || ofType(run, 'enableSecondary').length > 0) return [];
  return completed(run, 'enablePrimary', 'writePathsFilter')
    .filter(({ result }) => result['outcome'] === 'done')
    .map((activity) => changeText(activity, (done) => `was ${done} and nothing was connected to it`));
}

/** What a run that could not say it itself cut off, and did not settle on the secondary. */
function cutOff(run: RunRecord): readonly string[] {
  const settled = run.activities
    .filter(({ type, state }) => /^(forget|disable)/.test(type) && state === 'completed')
    .map(({ input }) => input['cluster']);
  const revoked = completed(run, 'revokeSecondary').filter(
    ({ input }) => input['secondary'] === undefined || !settled.includes(input['secondary']),
  );
  return [
    ...revoked.map(
      (activity) =>
        `${secondaryName(activity)} was revoked on ${clusterName(activity)} and still is a ${kindName(activity)} secondary that looks for it: start secondaryDecommission for it again, or disable it with replicationTeardown.`,
    ),
    ...completed(run, 'disablePrimary').map(
      (activity) =>
        `${clusterName(activity)} was disabled as ${kindName(activity)} primary: each of its former secondaries still looks for it. End that with replicationTeardown, or wipe and onboard them.`,
    ),
  ];
}

const GENERATION = ['startGeneration', 'completeGeneration', 'settleGeneration'] as const;
const HAD = [...GENERATION, 'takeKeptToken', 'takeProvidedTokens', 'probeProvidedToken'] as const;
type TokenKind = 'operation-token' | 'root-token';

/** How the run came by a token of each cluster that it had one of. */
function tokensInHand(run: RunRecord, kind: TokenKind): ReadonlyMap<string, string> {
  const member = kind === 'root-token' ? 'encrypted' : 'sealed';
  const had = new Map<string, string>();
  for (const activity of completed(run, ...(kind === 'root-token' ? GENERATION : HAD))) {
    const { type, result } = activity;
    if (type === 'takeKeptToken') had.set(clusterName(activity), 'taken from the record');
    else if (type === 'takeProvidedTokens')
      for (const { cluster, token } of listOf(result['verdicts']).map(fieldsOf)) {
        if (token !== undefined) had.set(textOf(cluster) ?? 'unknown', 'given by a person');
      }
    else if (type === 'probeProvidedToken') {
      // What the cluster refuses is no operation token of it.
      if (result['state'] === 'refused') had.delete(clusterName(activity));
    } else if (result[member] !== undefined) had.set(clusterName(activity), 'generated');
  }
  return had;
}

/** Clusters where a token may have been generated: nobody found out. */
function tokensInDoubt(run: RunRecord, kind: TokenKind): readonly string[] {
  const known = [...tokensInHand(run, kind).keys(), ...completed(run, 'settleGeneration').map(clusterName)];
  const undecided = ofType(run, 'startGeneration', 'completeGeneration').filter(
    (each) => isUndecided(each) && fieldsOf(each.input['wanted'])['kind'] === kind,
  );
  return [...new Set(undecided.map(clusterName))].filter((cluster) => !known.includes(cluster));
}

/** What became of the operation token of each cluster that the run had one of, or may have. */
function tokenStates(run: RunRecord): ReadonlyMap<string, Report['tokens'][number]> {
  const inDoubt = tokensInDoubt(run, 'operation-token').map((cluster) => ({
    ...{ cluster, text: 'may exist: how its generation ended is not known' },
  }));
  const inHand = [...tokensInHand(run, 'operation-token')].map(([cluster, how]) => ({
    ...{ cluster, text: `${how}; the run did not delete it` },
  }));
  const disposals = completed(run, 'deleteOperationTokens').flatMap(({ result }) => listOf(result['disposals']));
  const last = [...inDoubt, ...inHand, ...disposals].map(fieldsOf).map(tokenState);
  return new Map(last.map((each) => [each.cluster, each]));
}

const tokenState = ({ cluster, state, text }: Fields) => ({
  cluster: textOf(cluster) ?? 'unknown',
  state: textOf(state) ?? 'unproven',
  text: textOf(text) ?? '',
});

/** What became of the tokens of this run, and of those that earlier runs left in the record, each on its own. */
export function tokensOf(run: RunRecord): Report['tokens'] {
  const ofRecord = completed(run, 'disposeLedgerToken', 'forgetLedgerToken').map(({ result }) => tokenState(result));
  return [...tokenStates(run).values(), ...ofRecord];
}

/** @param namingKept - whether also tokens that the run kept on purpose are named */
function operationTokens(run: RunRecord, namingKept: boolean): readonly string[] {
  const states = tokenStates(run);
  const fingerprint = textOf(completed(run, 'createCeremony').at(-1)?.result['fingerprint']);
  return [
    ...[...tokensInHand(run, 'operation-token')].flatMap(([cluster, how]) => {
      const state = states.get(cluster)?.state;
      if (state === 'deleted' || (state === 'kept' && !namingKept)) return [];
      return state === 'kept'
        ? [`The DR operation token of ${cluster} was kept, sealed: delete it when ${cluster} is a DR secondary again.`]
        : [
            `A DR operation token of ${cluster} was ${how} and is not proven deleted: treat it as live, and delete it with secondary/operation-token/delete.`,
          ];
    }),
    ...tokensInDoubt(run, 'operation-token').map(
      (cluster) =>
        `A generation attempt on ${cluster} may be open, or its token may exist: read generate-operation-token/attempt, and cancel it only if its fingerprint is ${fingerprint ?? 'the one of this run’s ceremony'}.`,
    ),
  ];
}

/** Root tokens that the run made, or may have made. Only their recipient can read and end them. */
function rootTokens(run: RunRecord): readonly string[] {
  return [
    ...[...tokensInHand(run, 'root-token').keys()].map(
      (cluster) =>
        `A root token of ${cluster} was generated, encrypted to its recipient, and has no lifetime: the recipient revokes it when the work is done (vault token revoke -self).`,
    ),
    ...tokensInDoubt(run, 'root-token').map(
      (cluster) =>
        `A generation attempt on ${cluster} may be open, or a root token may exist that nobody holds: read sys/generate-root/attempt, and go through auth/token/accessors for policy root.`,
    ),
  ];
}

/** Where the keys of one round are destroyed those of all its rounds are. */
function ceremonyKeys(run: RunRecord): readonly string[] {
  const placeOf = (ceremony: Fields) => JSON.stringify([ceremony['cid'], ceremony['keyHome']]);
  const destroyed = ofType(run, 'destroyCeremonyKeys')
    .filter(({ result }) => result['destroyed'] === true)
    .map(({ input }) => placeOf(fieldsOf(input['ceremony'])));
  const left = completed(run, 'createCeremony', 'createRehearsal').filter(
    ({ result }) => !destroyed.includes(placeOf(result)),
  );
  return left.map(({ result: { cid, epoch, keyHome } }) => {
    const round = typeof epoch === 'number' ? epoch : '?';
    return `The keys of ceremony ${textOf(cid) ?? 'unknown'}, round ${round} on key home ${textOf(keyHome) ?? 'unknown'} were not destroyed: check that a worker with that key directory runs and removes them.`;
  });
}

/** Clients that were held off: by the run's last word they may still be. */
function heldClients(run: RunRecord): readonly string[] {
  const hook = ofType(run, 'runHook').findLast(
    ({ input, state }) => input['hook'] === 'quiesce' || state === 'completed',
  );
  const quota = ofType(run, 'quiesceByQuota', 'releaseQuota').findLast(
    (each) => each.state === 'completed' || (each.type === 'quiesceByQuota' && isUndecided(each)),
  );
  return [
    ...(hook?.input['hook'] === 'quiesce'
      ? [
          'The quiesce hook was started and the traffic hook did not finish: check that clients are let through to the primary.',
        ]
      : []),
    ...(quota?.type === 'quiesceByQuota'
      ? [
          `The quota with which ${clusterName(quota)} refused its clients was not seen deleted: on the cluster that is primary now \`vault delete sys/quotas/rate-limit/${quotaName(run.runId)}\`.`,
        ]
      : []),
  ];
}

function openParkings(run: RunRecord): readonly string[] {
  const decided = factsOf(run, 'decided').map(({ parkingNo }) => parkingNo);
  return factsOf(run, 'parked')
    .filter(({ parkingNo }) => !decided.includes(parkingNo))
    .map(({ step, code }) => `Step “${step}” failed with ${code} and nobody decided on it.`);
}

/** Secrets that the run made and that are not proven gone. A token that the run keeps on purpose is not among them. */
function secretsLeft(run: RunRecord, namingKept = false): readonly string[] {
  return [...operationTokens(run, namingKept), ...rootTokens(run), ...ceremonyKeys(run)];
}

/** What a run that ended early left undone at the clusters, the most urgent first: roles, clients, protection. */
function workLeft(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  // What a run that was closed from outside could not say itself.
  const unsaid = (lines: readonly string[]) => (run.ending ? [] : lines);
  return [
    ...roles(run, 'performance', plan),
    ...roles(run, 'dr', plan),
    ...unsaid(wiped(run)),
    ...unsettledChanges(run),
    ...preparedInVain(run),
    ...unsaid(cutOff(run)),
    ...heldClients(run),
    ...unsaid(openParkings(run)),
    ...protection(run, plan),
  ];
}

/** What a run that could not say it itself left, the most urgent first. */
function derivedLeftToDo(run: RunRecord, plan: RunbookPlan | undefined): readonly string[] {
  if (run.close) return [...workLeft(run, plan), ...secretsLeft(run, true)];
  // The run is at work: only what it waits for is for people.
  return [...openParkings(run), ...(run.waitingFor === undefined ? [] : [`The run waits for: ${run.waitingFor}`])];
}

/** What the run said itself, what its deeds prove beside it, secrets that are not proven gone, and whatever is critical. */
export function leftToDoOf(
  run: RunRecord,
  plan: RunbookPlan | undefined,
  findings: readonly Finding[],
): readonly string[] {
  const { ending } = run;
  const work = ending?.outcome === 'aborted' ? workLeft(run, plan) : [];
  const left = ending ? [...ending.leftToDo, ...work, ...secretsLeft(run)] : derivedLeftToDo(run, plan);
  const past = earlierMerkleVerdicts(run);
  const open = findings.filter(({ code, text }) => code !== 'merkle-tree-corrupted' || !past.includes(text));
  return [...left, ...criticalLeft(open, left)];
}

/** What a check told of a tree that a later check of the run judged anew: only the last verdict stands. */
function earlierMerkleVerdicts(run: RunRecord): readonly string[] {
  const last = new Map<string, string>();
  const all: string[] = [];
  for (const { input, result } of completed(run, 'probeMerkleTree')) {
    const [cluster, text] = [textOf(input['cluster']), textOf(result['text'])];
    if (cluster === undefined || text === undefined) continue;
    all.push(text);
    if (result['verdict'] === 'sound' || result['verdict'] === 'corrupted') last.set(cluster, text);
  }
  return all.filter((text) => ![...last.values()].includes(text));
}

/** That the run was closed from outside is told by what it left; it stands here where nothing else does. */
function criticalLeft(findings: readonly Finding[], left: readonly string[]): readonly string[] {
  return findings
    .filter(({ severity, code }) => severity === 'critical' && (left.length === 0 || !CLOSED.test(code)))
    .filter(({ text }) => !left.some((line) => line.includes(text)))
    .map(({ text, next }) => `CRITICAL: ${text.replace(/[^.]$/, '$&.')}${next === undefined ? '' : ` ${next}`}`)
    .filter((line, index, all) => all.indexOf(line) === index);
}

const CLOSED = /^run-(terminated|cancelled|timed-out|failed)$/;
