import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { RunbookError, isRunbookError, orElse } from '../../src/errors';
import type { Deployment } from '../../src/inventory';
import { apiPathOf } from '../../src/vault';
import type { KeyPlace } from '../../src/vault';
import { causeOf, check } from '../checks/check';
import { NotRead, within } from '../checks/within';
import { BROKEN, followPrimary, fixServerError } from '../checks/credentials';
import type { Rights } from '../checks/rights';
import type { ClusterAccess } from '../clusters';
import { TOKEN_ENDED } from '../logins';
import { readStatus } from '../observe';

/** The key beside the marker. Plans and readiness write it and read it back; on a new primary it proves a write. */
const BESIDE = '-after';
/** A performance secondary forwards a write to its primary, and has it itself a moment later. */
const READ_PAUSE_MS = 200;
/** Another plan may write at the same moment: after this time without our value, it is written again, ms. */
const AGAIN_MS = 2_000;
/** Time for the whole check. Whoever limits it from outside leaves more. */
export const MARKER_CHECK_MS = 6_000;
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
  const elsewhere = 'Set marker.path in the inventory to a key below another mount, which is replicated.';
  const refused = (observed: string, next?: string): RunbookError =>
    new RunbookError(
      'PRECONDITION_FAILED',
      `${path} on ${entry.name} is not in a key-value engine that the workers can use.`,
      {
        cluster: entry.name,
        observed,
        needed: `a replicated key-value engine, version 1 or 2, with rights on ${path} for the credential of ${entry.name}`,
        next:
          next ??
          `Enable one there: "vault secrets enable -path=${first} -version=2 kv"; or add these rights to the policy of the credential (version 2): path "${first}/data/${path.slice(first.length + 1)}*" { capabilities = ["create", "read", "update"] }`,
      },
    );
  const found = await client.sys
    .mountOf(path, { token: await access.credential(), signal })
    .catch((error: unknown): never => {
      if (!isRunbookError(error, 'PERMISSION_DENIED') || error.observed === TOKEN_ENDED) throw error;
      throw refused('403: no such mount, or no rights below it');
    });
  if (found.type !== 'kv' || !path.startsWith(found.path))
    throw refused(`an engine of type ${found.type} at ${found.path}`, elsewhere);
  // A local mount is never replicated to a performance secondary.
  if (found.local === true) throw refused(`a local mount at ${found.path}`, elsewhere);
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
  let sawAnother = false;
  const failed = (observed: string, next: string) => ({
    judged: check(MARKER_CHECK, name, false, {
      ...{ observed: `${places ? apiPathOf(places.beside) : deployment.marker.path}: ${observed}`, needed, next },
    }),
    rights: places ? markerRights(places) : {},
  });
  try {
    return await within(
      signal,
      async (limited) => {
        places = await lookUpMarker(access, deployment, limited);
        const observed = await writeAndRead(access, places.beside, limited, () => (sawAnother = true));
        return { judged: check(MARKER_CHECK, name, true, { observed, needed }), rights: markerRights(places) };
      },
      MARKER_CHECK_MS,
    );
  } catch (error) {
    const path = places && apiPathOf(places.beside);
    if (error instanceof NotRead) {
      const seen = sawAnother ? 'a different value than the one written' : 'no value written and read back';
      return failed(`${seen}, for ${MARKER_CHECK_MS / 1_000} s`, slowFix(name));
    }
    if (!isRunbookError(error)) throw error;
    const reads = path !== undefined && error.code === 'SERVICE_ERROR' ? ', while reads are answered' : '';
    const { mode } = await readStatus(access, 'performance', signal).catch(orElse(signal, () => ({ mode: undefined })));
    const forwards = mode === 'secondary' && path !== undefined && error.code === 'SERVICE_ERROR';
    const fix = forwards ? followPrimary(name) : markerFix(name, path, error);
    return failed(`${error.observed ?? causeOf(error)}${reads}`, fix);
  }
}

function slowFix(cluster: string): string {
  return `Find out what slows ${cluster} down, or which cache between the workers and ${cluster} answers with old values: a switchover writes there while no cluster serves.`;
}

function markerFix(cluster: string, path: string | undefined, { code, next, httpStatus }: RunbookError): string {
  // A failed look at one mount says nothing about the storage of the cluster.
  if (BROKEN.has(code) && path !== undefined) return fixServerError(cluster, { code, httpStatus });
  switch (path === undefined ? undefined : code) {
    case 'PERMISSION_DENIED':
      return `Add to the policy of the credential of ${cluster}: path "${path}" { capabilities = ["create", "read", "update"] }`;
    case 'BAD_REQUEST':
      return `The key-value engine refuses the write for the reason that it gives. The workers write without check-and-set: allow that for this key (cas_required=false), wait if the engine is being upgraded, or set another marker.path in the inventory.`;
    default:
      return next ?? `Check that ${cluster} accepts the workers' credential and that its key-value engine answers.`;
  }
}

const MARKER_CHECK = 'marker written and read back';

async function writeAndRead(
  { client, ...access }: ClusterAccess,
  place: KeyPlace,
  signal: AbortSignal,
  onAnother: () => void,
) {
  const options = { token: await access.credential(), signal, timeoutMs: MARKER_TIMEOUT_MS };
  for (;;) {
    const value = randomUUID();
    await client.keyValue.write({ ...place, data: { value } }, options);
    const again = Date.now() + AGAIN_MS;
    do {
      const read = await client.keyValue.read(place, options);
      if (read?.['value'] === value) return `${apiPathOf(place)}, version ${place.version}`;
      onAnother();
      await delay(READ_PAUSE_MS, undefined, { signal });
    } while (Date.now() < again);
  }
}
