import type { Report } from '../contracts/report';
import { TOKEN_KEPT } from '../contracts/run-status';
import type { Finding } from '../contracts/run-facts';
import type { ActivityRecord, Fields, RunRecord } from './run-record';
import { completed, fieldsOf, listOf, ofType, parkingsIn, textOf } from './run-record';

/*
 * What is left to do, beside what the run itself reports about its changes: secrets that are not proven gone, steps that
 * nobody decided on, and every critical finding.
 */

type TokenKind = 'operation-token' | 'root-token';

/** A token that the run had, or may have had. */
interface RunToken {
  readonly cluster: string;
  readonly kind: TokenKind;
  /** How the run obtained it. */
  readonly how?: string;
  /** It is unknown whether it was generated. */
  readonly uncertain?: true;
  readonly state: string;
  readonly text: string;
}

/** Whether it is unknown if an activity generated a token. */
function isUncertain({ type, state, failure }: ActivityRecord): boolean {
  if (type !== 'startGeneration' && type !== 'completeGeneration') return false;
  return state === 'running' || state === 'cancelled' || (state === 'failed' && failure?.outcomeKnown !== true);
}

/** The tokens that the run had of each cluster, and their last known state. */
function tokensHad(run: RunRecord): readonly RunToken[] {
  const had = new Map<string, RunToken>();
  const note = (one: RunToken) => had.set(`${one.kind} ${one.cluster}`, one);
  const noteObtained = (cluster: string, how: string, kind: TokenKind = 'operation-token') =>
    note({ cluster, kind, how, state: 'unproven', text: `${how}; the run did not delete it` });
  // Generated to be kept: the run itself reports until when.
  const isKept = run.runbook === 'operationTokenCeremony' && run.ending?.outcome === 'completed';
  for (const activity of run.activities) {
    const { type, state, input, result } = activity;
    const cluster = textOf(input['cluster']) ?? 'unknown';
    // The input of settleGeneration does not repeat which kind of token was requested.
    const ofRun = run.runbook === 'rootTokenCeremony' ? 'root-token' : 'operation-token';
    const asked = fieldsOf(input['wanted'])['kind'] ?? ofRun;
    const wanted = asked === 'root-token' ? 'root-token' : 'operation-token';
    if (isUncertain(activity) && !had.has(`${wanted} ${cluster}`)) {
      const text = 'may exist: the outcome of its generation is unknown';
      note({ cluster, kind: wanted, uncertain: true, state: 'unproven', text });
    }
    if (state !== 'completed') continue;
    if (type === 'settleGeneration')
      for (const [key, each] of had) if (each.cluster === cluster && each.uncertain) had.delete(key);
    if (GENERATION.includes(type)) {
      if (result['sealed'] !== undefined) noteObtained(cluster, 'generated');
      if (result['sealed'] !== undefined && isKept)
        note({ cluster, kind: wanted, state: 'kept', text: 'in the record, for the next drSwitchover or drFailover' });
      if (result['encrypted'] !== undefined)
        note({
          cluster,
          kind: wanted,
          state: 'handed-over',
          text: 'encrypted to its recipient, who alone can read it',
        });
    }
    if (type === 'takeKeptToken') noteObtained(cluster, 'claimed from the record');
    if (type === 'takeProvidedTokens')
      for (const verdict of listOf(result['verdicts']).map(fieldsOf))
        if (verdict['token'] !== undefined) noteObtained(textOf(verdict['cluster']) ?? 'unknown', 'given by a person');
    // A token that the cluster refuses is not one of its operation tokens.
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

/** The state of each token of this run, and of each token that earlier runs left in the record. */
export function tokensOf(run: RunRecord): Report['tokens'] {
  const ofRecord = completed(run, 'disposeLedgerToken', 'forgetLedgerToken').map(({ result }) => tokenState(result));
  const own = tokensHad(run).filter(({ kind }) => kind === 'operation-token');
  return [...own.map(({ cluster, state, text }) => ({ cluster, state, text })), ...ofRecord];
}

/** What becomes of a token that a primary cannot delete. */
const laterDeleted = (cluster: string, deployment = 'this deployment') =>
  `Later: the next run on ${deployment} deletes the operation token of ${cluster}, which stays sealed in the record until ${cluster} is a DR secondary again.`;

/** What becomes of the tokens that a run kept because they cannot be deleted yet, as far as its list of what is left does not say it. */
export function laterOf({ tokens, runbook, deployment, leftToDo }: Report): readonly string[] {
  // That ceremony keeps its token on purpose, and says until when.
  if (runbook === 'operationTokenCeremony') return [];
  const kept = tokens.filter(({ state }) => state === 'kept');
  return kept.map(({ cluster }) => laterDeleted(cluster, deployment)).filter((text) => !leftToDo.includes(text));
}

/** The findings without what the states of the tokens tell already. */
export function findingsToShow({ findings, tokens }: Report): Report['findings'] {
  const tellsKept = tokens.some(({ state }) => state === 'kept');
  return findings.filter(({ code }) => code !== TOKEN_KEPT || !tellsKept);
}

/** @param namingKept - whether to include tokens that the run kept on purpose */
function tokensLeft(run: RunRecord, namingKept: boolean): readonly string[] {
  const fingerprint = textOf(completed(run, 'createCeremony').at(-1)?.result['fingerprint']);
  return tokensHad(run).flatMap(({ cluster, kind, how, uncertain, state }) => {
    if (uncertain)
      return kind === 'operation-token'
        ? `A generation attempt on ${cluster} may be open, or its token may exist. Read generate-operation-token/attempt, and cancel the attempt only if its fingerprint is ${fingerprint ?? 'the one of this run’s ceremony'}.`
        : `A generation attempt on ${cluster} may be open, or a root token may exist that nobody holds. Read sys/generate-root/attempt, and search auth/token/accessors for tokens with policy root.`;
    // Of an operation token for a person, the run itself reports how it is deleted.
    const isReported = state === 'kept' || (state === 'handed-over' && kind === 'operation-token');
    if (state === 'deleted' || (isReported && !namingKept)) return [];
    if (state === 'kept') return laterDeleted(cluster, run.deployment);
    if (state === 'handed-over' && kind === 'operation-token')
      return `A DR operation token of ${cluster} was generated, encrypted to its recipient, and never expires. When it is not needed any more, delete it with operationTokenDisposal and \`provided\`.`;
    return kind === 'operation-token'
      ? `A DR operation token of ${cluster} was ${how} and is not proven deleted. Treat it as valid, and delete it with secondary/operation-token/delete.`
      : `A root token of ${cluster} was generated, encrypted to its recipient, and never expires. The recipient revokes it when the work is done (vault token revoke -self).`;
  });
}

/** Destroying the keys of one round of a ceremony destroys the keys of all its rounds. */
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
    return `The keys of ceremony ${textOf(cid) ?? 'unknown'}, round ${round} on key home ${textOf(keyHome) ?? 'unknown'} were not destroyed. Check that a worker with that key directory runs and removes them.`;
  });
}

