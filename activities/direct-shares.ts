import type { DirectSharesActivities, EncodedTokenVerdict } from '../src/contracts/activities';
import type { CeremonyHandle } from '../src/contracts/ceremony';
import type { Finding } from '../src/contracts/run-facts';
import { RunbookError } from '../src/errors';
import type { KeyRecord, RunContext } from '../src/secrets';
import { isEncryptedOnlyTo, readOwnInvitation } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { ArrivedSignals } from './support/arrived-signals';
import { verifyOperation } from './support/authority';
import { ownRecord } from './support/ceremony-burst';
import type { Clusters } from './support/clusters';
import type { DirectSlot } from './support/direct-attempt';
import { endForHolders, entriesOf, followAttempt, startForHolders } from './support/direct-attempt';
import { NO_CEREMONY_TEXT, readHandedIn } from './support/encoded-token';
import { execute, executeChange } from './support/execution';
import type { Execution } from './support/execution';
import type { Held, TakenToken } from './support/handed-in-token';
import { handedOverAfterAll, missingOf, notATarget, takeHandedIn } from './support/handed-in-token';
import { observeCluster } from './support/observe';
import { awaitClusterId } from './support/operation-token';
import { usableRecipient } from './support/recipient';
import { TokenLedger } from './support/token-ledger';

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
    const clusterId = await awaitClusterId(access, execution, clusters.deployment(deployment).limits.promoteMs);
    const target = targets.find((each) => each.cluster === cluster);
    if (target?.clusterId !== clusterId) {
      throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for a token of ${cluster}.`, {
        cluster,
        observed: target ? `cluster ID ${target.clusterId}` : 'not a target of the invitation',
        needed: `cluster ID ${clusterId}`,
      });
    }
    return { ledger, run, deployment, access, record, kind: generated(record), target, key: record.keys };
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
      await verifyOperation(inventory, execution.run, deployment, authority, {
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

    endDirectAttempt: executeChange(async (input, execution) => {
      const direct = await slotFor(input, execution);
      const { invitation } = await readOwnInvitation(direct.record, signingKey);
      const key = { pgpPublicKey: '', pgpFingerprint: invitation.pgp };
      return endForHolders(execution, { ...direct, key }, input);
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

    takeEncodedRootToken: executeChange(async ({ cluster, ceremony, recipientPgpKey, arrived }, execution) => {
      const held = await heldBy(ceremony, execution.run);
      mustBe(held.record, 'root-token');
      const recipient = await recipientOf(held.record, signingKey, recipientPgpKey);
      const target = held.targets.find((each) => each.cluster === cluster);
      if (!target) throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for a token of ${cluster}.`);
      const findings: Finding[] = [];
      const verdicts: (EncodedTokenVerdict & { readonly encryptedToken?: string })[] = [];
      for (const signal of await new ArrivedSignals(execution.run).all('submitEncodedToken', arrived)) {
        const { arrival } = signal;
        const read = readHandedIn(signal);
        const refuse = (code: string, text: string) => verdicts.push({ arrival, code, text: `refused: ${text}` });
        if ('code' in read) verdicts.push(read);
        else if (read.cluster !== cluster) refuse('wrong-cluster', notATarget(held.targets));
        else if (!(await isEncryptedOnlyTo(recipient, read.encodedToken)))
          refuse('wrong-key', `it is not encrypted to ${recipient.fingerprint}, the key of the recipient, alone`);
        else {
          const settled = missingOf(held, await entriesOf({ ...held, target }));
          if (settled) await ledger.remove(settled);
          if (settled?.state === 'orphan') findings.push(handedOverAfterAll(cluster));
          const text = `taken for the recipient of ${recipient.fingerprint}; nobody here can read it`;
          verdicts.push({ arrival, code: 'accepted', text, cluster, encryptedToken: read.encodedToken });
        }
      }
      return { verdicts, findings };
    }),

    checkUnaskedTokens: execute(async ({ arrived }, { run }) => ({
      verdicts: (await new ArrivedSignals(run).all('submitEncodedToken', arrived)).map((signal) => {
        const read = readHandedIn(signal);
        if ('code' in read && (read.code === 'plain-text-token' || read.code === 'undecodable')) return read;
        return { arrival: signal.arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT };
      }),
    })),
  };
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
