import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { completed, factsOf, fieldsOf, listOf, ofType, textOf } from './run-record';

/*
 * What is left to do beside what a run said of its changes: secrets that are not proven gone, steps that nobody decided
 * on, and whatever is critical.
 */

/** Whether it is not known if a change took effect. */
function isUndecided({ state, failure }: ActivityRecord): boolean {
  return state === 'running' || state === 'cancelled' || (state === 'failed' && failure?.outcomeKnown !== true);
}

const clusterName = ({ input }: ActivityRecord) => textOf(input['cluster']) ?? 'unknown';

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

/** What the run said itself, secrets that are not proven gone, and whatever is critical. */
export function leftToDoOf(run: RunRecord, findings: readonly Finding[]): readonly string[] {
  const left = saidLeft(run);
  const past = earlierMerkleVerdicts(run);
  const open = findings.filter(({ code, text }) => code !== 'merkle-tree-corrupted' || !past.includes(text));
  return [...left, ...criticalLeft(open, left)];
}

function saidLeft(run: RunRecord): readonly string[] {
  const { ending, close, left, waitingFor } = run;
  if (ending) return [...ending.leftToDo, ...secretsLeft(run)];
  // Nobody sees to it any more, and the run could not say last what it keeps.
  if (close) return [...left, ...openParkings(run), ...secretsLeft(run, true)];
  // The run is at work: only what it waits for is for people.
  return [...openParkings(run), ...(waitingFor === undefined ? [] : [`The run waits for: ${waitingFor}`])];
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