function openParkings(run: RunRecord): readonly string[] {
  return parkingsIn(run)
    .filter(({ decided, ended }) => decided === undefined && ended === undefined)
    .map(({ parked: { step, code } }) => `Step “${step}” failed with ${code}, and no decision was made.`);
}

/** Secrets that the run generated and that are not proven gone. Tokens that the run keeps on purpose are not included. */
function secretsLeft(run: RunRecord, namingKept = false): readonly string[] {
  return [...tokensLeft(run, namingKept), ...ceremonyKeys(run)];
}

/** What the run itself reports, secrets that are not proven gone, and every critical finding. */
export function leftToDoOf(run: RunRecord, findings: readonly Finding[]): readonly string[] {
  const left = reportedLeft(run);
  // If a tree was checked twice, or a write was tried again, the last result counts.
  const tree = completed(run, 'probeMerkleTree').at(-1)?.result;
  const written = run.activities.findLast(({ type }) => type === 'proveWrite')?.state === 'completed';
  const open = findings.filter(({ code, text }) => {
    if (code === 'write-not-proven') return !written;
    return code !== 'merkle-tree-corrupted' || text === tree?.['text'];
  });
  return [...left, ...criticalLeft(open, left)];
}

function reportedLeft(run: RunRecord): readonly string[] {
  const { ending, close, left, waitingFor } = run;
  if (ending) return [...ending.leftToDo, ...secretsLeft(run)];
  // The run can no longer do anything, and could not report at its end which tokens it keeps.
  if (close) return [...left, ...openParkings(run), ...secretsLeft(run, true)];
  // The run is still working: people only have to do what it waits for.
  return [...openParkings(run), ...(waitingFor === undefined ? [] : [`The run waits for: ${waitingFor}`])];
}

/** Critical findings. That the run was closed from outside is listed only if nothing else is left. */
function criticalLeft(findings: readonly Finding[], left: readonly string[]): readonly string[] {
  return findings
    .filter(({ severity, code }) => severity === 'critical' && (left.length === 0 || !CLOSED.test(code)))
    .filter(({ text }) => !left.some((line) => line.includes(text)))
    .map(({ text, next }) => `CRITICAL: ${text.replace(/[^.]$/, '$&.')}${next === undefined ? '' : ` ${next}`}`)
    .filter((line, index, all) => all.indexOf(line) === index);
}

const CLOSED = /^run-(terminated|cancelled|timed-out|failed)$/;
