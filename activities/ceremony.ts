import type { RunbookActivities } from '../src/contracts/activities';
import type { EnvelopeVerdict } from '../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../src/contracts/receipts';
import { isUndecodable } from '../src/contracts/signals';
import type { Attested, Finding } from '../src/contracts/run-facts';
import { RunbookError } from '../src/errors';
import type { CeremonyFacts, InvitationTarget } from '../src/secrets';
import { createInvitation, inspectEnvelope, openShares, openToken, readOwnInvitation, sealValue } from '../src/secrets';
import type { ActivityDependencies } from './dependencies';
import { badShareFindings, burstOfCeremony, ownRecord } from './support/ceremony-burst';
import type { Clusters } from './support/clusters';
import { execute, executeChange } from './support/execution';
import { awaitClusterId, readClusterId } from './support/operation-token';
import { ArrivedSignals } from './support/arrived-signals';
import type { ArrivedSignal } from './support/arrived-signals';
import { handedInvitation } from './support/handed-invitation';
import { personLookup } from './support/people';
import { plainShares, samePlace, splitEnvelopes } from './support/plain-shares';
import { fileDigest, readThreshold } from './support/ceremony-facts';
import { invitedNow } from './support/ceremony-roster';
import { orphanFinding } from './support/generation-record';
import { TokenLedger } from './support/token-ledger';

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;

/** Nothing that arrives is meant for it: only plain text is told apart. */
const NO_CEREMONY: CeremonyFacts = { cid: '', epoch: 0, invitationDigest: '', holders: [], exp: 0 };
const NO_CEREMONY_TEXT = 'refused: this run collects no key shares now';
const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

type CeremonyActivities = Pick<
  RunbookActivities,
  'createCeremony' | 'checkUnaskedShares' | 'openEnvelopes' | 'generateOperationToken' | 'destroyCeremonyKeys'
>;

