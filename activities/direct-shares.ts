import type { DirectSharesActivities } from '../src/contracts/activities';
import type { CeremonyHandle } from '../src/contracts/ceremony';
import type { Finding } from '../src/contracts/run-facts';
import { RunbookError, isRunbookError } from '../src/errors';
import type { Invitation, KeyRecord, RunContext } from '../src/secrets';
import { readOwnInvitation } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { ArrivedSignals } from './support/approvals/arrived-signals';
import { verifyBeginning, verifyOperation } from './support/approvals/authority';
import { ownRecord } from './support/ceremony/ceremony-burst';
import type { Clusters } from './support/clusters';
import type { DirectSlot } from './support/ceremony/direct-attempt';
import { endForHolders, startForHolders } from './support/ceremony/direct-attempt';
import { everyEntryOf } from './support/ceremony/direct-entries';
import { followAttempt } from './support/ceremony/direct-follow';
import { NO_CEREMONY_TEXT, readHandedIn } from './support/ceremony/encoded-token';
import { execute, executeChange } from './support/execution';
import type { Execution } from './support/execution';
import type { TakenRootToken } from './support/ceremony/handed-in-root-token';
import { takeHandedInRoot } from './support/ceremony/handed-in-root-token';
import type { Held, TakenToken } from './support/ceremony/handed-in-token';
import { takeHandedIn } from './support/ceremony/handed-in-token';
import { observeCluster } from './support/observe';
import { awaitClusterId } from './support/operation-token';
import { usableRecipient } from './support/ceremony/recipient';
import { TokenLedger } from './support/ceremony/token-ledger';

/** Shares that holders enter in the service themselves, and encrypted tokens that people hand in. */
export function createDirectSharesActivities(
  dependencies: ActivityDependencies,
  clusters: Clusters,
): DirectSharesActivities {
  const { inventory, signingKey } = dependencies;
  const ledger = new TokenLedger(dependencies.ledgerDirectory);

  const heldBy = async (ceremony: CeremonyHandle, run: RunContext): Promise<Held> => {
    const record = await ownRecord(dependencies, ceremony, run);
    const { invitation } = await readOwnInvitation(record, signingKey);
    return { ledger, run, record, targets: invitation.targets, direct: invitation.shares === 'direct' };
  };
  /** What the holders were asked for, on the very cluster that answers now. */
  const slotFor = async (
    { deployment, cluster, ceremony }: { deployment: string; cluster: string; ceremony: CeremonyHandle },
    execution: Execution,
  ): Promise<DirectSlot> => {
    const { run, record, targets } = await heldBy(ceremony, execution.run);
    const access = clusters.of(deployment, cluster);
    const { promoteMs, handInMs } = clusters.deployment(deployment).limits;
    const clusterId = await awaitClusterId(access, execution, promoteMs);
    const target = targets.find((each) => each.cluster === cluster);
    if (target?.clusterId !== clusterId) {
      throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for a token of ${cluster}.`, {
        cluster,
        observed: target ? `cluster ID ${target.clusterId}` : 'not a target of the invitation',
        needed: `cluster ID ${clusterId}`,
      });
    }
    return { ledger, run, deployment, access, record, kind: generated(record), target, key: record.keys, handInMs };
  };

  return {
    startDirectAttempt: executeChange(async (input, execution) => {
      const direct = await slotFor(input, execution);
      mustBe(direct.record, 'operation-token');
      const { dr } = await observeCluster(direct.access, execution.signal);
      if (dr?.mode !== 'secondary')
        return { outcome: 'not-done', observed: `${input.cluster} is ${dr?.mode ?? 'not readable'}, no DR secondary` };
      return startForHolders(execution, direct);
    }),

    startDirectRootAttempt: executeChange(async (input, execution) => {
      const { deployment, authority } = input;
      const direct = await slotFor(input, execution);
      mustBe(direct.record, 'root-token');
      const recipient = await recipientOf(direct.record, signingKey, input.recipientPgpKey);
      const { cluster, clusterId } = direct.target;
      // Once an attempt was begun it is brought to its end; without one the approvals must not be too old to begin.
      const verify = (await everyEntryOf(direct)).length === 0 ? verifyBeginning : verifyOperation;
      await verify(inventory, execution.run, deployment, authority, {
        operation: 'root-token.generate',
        on: { cluster, clusterId },
        detail: recipient.fingerprint,
      });
      const key = { pgpPublicKey: recipient.pgpPublicKey, pgpFingerprint: recipient.fingerprint };
      return startForHolders(execution, { ...direct, key });
    }),

    followDirectAttempt: execute((input, execution) =>
      followAttempt(execution, clusters.of(input.deployment, input.cluster), input),
    ),

    endDirectAttempt: executeChange(async ({ invitation, ...input }, execution) => {
      const { deployment, cluster, cid, kind, nonces, mayExist, ifGone } = input;
      const { run } = execution;
      const signed = await invitationOf(invitation, signingKey);
      const isOwn =
        signed?.kind === kind &&
        signed.cid === cid &&
        signed.ns === run.ns &&
        signed.wid === run.wid &&
        signed.rid === run.rid;
      const access = clusters.of(deployment, cluster);
      const direct = { ledger, run, access, kind, record: { cid, kind }, target: { cluster } };
      return endForHolders(execution, direct, {
        fingerprint: isOwn ? signed.pgp : undefined,
        nonces,
        mayExist,
        ifGone,
      });
    }),

    takeEncodedToken: executeChange(async ({ deployment, ceremony, arrived }, execution) => {
      const held = await heldBy(ceremony, execution.run);
      mustBe(held.record, 'operation-token');
      const findings: Finding[] = [];
      const verdicts: TakenToken[] = [];
      for (const signal of await new ArrivedSignals(execution.run).all('submitEncodedToken', arrived)) {
        const taken = await takeHandedIn(dependencies, clusters, execution, { ...held, deployment }, signal);
        verdicts.push(taken.verdict);
        findings.push(...taken.findings);
      }
      return { verdicts, findings };
    }),

    takeEncodedRootToken: executeChange(
      async ({ deployment, cluster, ceremony, recipientPgpKey, arrived }, execution) => {
        const held = await heldBy(ceremony, execution.run);
        mustBe(held.record, 'root-token');
        const recipient = await recipientOf(held.record, signingKey, recipientPgpKey);
        if (!held.targets.some((each) => each.cluster === cluster))
          throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for a token of ${cluster}.`);
        const access = clusters.of(deployment, cluster);
        const verdicts: TakenRootToken[] = [];
        for (const signal of await new ArrivedSignals(execution.run).all('submitEncodedToken', arrived))
          verdicts.push(await takeHandedInRoot(execution, held, { access, recipient }, signal));
        return { verdicts, findings: [] };
      },
    ),

    checkUnaskedTokens: execute(async ({ arrived }, { run }) => ({
      verdicts: (await new ArrivedSignals(run).all('submitEncodedToken', arrived)).map((signal) => {
        const read = readHandedIn(signal);
        if ('code' in read && (read.code === 'plain-text-token' || read.code === 'undecodable')) return read;
        return { arrival: signal.arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT };
      }),
    })),
  };
}

