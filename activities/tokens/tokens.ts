import type { TokenActivities } from '../../src/contracts/activities';
import { RunbookError } from '../../src/errors';
import type { KeyRecord } from '../../src/keys';
import { createInvitation, isEncryptedOnlyTo, readOwnInvitation } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { verifyBeginning, verifyOperation } from '../approvals/authority';
import { ledgerOf } from '../ceremony/alarms';
import { burstOfCeremony, ownRecord, toldOf } from '../ceremony/ceremony-burst';
import { fileDigest, readRootThreshold } from '../ceremony/ceremony-facts';
import { invitedNow } from '../ceremony/ceremony-roster';
import type { Clusters } from '../clusters';
import { executeChange } from '../execution';
import { awaitClusterId, readClusterId } from './operation-token';
import { madeBefore } from '../ceremony/generation-record';
import { usableRecipient } from '../ceremony/recipient';

/** Root tokens from key shares (`sys/generate-root`: the same flow as interface section 3; facts 5, 10, 11). */
export function createTokenActivities(dependencies: ActivityDependencies, clusters: Clusters): TokenActivities {
  const { inventory, keyRecords, signingKey } = dependencies;
  const ledger = ledgerOf(dependencies);
  /** As far as this host knows. */
  const hasSentShares = async (deployment: string, { cid, run, firstBurst }: KeyRecord): Promise<boolean> => {
    if (firstBurst !== undefined) return true;
    const epochs = await keyRecords.ofRun(run);
    if (epochs.some((each) => each.cid === cid && each.firstBurst !== undefined)) return true;
    return (await ledger.all(deployment)).some(
      (each) => each.cid === cid && each.wid === run.wid && each.rid === run.rid,
    );
  };
  return {
    createRootTokenCeremony: executeChange(async (input, { run, signal }) => {
      const { cluster, reason, runbook, requestedBy, epoch, cid, inputDigest } = input;
      const deployment = clusters.deployment(input.deployment);
      const access = clusters.of(input.deployment, cluster);
      const recipient = await usableRecipient(input.recipientPgpKey);
      const { version } = await access.client.sys.health({ signal });
      const required = await readRootThreshold(access, version, signal);
      const invited = invitedNow(deployment, required);
      const { invitation, jws, keyHome } = await createInvitation(keyRecords, signingKey, run, {
        kind: 'root-token',
        targets: [
          {
            cluster,
            clusterId: await readClusterId(access, signal),
            addresses: [...access.entry.addresses],
            caSha256: await fileDigest(access.entry.caFile),
            uses: ['root-token.generate'],
          },
        ],
        requestedBy: { name: requestedBy, how: 'claimed' },
        ...{ reason, runbook, inputDigest, epoch, cid },
        ...invited.facts,
        threshold: required,
        pgp: recipient.fingerprint,
        collectForMs: deployment.ceremony.collectForMs,
        useForMs: deployment.ceremony.useForMs,
      });
      const { holders, threshold, exp, pgp } = invitation;
      return {
        ...{ cid: invitation.cid, epoch: invitation.epoch, keyHome, holders, threshold },
        invitation: jws,
        collectUntil: exp * 1000,
        fingerprint: pgp,
        ...invited.handle,
      };
    }),

    generateRootToken: executeChange(async (input, execution) => {
      const { deployment, cluster, ceremony, authority, envelopes, told } = input;
      const { run } = execution;
      const recipient = await usableRecipient(input.recipientPgpKey);
      const record = await ownRecord(dependencies, ceremony, run);
      const access = clusters.of(deployment, cluster);
      const clusterId = await awaitClusterId(access, execution, clusters.deployment(deployment).limits.serviceReadyMs);
      const { invitation } = await readOwnInvitation(record, signingKey);
      const target = invitation.targets.find((each) => each.cluster === cluster);
      if (
        invitation.kind !== 'root-token' ||
        invitation.pgp !== recipient.fingerprint ||
        target?.clusterId !== clusterId
      ) {
        throw new RunbookError('DOCUMENT_INVALID', `The holders were not asked for this root token of ${cluster}.`, {
          cluster,
          observed: `${invitation.kind} for ${invitation.pgp} on cluster ID ${target?.clusterId ?? 'none'}`,
          needed: `root-token for ${recipient.fingerprint} on cluster ID ${clusterId}`,
        });
      }
      // Once key shares were sent, in whichever epoch of this ceremony, it is brought to its end.
      const verify = (await hasSentShares(deployment, record)) ? verifyOperation : verifyBeginning;
      await verify(inventory, run, deployment, authority, {
        operation: 'root-token.generate',
        on: { cluster, clusterId },
        detail: recipient.fingerprint,
      });
      const key = { pgpPublicKey: recipient.pgpPublicKey, pgpFingerprint: recipient.fingerprint };
      const subject = { ...({ kind: 'root-token', deployment, cluster, clusterId, run } as const), cid: record.cid };
      // An attempt of this activity made it and died before it could report: nobody gives a share for another one.
      for (const { entry, alarms } of await madeBefore(ledger, { ...subject, key: key.pgpFingerprint }, told))
        if (entry.encoded !== undefined && (await isEncryptedOnlyTo(recipient, entry.encoded)))
          return { encryptedToken: entry.encoded, ...toldOf(cluster, entry.made, alarms) };
      const { token, generation, made } = await burstOfCeremony(dependencies, ledger, execution, {
        kind: 'root-token',
        ...{ deployment, access, clusterId, record, envelopes, told, key },
        endpoints: access.client.sys.generateRoot,
        mayBeThere: record.firstBurst !== undefined,
        receive: async (encoded) => {
          const encryptedToken = encoded.reveal();
          if (await isEncryptedOnlyTo(recipient, encryptedToken)) return encryptedToken;
          throw new RunbookError('RESPONSE_INVALID', 'The encoded token is not encrypted to the recipient alone.');
        },
      });
      await generation.handedOver(token, made).catch(() => undefined);
      return { encryptedToken: token, ...toldOf(cluster, made, generation.alarms) };
    }),
  };
}
