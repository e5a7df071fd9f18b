import { createHash, randomUUID } from 'node:crypto';
import { link, mkdir, open, readFile, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Precondition } from '../../../src/contracts/plan';
import { RunbookError } from '../../../src/errors';
import type { Deployment } from '../../../src/inventory';
import type { RunContext } from '../../../src/secrets';
import { errnoOf } from '../../../src/secrets/errno';

/** An entry of the inventory that permits to wipe one cluster once. */
export type WipePermission = Deployment['wipeAllowList'][number];

const useSchema = z.strictObject({
  version: z.literal(1),
  deployment: z.string(),
  cluster: z.string(),
  clusterId: z.string(),
  until: z.string(),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  at: z.string(),
});
/** Which run used up a permission, and when (ISO time). */
export type WipeUse = z.infer<typeof useSchema>;

/**
 * The permissions of the inventory to wipe a cluster that were used up. Each serves one run: what a run takes is written
 * and synced before its call, and stays taken whatever comes of it. Lives beside the token ledger and outlives runs.
 */
export class WipePermissions {
  readonly #directory: string;

  constructor(ledgerDirectory: string) {
    // A directory of its own: the ledger reads every file of its directory.
    this.#directory = join(ledgerDirectory, 'wipe-permissions');
  }

  /** Who used it; undefined where nobody did. */
  async use(deployment: string, permission: WipePermission): Promise<WipeUse | 'unreadable' | undefined> {
    const text = await readFile(this.#file(deployment, permission), 'utf8').catch((error: unknown) => {
      if (errnoOf(error) === 'ENOENT') return undefined;
      throw unusable(error, permission.cluster);
    });
    if (text === undefined) return undefined;
    return useSchema.safeParse(parse(text)).data ?? 'unreadable';
  }

  /**
   * Takes a permission for a run, for good. A run that took it before goes on.
   *
   * @throws RunbookError PRECONDITION_FAILED where another run used it, or where this cannot be kept
   */
  async take(deployment: string, permission: WipePermission, run: RunContext): Promise<void> {
    const { cluster, clusterId, until } = permission;
    const { ns, wid, rid } = run;
    const use: WipeUse = {
      version: 1,
      deployment,
      cluster,
      clusterId,
      until,
      ns,
      wid,
      rid,
      at: new Date().toISOString(),
    };
    const file = this.#file(deployment, permission);
    const draft = `${file}.${randomUUID()}.tmp`;
    try {
      await mkdir(this.#directory, { recursive: true, mode: 0o700 });
      const handle = await open(draft, 'wx', 0o600);
      await handle
        .writeFile(JSON.stringify(use))
        .then(() => handle.sync())
        .finally(() => handle.close());
      // Complete or not there at all, and of two runs only one gets it.
      await link(draft, file);
      const directory = await open(this.#directory, 'r');
      await directory.sync().finally(() => directory.close());
    } catch (error) {
      if (errnoOf(error) !== 'EEXIST') throw unusable(error, cluster);
      const before = await this.use(deployment, permission);
      if (!isUseOf(before, run)) throw notPermitted(cluster, usedText(before), deployment, clusterId);
    } finally {
      await unlink(draft).catch(() => undefined);
    }
  }

  #file(deployment: string, { cluster, clusterId, until }: WipePermission): string {
    const name = createHash('sha256')
      .update(JSON.stringify([deployment, cluster, clusterId, until]))
      .digest('hex');
    return join(this.#directory, `${name}.json`);
  }
}

/** The permission that counts for a cluster, with what stands against it. */
export async function findPermission(
  permissions: WipePermissions,
  deployment: Deployment,
  cluster: string,
  clusterId: string,
  run: RunContext,
): Promise<{ readonly permission?: WipePermission; readonly takenByRun: boolean; readonly refusal?: string }> {
  const entries = deployment.wipeAllowList.filter((each) => each.cluster === cluster);
  if (entries.length === 0) return { takenByRun: false, refusal: `${cluster} is not on the list` };
  const refusals: string[] = [];
  for (const permission of entries) {
    if (permission.clusterId !== clusterId) {
      refusals.push(`listed for cluster ID ${permission.clusterId}`);
      continue;
    }
    const use = await permissions.use(deployment.name, permission);
    if (isUseOf(use, run)) return { permission, takenByRun: true };
    if (use !== undefined) refusals.push(usedText(use));
    else if (Date.parse(permission.until) <= Date.now()) refusals.push(`expired at ${permission.until}`);
    else return { permission, takenByRun: false };
  }
  return { takenByRun: false, refusal: refusals.join('; ') };
}

/** Whether this run took a permission to wipe this cluster, and so may have wiped it already. */
export async function hasTaken(
  permissions: WipePermissions,
  deployment: Deployment,
  cluster: string,
  run: RunContext,
): Promise<boolean> {
  for (const permission of deployment.wipeAllowList.filter((each) => each.cluster === cluster))
    if (isUseOf(await permissions.use(deployment.name, permission), run)) return true;
  return false;
}

/** As a precondition: says what to write into the inventory where nothing permits the wipe. */
export function permissionVerdict(
  deployment: string,
  cluster: string,
  clusterId: string,
  found: { readonly permission?: WipePermission; readonly refusal?: string },
): Precondition {
  const { permission, refusal } = found;
  return {
    name: 'permission to wipe',
    cluster,
    observed: permission ? `cluster ID ${clusterId}, until ${permission.until}` : (refusal ?? 'none'),
    needed: `an unused entry for ${cluster} with cluster ID ${clusterId} that has not expired`,
    verdict: permission ? 'ok' : 'fail',
    ...(permission ? {} : { next: whatToWrite(deployment, cluster, clusterId) }),
  };
}

/** @returns the error of an activity that found no permission right before its call */
export function notPermitted(cluster: string, observed: string, deployment: string, clusterId: string): RunbookError {
  return new RunbookError('PRECONDITION_FAILED', `Nothing permits to wipe ${cluster}: ${observed}.`, {
    cluster,
    observed,
    needed: `an unused entry of wipeAllowList for ${cluster} with cluster ID ${clusterId}`,
    next: whatToWrite(deployment, cluster, clusterId),
  });
}

function whatToWrite(deployment: string, cluster: string, clusterId: string): string {
  return `If ${cluster} (cluster ID ${clusterId}) may really be wiped, write into the inventory, under deployments.${deployment}.wipeAllowList: {cluster: ${cluster}, clusterId: ${clusterId}, until: <ISO time, some hours from now>}, restart the workers, and start again. An entry serves one run.`;
}

function isUseOf(use: WipeUse | 'unreadable' | undefined, { ns, wid, rid }: RunContext): boolean {
  return typeof use === 'object' && use.ns === ns && use.wid === wid && use.rid === rid;
}

function usedText(use: WipeUse | 'unreadable' | undefined): string {
  return typeof use === 'object' ? `used by run ${use.rid} of ${use.wid} at ${use.at}` : 'used';
}

function unusable(error: unknown, cluster: string): RunbookError {
  return new RunbookError(
    'PRECONDITION_FAILED',
    'The used wipe permissions of this worker cannot be read or written.',
    {
      cluster,
      observed: errnoOf(error) ?? 'not usable',
      needed: 'a ledger directory on a disk with space, which the worker may write',
      next: 'Put the ledger directory of the worker in order, then retry.',
    },
  );
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