/** Undefined where the signing key was changed meanwhile: the ledger alone says then what is ours. */
async function invitationOf(
  handed: string,
  signingKey: ActivityDependencies['signingKey'],
): Promise<Invitation | undefined> {
  const [jws = ''] = handed.split('\n');
  return readOwnInvitation({ invitation: jws }, signingKey).then(
    ({ invitation }) => invitation,
    (error: unknown) => {
      if (isRunbookError(error)) return undefined;
      throw error;
    },
  );
}

function generated({ kind }: KeyRecord): DirectSlot['kind'] {
  if (kind === 'operation-token' || kind === 'root-token') return kind;
  throw new RunbookError('DOCUMENT_INVALID', 'A rehearsal generates nothing: no attempt belongs to it.');
}

function mustBe(record: KeyRecord, kind: KeyRecord['kind']): void {
  if (record.kind !== kind)
    throw new RunbookError('DOCUMENT_INVALID', `The holders were asked for a ${record.kind}, not for a ${kind}.`);
}

/** @throws RunbookError DOCUMENT_INVALID where the invitation names another recipient */
async function recipientOf(
  record: KeyRecord,
  signingKey: ActivityDependencies['signingKey'],
  recipientPgpKey: string,
): ReturnType<typeof usableRecipient> {
  const recipient = await usableRecipient(recipientPgpKey);
  const { invitation } = await readOwnInvitation(record, signingKey);
  if (invitation.pgp === recipient.fingerprint) return recipient;
  throw new RunbookError('DOCUMENT_INVALID', 'The holders were asked for another recipient.', {
    observed: invitation.pgp,
    needed: recipient.fingerprint,
  });
}
