import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { apiPathOf } from '../../src/vault';
import type { KeyPlace } from '../../src/vault';
import { check } from '../checks/check';
import { BROKEN, stopBroken } from '../checks/credentials';
import type { Rights } from '../checks/credentials';
import type { ClusterAccess } from '../clusters';
import { TOKEN_ENDED } from '../logins';

/** The key beside the marker. Plans and readiness write it and read it back; on a new primary it proves a write. */
const BESIDE = '-after';
/** Another plan may write at the same moment. */
const TRIES = 3;
/** A performance secondary forwards a write to its primary, and has it itself a moment later. */
const READS = 15;
const READ_PAUSE_MS = 200;
/** Shorter than heartbeat timeout plus retry interval (decision 21): two attempts never write at the same time, ms. */
export const MARKER_TIMEOUT_MS = 5_000;

/** The two keys of a deployment's marker, as located on a cluster. */
interface MarkerPlaces {
  readonly marker: KeyPlace;
  readonly beside: KeyPlace;
}

/** Locates both keys. The cluster reports engine and version; the inventory states neither. */
export async function lookUpMarker(access: ClusterAccess, { marker: { path } }: Deployment, signal: AbortSignal) {
  const { client, entry } = access;
  const [first = ''] = path.split('/');
  const refused = (observed: string): RunbookError =>
    new RunbookError(
      'PRECONDITION_FAILED',
      `${path} on ${entry.name} is not in a key-value engine that the workers can use.`,
      {
        cluster: entry.name,
        observed,
        needed: `a replicated key-value engine, version 1 or 2, with rights on ${path} for the credential of ${entry.name}`,
        next: `Enable one there: "vault secrets enable -path=${first} -version=2 kv"; or add these rights to the policy of the credential (version 2): path "${first}/data/${path.slice(first.length + 1)}*" { capabilities = ["create", "read", "update"] }`,
      },
    );
  const found = await client.sys
    .mountOf(path, { token: await access.credential(), signal })
    .catch((error: unknown): never => {
      if (!isRunbookError(error, 'PERMISSION_DENIED') || error.observed === TOKEN_ENDED) throw error;
      throw refused('403: no such mount, or no rights below it');
    });
  if (found.type !== 'kv' || !path.startsWith(found.path))
    throw refused(`an engine of type ${found.type} at ${found.path}`);
  // A local mount is never replicated to a performance secondary.
  if (found.local === true) throw refused(`a local mount at ${found.path}`);
  const { version } = found.options;
  const marker = { mount: found.path.slice(0, -1), path: path.slice(found.path.length) };
  return markerPlaces({ ...marker, version: version === '2' ? 2 : 1 });
}

/** @param marker - its location, as a cluster reported it */
export function markerPlaces(marker: KeyPlace): MarkerPlaces {
  return { marker, beside: { ...marker, path: `${marker.path}${BESIDE}` } };
}

/** The rights that the workers' credential needs for the marker. */
export function markerRights({ marker, beside }: MarkerPlaces): Rights {
  return Object.fromEntries([marker, beside].map((place) => [apiPathOf(place), ['read', 'create|update']]));
}

/**
 * Locates the marker's engine, and writes and reads a key beside the marker: a capability does not prove that the mount
 * exists. The marker itself is not touched, because a run may be waiting for it.
 */
export async function checkMarker(access: ClusterAccess, deployment: Deployment, signal: AbortSignal) {
  const { name } = access.entry;
  const needed = 'a value written beside the marker and read back';
  let places: MarkerPlaces | undefined;
  try {
    places = await lookUpMarker(access, deployment, signal);
    const observed = await writeAndRead(access, places.beside, signal);
    const judged = check(MARKER_CHECK, name, observed.good, { ...observed, needed });
    return { judged, rights: markerRights(places) };
  } catch (error) {
    if (!isRunbookError(error) || signal.aborted) throw error;
    const path = places && apiPathOf(places.beside);
    const reads = places && error.code === 'SERVICE_ERROR' ? ', while reads are answered' : '';
    const failed = { observed: `${path ?? deployment.marker.path}: ${error.observed ?? error.code}${reads}`, needed };
    const next = markerFix(name, path, error);
    return {
      judged: check(MARKER_CHECK, name, false, { ...failed, next }),
      rights: places ? markerRights(places) : {},
    };
  }
}

function markerFix(cluster: string, path: string | undefined, { code, next, httpStatus }: RunbookError): string {
  if (BROKEN.has(code)) return stopBroken(cluster, httpStatus);
  return path !== undefined && code === 'PERMISSION_DENIED'
    ? `Add to the policy of the credential of ${cluster}: path "${path}" { capabilities = ["create", "read", "update"] }`
    : (next ?? `Check that ${cluster} accepts the workers' credential and that its key-value engine answers.`);
}

const MARKER_CHECK = 'marker written and read back';

async function writeAndRead({ client, ...access }: ClusterAccess, place: KeyPlace, signal: AbortSignal) {
  const options = { token: await access.credential(), signal, timeoutMs: MARKER_TIMEOUT_MS };
  const where = `${apiPathOf(place)}, version ${place.version}`;
  for (let tries = 1; tries <= TRIES; tries += 1) {
    const value = randomUUID();
    await client.keyValue.write({ ...place, data: { value } }, options);
    for (let reads = 1; reads <= READS; reads += 1) {
      const read = await client.keyValue.read(place, options);
      if (read?.['value'] === value) return { good: true, observed: where };
      await delay(READ_PAUSE_MS, undefined, { signal });
    }
  }
  return { good: false, observed: `${where}: a different value than the one written` };
}
