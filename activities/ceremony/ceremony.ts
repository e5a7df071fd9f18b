import type { RunbookActivities } from '../../src/contracts/activities';
import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import type { EnvelopeReceipt } from '../../src/contracts/receipts';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { isUndecodable } from '../../src/contracts/signals';
import type { Attested, Finding } from '../../src/contracts/run-facts';
import type { TokenUse } from '../../src/contracts/runbook-inputs';
import type { Sealed } from '../../src/contracts/sealed';
import { RunbookError, isRunbookError } from '../../src/errors';
import type { CeremonyFacts, InspectedEnvelope, InvitationTarget, RunContext, SealKeyring } from '../../src/keys';
import {
  createInvitation,
  examineEnvelope,
  checkFurtherEnvelopes,
  OpenedBefore,
  openToken,
  openValue,
  readOwnInvitation,
  receiptOf,
  sealValue,
} from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { ledgerOf } from './alarms';
import { burstOfCeremony, ownRecord, toldOf } from './ceremony-burst';
import type { Clusters } from '../clusters';
import { execute, executeChange } from '../execution';
import { awaitClusterId, readClusterId } from '../tokens/operation-token';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import { personLookup } from '../approvals/person-lookup';
import { isForNextAttempt } from './cancel-attempt';
import { fileDigest, readThreshold } from './ceremony-facts';
import { invitedNow, providersNow } from './ceremony-roster';
import type { SettledCeremony } from './ceremony-settlement';
import { notSettled, settleCeremony } from './ceremony-settlement';
import { madeBefore } from './generation-record';

/** How long a sealed operation token can be opened. The token itself has no lifetime. */
const SEALED_SECONDS = 24 * 3600;

/** Nothing that arrives is meant for it: only plain text is told apart. */
const NO_CEREMONY: CeremonyFacts = { cid: '', epoch: 0, invitationDigest: '', holders: [], exp: 0 };
const NO_CEREMONY_TEXT = 'refused: this run collects no key shares now';
const NO_SENDER_TEXT = 'refused: the server recorded nobody as its sender: is authentication on?';

/** What the cheap checks on arrival say. */
interface Inspected {
  readonly verdict: EnvelopeVerdict;
  readonly passed?: InspectedEnvelope;
}

type CeremonyActivities = Pick<
  RunbookActivities,
  | 'createCeremony'
  | 'checkUnaskedShares'
  | 'openEnvelopes'
  | 'generateOperationToken'
  | 'destroyCeremonyKeys'
  | 'settleCeremony'
>;

