import { BROKEN, CANNOT_FORWARD, fixServerError, followPrimary, stopBroken } from '../checks/credentials';
import { quotasOfRuns } from '../checks/quiesce';
import type { OnCluster, OfKind } from '../../src/contracts/activities';
import type { Finding } from '../../src/contracts/run-facts';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { Secret } from '../../src/secret';
import { diagnoseServerError } from '../../src/vault';
import type { KeyPlace } from '../../src/vault';
import type { ClusterAccess } from '../clusters';
import { currentExecution, onCluster } from '../execution';
import { describeReplication, readStatus } from '../observe';
import { awaitAnswer, awaitState } from '../read-act-confirm';
import type { MarkerResult } from './data-evidence';
import { MARKER_TIMEOUT_MS, lookUpMarker, markerPlaces } from './marker';

interface ServiceReadyResult {
  readonly readyAt: number;
  readonly observed: string;
  readonly findings?: readonly Finding[];
  /** A run's replicated quota refuses clients here; `not-known` if the quotas could not be read. */
  readonly clientsRefused?: 'by-quota' | 'not-known';
  /** It takes the place of a performance secondary: it serves writes only once it follows the performance primary. */
  readonly followsPrimary?: true;
}

/** The cluster that must serve as primary of this kind. */
interface ServeInput extends OnCluster, OfKind {
  /** Its value is read at the path that the inventory names. */
  readonly marker?: Pick<MarkerResult, 'place' | 'value'>;
  /** For kind `dr`: the cluster of the DR set whose credential from before the change is used. Default: its own. */
  readonly credentialOf?: string;
}

/** The cluster does not accept our credential. That says nothing about the service, so clients are released anyway. */
const OUR_OWN: ReadonlySet<string> = new Set(['PERMISSION_DENIED', 'CREDENTIAL_UNAVAILABLE']);

/**
 * Waits until a cluster serves as primary of its kind: it is running, the marker is there, and the same node is active
 * before and after the marker is read. The read in between is the evidence of stability: there is no waiting time. That
 * the cluster accepts a write is proven after clients are released.
 */
