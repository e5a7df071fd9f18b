import { z } from 'zod';
import type { RehearsalActivities, RehearsalProof, RehearsingPerson } from '../../src/contracts/activities';
import type { EnvelopeVerdict } from '../../src/contracts/ceremony';
import { ENVELOPE_VERDICTS } from '../../src/contracts/receipts';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Finding } from '../../src/contracts/run-facts';
import { isUndecodable } from '../../src/contracts/signals';
import { RunbookError } from '../../src/errors';
import { duration } from '../../src/inventory/schema-values';
import { createRehearsal, openRehearsalAnswer } from '../../src/keys';
import type { KeyRecord, RehearsalAnswer, RunContext } from '../../src/keys';
import type { ActivityDependencies } from '../dependencies';
import { ArrivedSignals } from '../approvals/arrived-signals';
import type { ArrivedSignal } from '../approvals/arrived-signals';
import type { Clusters } from '../clusters';
import { judgeDeclines } from '../approvals/people';
import { execute, executeChange } from '../execution';
import { personLookup } from '../approvals/person-lookup';
import { siteFacts } from '../approvals/planning';
import { keepRehearsal, lastRehearsals } from './rehearsal-records';
import { rosterOfRehearsal } from './rehearsal-roster';
import { said } from '../../src/contracts/words';

const RUNBOOK = 'ceremonyRehearsal';

/** A rehearsal goes the way of a ceremony up to the burst, and has none. Nothing here has a client of the service. */
export function createRehearsalActivities(dependencies: ActivityDependencies, clusters: Clusters): RehearsalActivities {
  const { inventory, keyRecords, signingKey, records } = dependencies;
  const person = personLookup(inventory);

  return {
    assessRehearsal: execute(async ({ deployment, holders }) => {
      const roster = rosterOfRehearsal(clusters.deployment(deployment), holders, Date.now());
      const known = await lastRehearsals(records, 'rehearsed', deployment);
      const people = roster.map(({ name, standBy }): RehearsingPerson => {
        const before = known.get(name)?.at;
        const attestation = person(name)?.attestation ?? 'claimed';
        return { name, standBy, attestation, ...(before === undefined ? {} : { before }) };
      });
      return { site: await siteFacts(dependencies, deployment), people };
    }),

    createRehearsal: executeChange(async (input, { run }) => {
      const { deployment, reason, epoch, cid, inputDigest } = input;
      const holders = rosterOfRehearsal(clusters.deployment(deployment), input.holders, Date.now());
      const {
        invitation: rehearsal,
        jws,
        keyHome,
      } = await createRehearsal(keyRecords, signingKey, run, {
        ...{ deployment, reason, epoch, cid, inputDigest, runbook: RUNBOOK },
        requestedBy: { name: input.requestedBy, how: 'claimed' },
        holders: holders.map(({ name }) => name),
        collectForMs: duration.parse(input.collectFor),
      });
      return {
        cid: rehearsal.cid,
        epoch: rehearsal.epoch,
        keyHome,
        invitation: jws,
        holders: rehearsal.holders,
        threshold: rehearsal.holders.length,
        collectUntil: rehearsal.exp * 1000,
      };
    }),

    noteRehearsalDeclines: execute(async ({ ceremony, arrived }, { run }) => {
      const record = await ownRehearsal(dependencies, ceremony, run);
      const { cid, epoch } = record;
      const { deployment, holders: invited } = invitationOf(record);
      const holders = invited.filter((name) => ceremony.holders.includes(name));
      const judged = await judgeDeclines(run, person, { cid, epoch, holders }, arrived);
      for (const { by, reason = '', at } of judged) {
        if (by === undefined) continue;
        const said = { holder: by.name, how: by.how, at: new Date(at).toISOString(), reason };
        await keepRehearsal(records, 'declined', { version: 1, deployment, ...said, wid: run.wid, rid: run.rid });
      }
      return {
        verdicts: judged.map(({ at: _at, ...verdict }) =>
          verdict.accepted
            ? { ...verdict, text: `cannot answer this rehearsal: ${said(verdict.reason ?? 'no reason given')}` }
            : verdict,
        ),
      };
    }),

    openRehearsal: execute(async ({ ceremony, arrived }, { run }) => {
      const record = await ownRehearsal(dependencies, ceremony, run);
      const { deployment } = invitationOf(record);
      const verdicts: EnvelopeVerdict[] = [];
      const proofs: RehearsalProof[] = [];
      const findings: Finding[] = [];
      for (const signal of await new ArrivedSignals(run).all('share', arrived)) {
        const { verdict, answer } = await judge(record, signal);
        if (answer) {
          const { holder, how, kid, tool } = answer;
          const at = new Date(signal.at).toISOString();
          const facts = { deployment, holder, at, how, kid, tool, workers: signingKey.kid };
          await keepRehearsal(records, 'rehearsed', { version: 1, ...facts, wid: run.wid, rid: run.rid });
          proofs.push({ name: holder, how, tool, at });
        }
        if (verdict.code === 'share-in-rehearsal')
          findings.push(shareInRehearsal(run.wid, verdict.holder?.name ?? 'YOUR-NAME'));
        verdicts.push(verdict);
      }
      return { verdicts, proofs, findings };
    }),
  };

  async function judge(
    record: KeyRecord,
    { arrival, eventId, content, at, principal }: ArrivedSignal,
  ): Promise<{ readonly verdict: EnvelopeVerdict; readonly answer?: RehearsalAnswer }> {
    if (isUndecodable(content)) {
      const text = `the payload could not be read (encoding ${content.undecodable}); send JSON`;
      return { verdict: { arrival, code: 'undecodable', text } };
    }
    const { receipt, answer } = await openRehearsalAnswer(record, content, { person, receivedAt: at, principal });
    const { verdict: code, holder, seq, envelopeDigest } = receipt;
    const verdict: EnvelopeVerdict = {
      ...{ arrival, code, seq },
      text: code === 'accepted' ? 'rehearsed: tool, key and access work' : ENVELOPE_VERDICTS[code],
      holder: holder === undefined ? undefined : { name: holder, how: person(holder)?.attestation ?? 'claimed' },
      digest: envelopeDigest === '' ? undefined : envelopeDigest,
      ...(code === 'plain-text-share' ? { eventId } : {}),
    };
    return answer === undefined ? { verdict } : { verdict, answer };
  }
}