/** The ceremony: keys and invitation, envelopes, the burst (design section 6, protocol). */
export function createCeremonyActivities(dependencies: ActivityDependencies, clusters: Clusters): CeremonyActivities {
  const { inventory, keyRecords, signingKey, sealKeyring } = dependencies;
  const person = personLookup(inventory);
  const ledger = new TokenLedger(dependencies.ledgerDirectory);

  const verdictOf = (arrival: number, receipt: EnvelopeReceipt): EnvelopeVerdict => ({
    arrival,
    code: receipt.verdict,
    text: ENVELOPE_VERDICTS[receipt.verdict],
    holder: receipt.holder === undefined ? undefined : attestedHolder(receipt.holder),
    seq: receipt.seq,
    digest: receipt.envelopeDigest === '' ? undefined : receipt.envelopeDigest,
  });
  const attestedHolder = (name: string): Attested => ({
    name,
    how: inventory.people.get(name)?.attestation ?? 'claimed',
  });
  /** The cheap checks on arrival, which need no key. */
  const inspect = async (signal: ArrivedSignal, ceremony: CeremonyFacts): Promise<EnvelopeVerdict> => {
    const { arrival, eventId, content, at, principal } = signal;
    if (isUndecodable(content)) {
      const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
      return { arrival, code: 'undecodable', text };
    }
    const receipt = await inspectEnvelope(content, { ceremony, person, receivedAt: at, principal });
    const verdict = verdictOf(arrival, receipt);
    if (receipt.verdict === 'plain-text-share') return { ...verdict, eventId };
    const unattested = receipt.verdict === 'wrong-signer' && principal === undefined;
    return unattested && verdict.holder?.how === 'principal' ? { ...verdict, text: NO_SENDER_TEXT } : verdict;
  };

  return {
    createCeremony: executeChange(async (input, { run, signal }) => {
      const deployment = clusters.deployment(input.deployment);
      const targets: InvitationTarget[] = await Promise.all(
        input.targets.map(async ({ cluster, uses }) => {
          const access = clusters.of(input.deployment, cluster);
          return {
            cluster,
            clusterId: await readClusterId(access, signal),
            addresses: [...access.entry.addresses],
            caSha256: await fileDigest(access.entry.caFile),
            uses: [...uses],
          };
        }),
      );
      const [first] = input.targets;
      if (!first) throw new RunbookError('INVALID_INPUT', 'A ceremony needs a target.');
      const threshold = await readThreshold(clusters.of(input.deployment, first.cluster), signal);
      const invited = invitedNow(deployment, threshold, input.shares);
      const created = await createInvitation(keyRecords, signingKey, run, {
        kind: 'operation-token',
        targets,
        requestedBy: { name: input.requestedBy, how: 'claimed' },
        reason: input.reason,
        runbook: input.runbook,
        inputDigest: input.inputDigest,
        ...invited.facts,
        threshold,
        epoch: input.epoch,
        cid: input.cid,
        shares: input.shares,
        collectForMs: deployment.ceremony.collectForMs,
        useForMs: deployment.ceremony.useForMs,
      });
      const { invitation } = created;
      return {
        cid: invitation.cid,
        epoch: invitation.epoch,
        keyHome: created.keyHome,
        invitation: await handedInvitation(dependencies, created.jws),
        holders: invitation.holders,
        threshold: invitation.threshold,
        collectUntil: invitation.exp * 1000,
        fingerprint: invitation.pgp,
        ...invited.handle,
      };
    }),

    checkUnaskedShares: execute(async ({ arrived }, { run }) => {
      const verdicts: EnvelopeVerdict[] = [];
      for (const signal of await new ArrivedSignals(run).all('share', arrived)) {
        const { arrival } = signal;
        const seen = await inspect(signal, NO_CEREMONY);
        verdicts.push(
          seen.code === 'undecodable' || seen.code === 'plain-text-share'
            ? seen
            : { arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT },
        );
      }
      return { verdicts };
    }),

    openEnvelopes: execute(async ({ ceremony, held, arrived }, { run }) => {
      const record = await ownRecord(dependencies, ceremony, run);
      const { cid, epoch, invitationDigest, holders, exp } = record;
      const history = new ArrivedSignals(run);
      const signals = await history.all('share', arrived);
      const { sealed, plain } = splitEnvelopes(held);
      const verdicts = new Map<number, EnvelopeVerdict>();
      for (const signal of signals)
        verdicts.set(signal.arrival, await inspect(signal, { cid, epoch, invitationDigest, holders, exp }));
      const passed = signals.filter(({ arrival }) => verdicts.get(arrival)?.code === 'accepted');
      const { receipts, shares } = await openShares(
        record,
        [...sealed, ...passed.map(({ content }) => content)],
        person,
      );
      const { threshold } = record;
      const accepted = await plainShares(history, plain);
      passed.forEach(({ arrival }, index) => {
        const receipt = receipts[sealed.length + index];
        if (!receipt) throw new RunbookError('INTERNAL', 'An envelope has no verdict.');
        const opened = shares.find(({ envelopeDigest }) => envelopeDigest === receipt.envelopeDigest);
        const inHand = opened && accepted.some((share) => samePlace(share, opened.share, threshold));
        verdicts.set(arrival, verdictOf(arrival, inHand ? { ...receipt, verdict: 'same-share-as-another' } : receipt));
      });
      for (const { arrival, ...verdict } of [...verdicts.values()]) {
        if (verdict.code !== 'plain-text-share') continue;
        const [share] = await plainShares(history, [arrival]);
        const others = [...shares.map((each) => each.share), ...accepted];
        const usable = share !== undefined && !others.some((other) => samePlace(other, share, threshold));
        verdicts.set(arrival, { ...verdict, arrival, usable });
      }
      return { verdicts: [...verdicts.values()] };
    }),

    generateOperationToken: executeChange(async (input, execution) => {
      const { deployment, cluster, ceremony, uses, envelopes } = input;
      const { run } = execution;
      const record = await ownRecord(dependencies, ceremony, run);
      const access = clusters.of(deployment, cluster);
      const clusterId = await awaitClusterId(access, execution, clusters.deployment(deployment).limits.promoteMs);
      const { invitation } = await readOwnInvitation(record, signingKey);
      const target = invitation.targets.find((each) => each.cluster === cluster);
      if (
        invitation.kind !== 'operation-token' ||
        !target ||
        target.clusterId !== clusterId ||
        uses.length === 0 ||
        !uses.every((use) => target.uses.includes(use))
      ) {
        throw new RunbookError(
          'DOCUMENT_INVALID',
          `The holders were not asked for this: a token for ${uses.join(', ')} on ${cluster}.`,
          {
            cluster,
            observed: target
              ? `${invitation.kind} for ${target.uses.join(', ')} on cluster ID ${target.clusterId}`
              : 'not a target of the invitation',
            needed: `${uses.join(', ')} on cluster ID ${clusterId}`,
          },
        );
      }
      const { result, generation, opened } = await burstOfCeremony(dependencies, ledger, execution, {
        kind: 'operation-token',
        deployment,
        access,
        clusterId,
        record,
        envelopes,
        endpoints: access.client.dr.secondary.generateOperationToken,
        key: record.keys,
        mayBeThere: true,
        receive: (encoded) => openToken(record.keys, 'operation-token', encoded.reveal()),
      });
      const spec = { kind: 'operation-token', cluster, clusterId, uses, expSeconds: SEALED_SECONDS } as const;
      const token = await sealValue(sealKeyring, run, spec, result.token).catch(
        async (error: unknown): Promise<never> => {
          await generation.lost().catch(() => undefined);
          throw orphaned(cluster, error);
        },
      );
      const inLedger = await generation.alive(token).then(
        () => [],
        () => [notInLedger(cluster)],
      );
      await generation.told().catch(() => undefined);
      return {
        token,
        attempts: result.attempts,
        findings: [...result.findings, ...badShareFindings(cluster, result.badShares), ...inLedger],
        badShares: result.badShares,
        ...opened,
      };
    }),

    destroyCeremonyKeys: executeChange(async ({ ceremony }, { run }) => {
      const records = await keyRecords.ofRun(run);
      const mine = records.filter((record) => record.cid === ceremony.cid);
      for (const { cid, epoch } of mine) await keyRecords.destroy(cid, epoch);
      const destroyed = mine.length > 0;
      return {
        destroyed,
        text: destroyed ? `keys of ${mine.length} epoch(s) destroyed` : 'the keys were gone already',
      };
    }),
  };
}

/** The token exists and cannot be kept: nothing may try again on its own, each try would leave another one. */
function orphaned(cluster: string, error: unknown): RunbookError {
  const finding = orphanFinding('operation-token', cluster, 'it could not be sealed');
  const { text, next } = finding;
  return new RunbookError('TOKEN_ORPHANED', text, {
    cluster,
    findings: [finding],
    observed: error instanceof RunbookError ? error.code : 'a defect of this program',
    needed: 'a usable seal key',
    next,
  });
}

/** The run holds the token, sealed, and deletes it; a run that ends without that leaves an entry without a value. */
function notInLedger(cluster: string): Finding {
  return {
    severity: 'critical',
    code: 'token-not-in-ledger',
    text: `The operation token of ${cluster} was generated, and the ledger of this worker could not be written afterwards.`,
    next: `This run deletes the token at its end. Should it be terminated before, delete the token with operation-token/delete; put the worker's ledger directory in order.`,
  };
}