export async function awaitServiceReady(input: ServeInput): Promise<ServiceReadyResult> {
  const { kind, cluster, marker } = input;
  const { execution, signal, limits, access } = clusterToServe(input);
  const { client, credential } = access;
  let refusedSince: number | undefined;
  let contradicted = false;

  /** Reads as clients do: with a token from before the role change, which also proves that tokens were replicated. */
  const useIt = async (): Promise<{ readonly missing?: string; readonly refused?: string }> => {
    try {
      const options = { token: await credential(), signal };
      if (marker === undefined) await named(access, options, client.sys.lookupSelf(options));
      else {
        const place = await placeOf(input, access);
        const data = await named(access, options, client.keyValue.read(place, options));
        contradicted = data?.['value'] !== marker.value;
        if (contradicted) return { missing: data === undefined ? 'no marker' : 'a different marker' };
      }
      refusedSince = undefined;
      return {};
    } catch (error) {
      if (!isRunbookError(error) || !OUR_OWN.has(error.code)) throw error;
      refusedSince ??= performance.now();
      return performance.now() - refusedSince > execution.timing.refusedMs
        ? { refused: error.code }
        : { missing: error.code };
    }
  };
  /** What is missing, as text; or the result if the cluster is ready. */
  const tryToUse = async (): Promise<string | ServiceReadyResult> => {
    contradicted = false;
    const state = await readStatus(access, kind, signal);
    const node = await client.activeNode({ signal });
    if (state.mode !== 'primary' || state.state !== 'running')
      return `${describeReplication(state)}, active node ${node}`;
    const { missing, refused } = await useIt();
    if (missing !== undefined) return missing;
    client.forgetActiveNode();
    const after = await client.activeNode({ signal });
    if (after !== node) return `active node ${node} before a read, ${after} after it`;
    const read = refused === undefined && marker ? ', marker read' : '';
    const findings = refused === undefined ? {} : { findings: [notRead(cluster, refused)] };
    return { readyAt: Date.now(), observed: `active node ${node} before and after${read}`, ...findings };
  };
  const ready = await awaitState(execution, {
    read: tryToUse,
    until: (tried) => typeof tried !== 'string',
    budgetMs: limits.serviceReadyMs,
    describe: (tried) => (typeof tried === 'string' ? tried : 'ready'),
    needed: `${cluster} is primary and running, ${marker ? 'the marker of this run is read, ' : ''}and its active node is the same before and after`,
    cluster,
    pollMs: 200,
  }).catch((error: unknown): never => {
    if (!contradicted || !isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
    const { observed, needed } = error;
    throw new RunbookError('STATE_DIVERGED', `${cluster} does not have the last write before the demotion.`, {
      cluster,
      observed,
      needed,
      next: `Check the data on ${cluster} before clients write there. "skip" directs clients there anyway.`,
    });
  });
  if (typeof ready === 'string') throw new TypeError('ready without evidence');
  const [left, follows] = await Promise.all([
    quotasOfRuns(access, signal),
    kind === 'dr' && isFollower(access, signal),
  ]);
  const clientsRefused = left === undefined ? 'not-known' : left.length > 0 ? 'by-quota' : undefined;
  return { ...ready, ...(clientsRefused && { clientsRefused }), ...(follows && { followsPrimary: true }) };
}

/** Whether a cluster is a performance secondary; false also if it does not answer. */
async function isFollower(access: ClusterAccess, signal: AbortSignal): Promise<boolean> {
  const { mode } = await readStatus(access, 'performance', signal).catch(orElse(signal, () => ({ mode: undefined })));
  return mode === 'secondary';
}

function notRead(cluster: string, code: string): Finding {
  return {
    severity: 'warning',
    code: 'marker-not-read',
    text: `${cluster} is primary and running, but refused the workers' credential (${code}): its data was not read. Clients are released anyway.`,
    next: `Renew the credential of ${cluster} at its source, and read a key that was written recently.`,
  };
}

/** An authenticated write on the cluster that serves, after clients were released. */
export async function proveWrite(input: ServeInput) {
  const { cluster } = input;
  const { execution, signal, limits, access } = clusterToServe(input);
  let last: unknown;
  let failures = 0;
  try {
    await awaitAnswer(execution, {
      read: async () => {
        last = undefined;
        const options = { token: await access.credential(), signal, timeoutMs: MARKER_TIMEOUT_MS };
        const { beside } = markerPlaces(await placeOf(input, access));
        const write = access.client.keyValue.write({ ...beside, data: { writtenOn: cluster } }, options);
        return named(access, options, write).catch((error: unknown): never => {
          last = error;
          failures += 1;
          throw error;
        });
      },
      budgetMs: limits.serviceReadyMs,
      needed: `${cluster} accepts an authenticated write`,
      cluster,
    });
  } catch (error) {
    if (!isRunbookError(error)) throw error;
    const text = `${cluster} accepted no write from the workers: ${error.code}${error.observed === undefined ? '' : `, ${error.observed}`}.`;
    const broken =
      isRunbookError(last) && BROKEN.has(last.code) ? await brokenFix(access, last, failures, signal) : undefined;
    const fix = broken ?? error.next;
    const next = `Check immediately whether clients can write to ${cluster}. ${fix ?? ''}`.trim();
    throw error.with({
      retryable: false,
      next: fix,
      findings: [{ severity: 'critical', code: 'write-not-proven', text, next }],
    });
  }
  return { writtenAt: Date.now(), observed: 'write done' };
}

/** This many failed writes, and none that succeeded, agree that the cluster is broken. */
const AGREEING_WRITES = 3;

/** A cluster is stopped only for what several facts agree on, and never for want of its own primary. */
async function brokenFix(
  access: ClusterAccess,
  error: RunbookError,
  failures: number,
  signal: AbortSignal,
): Promise<string> {
  const cluster = access.entry.name;
  if (error.code === 'SERVICE_ERROR' && (await isFollower(access, signal)))
    return `${cluster} is a performance secondary, and may not be connected to its primary. ${CANNOT_FORWARD} ${followPrimary(cluster)}`;
  return failures >= AGREEING_WRITES ? stopBroken(cluster, error.httpStatus) : fixServerError(cluster, error);
}

/** The access to a cluster that must serve, with the credential from before the role change. */
function clusterToServe(input: ServeInput) {
  const { deployment, kind, cluster, credentialOf = cluster } = input;
  const { access, ...others } = onCluster(input);
  // A performance secondary does not know tokens of another cluster; the client sends none to another DR set.
  const shared = others.clusters.of(deployment, kind === 'dr' ? credentialOf : cluster);
  return { ...others, access: { ...access, credential: () => shared.credential() } };
}

/** Where the marker was written before the outage; looked up if that is unknown or differs from the inventory. */
async function placeOf({ deployment, marker }: ServeInput, access: ClusterAccess): Promise<KeyPlace> {
  const { clusters, signal } = currentExecution();
  const entry = clusters.deployment(deployment);
  if (marker && `${marker.place.mount}/${marker.place.path}` === entry.marker.path) return marker.place;
  return (await lookUpMarker(access, entry, signal)).marker;
}

/** A blocked audit device looks like a cluster that never becomes ready: the error names it. */
function named<T>({ client }: ClusterAccess, options: { token: Secret; signal: AbortSignal }, call: Promise<T>) {
  return call.catch(async (error: unknown): Promise<never> => {
    throw await diagnoseServerError(client, error, options);
  });
}
