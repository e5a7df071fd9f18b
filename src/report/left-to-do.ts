import type { Report } from '../contracts/report';
import type { Finding } from '../contracts/run-facts';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { completed, fieldsOf, listOf, ofType, parkingsIn, textOf } from './run-record';

/*
 * What is left to do beside what a run said of its changes: secrets that are not proven gone, steps that nobody decided
 * on, and whatever is critical.
 */

type TokenKind = 'operation-token' | 'root-token';

/** A token that the run had, or may have. */
interface Had {
  readonly cluster: string;
  readonly kind: TokenKind;
  /** How the run came by it. */
  readonly how?: string;
  /** Nobody found out whether it was generated. */
  readonly inDoubt?: true;
  readonly state: string;
  readonly text: string;
}

/** Whether nobody knows if an activity generated a token. */
function isInDoubt({ type, state, failure }: ActivityRecord): boolean {
  if (type !== 'startGeneration' && type !== 'completeGeneration') return false;
  return state === 'running' || state === 'cancelled' || (state === 'failed' && failure?.outcomeKnown !== true);
}

/** What the run had of each cluster, and what became of it. */
function tokensHad(run: RunRecord): readonly Had[] {
  const had = new Map<string, Had>();
  const note = (one: Had) => had.set(`${one.kind} ${one.cluster}`, one);
  const inHand = (cluster: string, how: string, kind: TokenKind = 'operation-token') =>
    note({ cluster, kind, how, state: 'unproven', text: `${how}; the run did not delete it` });
  // Made to be kept: the run says itself until when.
  const isKept = run.runbook === 'operationTokenCeremony' && run.ending?.outcome === 'completed';
  for (const activity of run.activities) {
    const { type, state, input, result } = activity;
    const cluster = textOf(input['cluster']) ?? 'unknown';
    // Who settles a generation is not told again what was wanted.
    const ofRun = run.runbook === 'rootTokenCeremony' ? 'root-token' : 'operation-token';
    const asked = fieldsOf(input['wanted'])['kind'] ?? ofRun;
    const wanted = asked === 'root-token' ? 'root-token' : 'operation-token';
    if (isInDoubt(activity) && !had.has(`${wanted} ${cluster}`)) {
      const text = 'may exist: how its generation ended is not known';
      note({ cluster, kind: wanted, inDoubt: true, state: 'unproven', text });
    }
    if (state !== 'completed') continue;
    if (type === 'settleGeneration')
      for (const [key, each] of had) if (each.cluster === cluster && each.inDoubt) had.delete(key);
    if (GENERATION.includes(type)) {
      if (result['sealed'] !== undefined) inHand(cluster, 'generated');
      if (result['sealed'] !== undefined && isKept)
        note({ cluster, kind: wanted, state: 'kept', text: 'in the record, for the next drSwitchover or drFailover' });
      if (result['encrypted'] !== undefined) inHand(cluster, 'generated', wanted);
    }
    if (type === 'takeKeptToken') inHand(cluster, 'taken from the record');
    if (type === 'takeProvidedTokens')
      for (const verdict of listOf(result['verdicts']).map(fieldsOf))
        if (verdict['token'] !== undefined) inHand(textOf(verdict['cluster']) ?? 'unknown', 'given by a person');
    // What the cluster refuses is no operation token of it.
    if (type === 'probeProvidedToken' && result['state'] === 'refused') had.delete(`operation-token ${cluster}`);
    if (type === 'deleteOperationTokens')
      for (const disposal of listOf(result['disposals']).map(fieldsOf).map(tokenState)) {
        const before = had.get(`operation-token ${disposal.cluster}`) ?? { how: 'left by an earlier run' };
        note({ ...before, kind: 'operation-token', ...disposal });
      }
  }
  return [...had.values()];
}

const GENERATION: readonly string[] = ['startGeneration', 'completeGeneration', 'settleGeneration'];

const tokenState = ({ cluster, state, text }: Fields) => ({
  cluster: textOf(cluster) ?? 'unknown',
  state: textOf(state) ?? 'unproven',
  text: textOf(text) ?? '',
});

/** What became of the tokens of this run, and of those that earlier runs left in the record, each on its own. */
export function tokensOf(run: RunRecord): Report['tokens'] {
  const ofRecord = completed(run, 'disposeLedgerToken', 'forgetLedgerToken').map(({ result }) => tokenState(result));
  const own = tokensHad(run).filter(({ kind }) => kind === 'operation-token');
  return [...own.map(({ cluster, state, text }) => ({ cluster, state, text })), ...ofRecord];
}

/** @param namingKept - whether also tokens that the run kept on purpose are named */
function tokensLeft(run: RunRecord, namingKept: boolean): readonly string[] {
  const fingerprint = textOf(completed(run, 'createCeremony').at(-1)?.result['fingerprint']);
  return tokensHad(run).flatMap(({ cluster, kind, how, inDoubt, state }) => {
    if (inDoubt)
      return kind === 'operation-token'
        ? `A generation attempt on ${cluster} may be open, or its token may exist: read generate-operation-token/attempt, and cancel it only if its fingerprint is ${fingerprint ?? 'the one of this run’s ceremony'}.`
        : `A generation attempt on ${cluster} may be open, or a root token may exist that nobody holds: read sys/generate-root/attempt, and go through auth/token/accessors for policy root.`;
    if (state === 'deleted' || (state === 'kept' && !namingKept)) return [];
    if (state === 'kept')
      return `The DR operation token of ${cluster} was kept, sealed: delete it when ${cluster} is a DR secondary again.`;
    return kind === 'operation-token'
      ? `A DR operation token of ${cluster} was ${how} and is not proven deleted: treat it as live, and delete it with secondary/operation-token/delete.`
      : `A root token of ${cluster} was generated, encrypted to its recipient, and has no lifetime: the recipient revokes it when the work is done (vault token revoke -self).`;
  });
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
  return parkingsIn(run)
    .filter(({ decided, ended }) => decided === undefined && ended === undefined)
    .map(({ parked: { step, code } }) => `Step “${step}” failed with ${code} and nobody decided on it.`);
}

/** Secrets that the run made and that are not proven gone. A token that the run keeps on purpose is not among them. */
function secretsLeft(run: RunRecord, namingKept = false): readonly string[] {
  return [...tokensLeft(run, namingKept), ...ceremonyKeys(run)];
}

/** What the run said itself, secrets that are not proven gone, and whatever is critical. */
export function leftToDoOf(run: RunRecord, findings: readonly Finding[]): readonly string[] {
  const left = saidLeft(run);
  // Of a tree that was checked twice the last verdict counts, and of a write that was tried again.
  const tree = completed(run, 'probeMerkleTree').at(-1)?.result;
  const written = run.activities.findLast(({ type }) => type === 'proveWrite')?.state === 'completed';
  const open = findings.filter(({ code, text }) => {
    if (code === 'write-not-proven') return !written;
    return code !== 'merkle-tree-corrupted' || text === tree?.['text'];
  });
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

/** That the run was closed from outside is told by what it left; it stands here where nothing else does. */
function criticalLeft(findings: readonly Finding[], left: readonly string[]): readonly string[] {
  return findings
    .filter(({ severity, code }) => severity === 'critical' && (left.length === 0 || !CLOSED.test(code)))
    .filter(({ text }) => !left.some((line) => line.includes(text)))
    .map(({ text, next }) => `CRITICAL: ${text.replace(/[^.]$/, '$&.')}${next === undefined ? '' : ` ${next}`}`)
    .filter((line, index, all) => all.indexOf(line) === index);
}

const CLOSED = /^run-(terminated|cancelled|timed-out|failed)$/;