/** The ceremony: keys and invitation, envelopes, the burst (design section 6, protocol). */
export function createCeremonyActivities(dependencies: ActivityDependencies, clusters: Clusters): CeremonyActivities {
  const { inventory, keyRecords, signingKey, sealKeyring } = dependencies;
  const person = personLookup(inventory);
  const ledger = ledgerOf(dependencies);
  const openedBefore = new OpenedBefore();

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
  const inspect = async (signal: ArrivedSignal, ceremony: CeremonyFacts): Promise<Inspected> => {
    const { arrival, eventId, content, at, principal } = signal;
    if (isUndecodable(content)) {
      const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
      return { verdict: { arrival, code: 'undecodable', text } };
    }
    const examined = await examineEnvelope(content, { ceremony, person, receivedAt: at, principal });
    const receipt = receiptOf(examined);
    const verdict = verdictOf(arrival, receipt);
    if (!('refused' in examined)) return { verdict, passed: examined };
    if (receipt.verdict === 'plain-text-share') return { verdict: { ...verdict, eventId } };
    const unattested = receipt.verdict === 'wrong-signer' && principal === undefined;
    return {
      verdict: unattested && verdict.holder?.how === 'principal' ? { ...verdict, text: NO_SENDER_TEXT } : verdict,
    };
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
      const tokens = input.collects === 'tokens';
      const threshold = tokens ? 1 : await readThreshold(clusters.of(input.deployment, first.cluster), signal);
      const invited = tokens ? providersNow(deployment) : invitedNow(deployment, threshold);
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
        collects: input.collects,
        collectForMs: deployment.ceremony.collectForMs,
        useForMs: deployment.ceremony.useForMs,
      });
      const { invitation } = created;
      return {
        cid: invitation.cid,
        epoch: invitation.epoch,
        keyHome: created.keyHome,
        invitation: created.jws,
        holders: invitation.holders,
        threshold: invitation.threshold,
        collectUntil: invitation.exp * 1000,
        useForMs: invitation.useFor * 1000,
        fingerprint: invitation.pgp,
        ...invited.handle,
      };
    }),

    checkUnaskedShares: execute(async ({ arrived }, { run }) => {
      const verdicts: EnvelopeVerdict[] = [];
      for (const signal of await new ArrivedSignals(run).all('share', arrived)) {
        const { arrival } = signal;
        const { verdict: seen } = await inspect(signal, NO_CEREMONY);
        verdicts.push(
          seen.code === 'undecodable' || seen.code === 'plain-text-share'
            ? seen
            : { arrival, code: 'no-ceremony', text: NO_CEREMONY_TEXT },
        );
      }
      return { verdicts };
    }),

    openEnvelopes: execute(async ({ ceremony, held, arrived }, { run }) => {
      const history = new ArrivedSignals(run);
      const reading = history.all('share', arrived);
      // Whichever fails first is told; the other one must not end the process.
      void reading.catch(() => undefined);
      const record = await ownRecord(dependencies, ceremony, run);
      const { cid, epoch, invitationDigest, holders, exp } = record;
      const verdicts = new Map<number, EnvelopeVerdict>();
      const passed: number[] = [];
      const arriving = reading.then(async (signals) => {
        const envelopes: InspectedEnvelope[] = [];
        for (const signal of signals) {
          const seen = await inspect(signal, { cid, epoch, invitationDigest, holders, exp });
          verdicts.set(signal.arrival, seen.verdict);
          if (!seen.passed) continue;
          passed.push(signal.arrival);
          envelopes.push(seen.passed);
        }
        return envelopes;
      });
      void arriving.catch(() => undefined);
      const checked = await checkFurtherEnvelopes(record, held, arriving, person, openedBefore, (each) =>
        history.sendersOfShare(each),
      );
      passed.forEach((arrival, index) => {
        const receipt = checked[held.length + index];
        if (!receipt) throw new RunbookError('INTERNAL', 'An envelope has no verdict.');
        verdicts.set(arrival, verdictOf(arrival, receipt));
      });
      return { verdicts: [...verdicts.values()] };
    }),

    generateOperationToken: executeChange(async (input, execution) => {
      const { deployment, cluster, ceremony, uses, envelopes, told } = input;
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
      const spec = { kind: 'operation-token', cluster, clusterId, uses, expSeconds: SEALED_SECONDS } as const;
      const subject = { ...{ kind: spec.kind, deployment, cluster, clusterId, run }, cid: record.cid };
      // An attempt of this activity sealed it and died before it could report: nobody gives a share for another one.
      for (const { entry, alarms } of await madeBefore(ledger, { ...subject, key: record.keys.pgpFingerprint }, told)) {
        const token = entry.sealed as Sealed<'operation-token'>;
        if (await opensFor(sealKeyring, run, token, spec)) return { token, ...toldOf(cluster, entry.made, alarms) };
      }
      const { token, generation, made } = await burstOfCeremony(dependencies, ledger, execution, {
        ...{ kind: spec.kind, deployment, access, clusterId, record, envelopes, told },
        endpoints: access.client.dr.secondary.generateOperationToken,
        key: record.keys,
        mayBeThere: true,
        receive: (encoded) => openToken(record.keys, 'operation-token', encoded.reveal()),
      });
      const sealed = await sealValue(sealKeyring, run, spec, token).catch(async (error: unknown): Promise<never> => {
        await generation.lost('it could not be sealed').catch(() => undefined);
        throw orphaned(cluster, error, generation.alarms);
      });
      const inLedger = await generation.alive(sealed, made).then(
        () => [],
        () => [notInLedger(cluster)],
      );
      const { findings, ...rest } = toldOf(cluster, made, generation.alarms);
      return { token: sealed, ...rest, findings: [...findings, ...inLedger] };
    }),

    destroyCeremonyKeys: executeChange(async ({ deployment, ceremony, told = [], inHand = [] }, execution) => {
      const { cid } = ceremony;
      const records = await keyRecords.ofRun(execution.run);
      const mine = records.filter((record) => record.cid === cid);
      for (const record of mine) await keyRecords.destroy(record);
      const destroyed = mine.length > 0;
      const ended = { deployment, cid, told, inHand };
      const settling = settleCeremony(ledger, clusters, execution, ended);
      const { findings, bursts } = await settling.catch((error: unknown): SettledCeremony => {
        if (!isRunbookError(error) || isForNextAttempt(execution, error)) throw error;
        // Where the keys are gone already an earlier attempt destroyed them: it knew whether shares were given.
        const given = !destroyed || mine.some(({ firstBurst }) => firstBurst !== undefined);
        return { findings: [notSettled(error, given ? 'critical' : 'warning')] };
      });
      return {
        destroyed,
        text: destroyed ? `keys of ${mine.length} epoch(s) destroyed` : 'the keys were gone already',
        ...(findings.length > 0 && { findings }),
        ...(bursts && { bursts }),
      };
    }),

    settleCeremony: executeChange(async ({ deployment, ceremony, told = [], inHand = [] }, execution) => {
      const { cid } = ceremony;
      return settleCeremony(ledger, clusters, execution, { deployment, cid, told, inHand });
    }),
  };
}

/** Whether a sealed token is for exactly this, and may still be used. */
async function opensFor(
  keyring: SealKeyring,
  run: RunContext,
  token: Sealed<'operation-token'>,
  {
    uses,
    ...spec
  }: {
    readonly kind: 'operation-token';
    readonly cluster: string;
    readonly clusterId: string;
    readonly uses: readonly TokenUse[];
  },
): Promise<boolean> {
  try {
    for (const use of uses) await openValue(keyring, run, token, { ...spec, use });
    return true;
  } catch (error) {
    if (isRunbookError(error)) return false;
    throw error;
  }
}

/** The token exists and cannot be kept: nothing may try again on its own, each try would leave another one. */
function orphaned(cluster: string, error: unknown, findings: readonly Finding[]): RunbookError {
  const { text = '', next } = findings.at(-1) ?? {};
  return new RunbookError('TOKEN_ORPHANED', text, {
    cluster,
    findings,
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
