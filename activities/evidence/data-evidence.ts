import { randomUUID } from 'node:crypto';
import type { LossEvidence, RunbookActivities } from '../../src/contracts/activities';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { describeReplication, heartbeatAge, isAlive } from '../observe';
import { kindName, readKind } from '../joining/onboarding-read';
import { CHANGE_TIMEOUT_MS, awaitState } from '../read-act-confirm';

/** What proves that the new primary has every write of the old one (facts 3.3). */
export function createDataEvidenceActivities(
  clusters: Clusters,
): Pick<RunbookActivities, 'writeMarker' | 'awaitCatchUp' | 'compareAfterDemotion'> {
  return {
    writeMarker: executeChange(async ({ deployment, cluster, kind = 'dr' }, { signal, run }) => {
      const access = clusters.of(deployment, cluster);
      const { path } = clusters.deployment(deployment).marker;
      const token = await access.credential();
      const value = randomUUID();
      // Writing twice is harmless: the last value counts, and the WAL index is read after it.
      await access.client.keyValue.write(
        { path, data: { value, run: run.rid } },
        { token, signal, timeoutMs: CHANGE_TIMEOUT_MS },
      );
      const replication = await readKind(access, kind, signal);
      if (replication.mode !== 'primary' || replication.lastWal === undefined) {
        throw new RunbookError(
          'PRECONDITION_FAILED',
          `${cluster} does not tell its last ${kindName(kind)} WAL index.`,
          {
            cluster,
            observed: describeReplication(replication),
            needed: `a primary that tells last_${kind}_wal`,
            next: 'Version 1.4 or later of the service is needed.',
          },
        );
      }
      return { path, value, wal: replication.lastWal, at: Date.now() };
    }),

    awaitCatchUp: execute(async ({ deployment, primary, secondary, wal, kind = 'dr' }, execution) => {
      const { signal } = execution;
      const access = clusters.of(deployment, secondary);
      const { limits } = clusters.deployment(deployment);
      const target = BigInt(wal);
      let samples = 0;
      const state = await awaitState(execution, {
        read: () => readKind(access, kind, signal),
        until: (dr) => {
          samples += 1;
          // Once is enough: a demotion looks again, with the same demands, right before it is sent.
          return (
            BigInt(dr.lastRemoteWal ?? '0') >= target &&
            dr.state === 'stream-wals' &&
            isAlive(dr, limits.heartbeatAgeMs)
          );
        },
        budgetMs: limits.catchUpMs,
        describe: describeReplication,
        needed: `last_remote_wal of ${secondary} at least ${wal}, streaming, connected, fresh heartbeat`,
        cluster: secondary,
      });
      const source = await readKind(clusters.of(deployment, primary), kind, signal);
      return {
        target: wal,
        reached: state.lastRemoteWal ?? '0',
        samples,
        heartbeatAgeMs: heartbeatAge(state),
        primaryWal: source.lastWal,
        at: Date.now(),
      };
    }),

    compareAfterDemotion: execute(
      async ({ deployment, oldPrimary, newPrimary, walBefore, kind = 'dr' }, execution): Promise<LossEvidence> => {
        const { signal } = execution;
        const { limits } = clusters.deployment(deployment);
        let reached: string | undefined;
        const roots = async () => {
          const [former, next] = await Promise.all([
            readKind(clusters.of(deployment, oldPrimary), kind, signal),
            readKind(clusters.of(deployment, newPrimary), kind, signal),
          ]);
          reached = next.lastRemoteWal ?? reached;
          return { oldPrimaryRoot: former.merkleRoot, newPrimaryRoot: next.merkleRoot };
        };
        const readable = (seen: Awaited<ReturnType<typeof roots>>) =>
          seen.oldPrimaryRoot !== undefined && seen.newPrimaryRoot !== undefined;
        try {
          const seen = await awaitState(execution, {
            read: roots,
            // A secondary that still applies what it received comes to the same root a moment later.
            until: (each) => readable(each) && each.oldPrimaryRoot === each.newPrimaryRoot,
            budgetMs: limits.merkleEvidenceMs,
            describe: (each) => `roots ${each.oldPrimaryRoot ?? 'not told'} and ${each.newPrimaryRoot ?? 'not told'}`,
            needed: `equal Merkle roots of ${oldPrimary} and ${newPrimary}`,
          });
          return {
            loss: 'none',
            ...seen,
            why: `the Merkle roots of ${oldPrimary} and ${newPrimary} are equal after the demotion`,
          };
        } catch (error) {
          if (!isRunbookError(error, 'CONFIRMATION_TIMEOUT')) throw error;
          const bound =
            walBefore !== undefined && reached !== undefined ? BigInt(walBefore) - BigInt(reached) : undefined;
          const behind =
            bound === undefined
              ? 'how far is not known'
              : `at most ${bound > 0n ? bound : 0n} WAL entries up to the last read before the demotion, and what was written between that read and the demotion`;
          return {
            loss: 'bounded',
            ...(bound === undefined ? {} : { boundWalEntries: (bound > 0n ? bound : 0n).toString() }),
            why: `equal Merkle roots were not seen (${error.observed ?? 'nothing read'}); ${newPrimary} is behind by ${behind}`,
          };
        }
      },
    ),
  };
}