/** The keys of a rehearsal of this very run. @throws RunbookError KEY_RECORD_MISSING */
async function ownRehearsal(
  { keyRecords }: ActivityDependencies,
  { cid, epoch }: { readonly cid: string; readonly epoch: number },
  run: RunContext,
): Promise<KeyRecord> {
  const record = await keyRecords.read({ run, cid, epoch });
  if (record.kind === 'rehearsal') return record;
  throw new RunbookError('KEY_RECORD_MISSING', 'These keys are not those of a rehearsal.', {
    next: 'The run invites again.',
  });
}

/** What this site's workers invited to: the record is theirs. The key that signed it may have been followed by another. */
function invitationOf({ invitation }: KeyRecord): z.infer<typeof invitedTo> {
  return invitedTo.parse(JSON.parse(Buffer.from(invitation.split('.')[1] ?? '', 'base64url').toString('utf8')));
}

const invitedTo = z.object({ deployment: z.string(), holders: z.array(z.string()) });

/** It was sealed to the key of the rehearsal, which is destroyed; what it taught is that the holder's tool can be misled. */
function shareInRehearsal(workflowId: string, name: string): Finding {
  return {
    severity: 'warning',
    code: 'share-in-rehearsal',
    text: `${name === 'YOUR-NAME' ? 'Somebody' : name} sent what was made for a ceremony to this rehearsal. It was refused and is kept nowhere but, sealed, in the event of the signal.`,
    next: `${name === 'YOUR-NAME' ? 'Who it was' : name} runs \`${nextCommandOf.share(workflowId, name)}\`: in a rehearsal it asks for no key share.`,
  };
}
