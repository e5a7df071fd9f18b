import type { InvitationUse, VerifiedInvitation } from './invitation';
import { GROUPS_ARE_OURS, groupRule } from '../contracts/share-groups';
import type { VerifiedRehearsal } from './rehearsal';
import { attestedName, clock, inWords } from './words';

/** One thing that a holder must read before he gives his share. */
export interface PlainFact {
  readonly label: string;
  /** The first says it; the others go with it. */
  readonly lines: readonly string[];
  /** Out of the ordinary: to be shown so that nobody overlooks it. */
  readonly warning?: true;
}

const USES: Record<InvitationUse, string> = {
  'dr.promote': 'promote it to DR primary',
  'dr.update-primary': 'point it to another primary',
  'dr.disable': 'DISABLE replication on it',
  'dr.reindex': 'reindex it',
  'dr.merkle-check': 'check its Merkle tree',
  'dr.operation-token.delete': 'delete that token again',
  'root-token.generate': 'do ANYTHING on it, without an end',
};
const DRASTIC: readonly InvitationUse[] = ['dr.disable', 'root-token.generate'];

/** A fingerprint in groups, to be read aloud. */
function spelled(fingerprint: string): string {
  return (fingerprint.match(/.{1,4}/g) ?? []).join(' ');
}

/**
 * Every member of an invitation in plain words, in the order in which a holder should read them. The terminal and the
 * page show the same.
 *
 * @param now milliseconds since 1970.
 */
export function plainFacts({ invitation, environment, digest }: VerifiedInvitation, now: number): PlainFact[] {
  const { kind, targets, requestedBy, erasure, exp, iat, useFor, recipient, pgp } = invitation;
  const token = kind === 'operation-token' ? 'DR operation token' : 'ROOT token';
  const number = targets.length === 1 ? 'one cluster' : `each of ${targets.length} clusters`;
  return [
    { label: 'Environment', lines: [environment, "signed with the workers' key that you trust"] },
    { label: 'What for', lines: [`one ${token} on ${number}`], ...warnIf(kind === 'root-token') },
    ...targets.map(({ cluster, clusterId, addresses, caSha256, uses }) => ({
      label: 'Cluster',
      lines: [
        cluster,
        `to ${uses.map((use) => USES[use]).join('; ')}`,
        `cluster ID ${clusterId}`,
        `at ${addresses.join(', ')}`,
        `CA ${caSha256 === '' ? "the system's roots" : `SHA-256 ${caSha256}`}`,
      ],
      ...warnIf(uses.some((use) => DRASTIC.includes(use))),
    })),
    {
      label: 'Runbook',
      lines: [invitation.runbook, `Workflow ID ${invitation.wid}`, `run ${invitation.rid}, namespace ${invitation.ns}`],
    },
    {
      label: 'Requested by',
      lines: [
        attestedName(requestedBy),
        ...(requestedBy.how === 'claimed' ? ['nobody proved that name: ask, where it matters'] : []),
      ],
      ...warnIf(requestedBy.how === 'claimed'),
    },
    { label: 'Reason', lines: [invitation.reason === '' ? 'none given' : invitation.reason] },
    { label: 'Holders', lines: holderLines(invitation) },
    ...(invitation.shares === 'direct'
      ? [{ label: 'Shares', lines: ['are entered in the service by the holders themselves: NO TOOL TAKES ONE'] }]
      : []),
    {
      label: 'Collected',
      lines: [
        `until ${clock(exp * 1000, now)}, ${inWords(exp * 1000 - now)} from now`,
        `invited at ${clock(iat * 1000, now)}`,
      ],
    },
    {
      label: 'Then used',
      lines: [`for at most ${inWords(useFor * 1000)}; then the key that opens your share is destroyed`],
    },
    {
      label: 'That key',
      lines: [
        erasure === 'memory'
          ? 'is kept in memory'
          : 'is kept in a file system that may keep traces (erasure: best effort)',
        `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`,
      ],
      ...warnIf(erasure !== 'memory'),
    },
    ...(kind === 'root-token'
      ? [
          {
            label: 'THE TOKEN',
            lines: [
              `goes to whoever has the private key of OpenPGP ${spelled(pgp)}`,
              'compare this fingerprint with that person',
            ],
            ...warnIf(true),
          },
        ]
      : []),
    {
      label: 'Ceremony',
      lines: [
        `${invitation.cid}, epoch ${invitation.epoch}`,
        `input ${invitation.inputDigest}`,
        `invitation ${digest}`,
      ],
    },
  ];
}

function holderLines({ holders, standBy = [], groups = [], threshold }: VerifiedInvitation['invitation']): string[] {
  const asked = holders.filter((name) => !standBy.includes(name));
  return [
    `${asked.join(', ')}; ${threshold} needed`,
    ...(standBy.length > 0 ? [`standing by, asked later: ${standBy.join(', ')}`] : []),
    ...(groups.length > 0 ? [`of these ${threshold}: ${groupRule(groups)}`, GROUPS_ARE_OURS] : []),
  ];
}

/**
 * Every member of an invitation to a rehearsal in plain words.
 *
 * @param now milliseconds since 1970.
 */
export function plainRehearsalFacts({ rehearsal, environment, digest }: VerifiedRehearsal, now: number): PlainFact[] {
  const { requestedBy, erasure, exp, iat, useFor, recipient, pgp } = rehearsal;
  return [
    { label: 'REHEARSAL', lines: ['your key share is NOT asked for', 'your tool makes a value that means nothing'] },
    { label: 'Environment', lines: [environment, "signed with the workers' key that you trust"] },
    { label: 'What for', lines: [`to see that tool, key and access of each holder of ${rehearsal.deployment} work`] },
    {
      label: 'Runbook',
      lines: [rehearsal.runbook, `Workflow ID ${rehearsal.wid}`, `run ${rehearsal.rid}, namespace ${rehearsal.ns}`],
    },
    { label: 'Requested by', lines: [attestedName(requestedBy)] },
    { label: 'Reason', lines: [rehearsal.reason === '' ? 'none given' : rehearsal.reason] },
    { label: 'Holders', lines: [rehearsal.holders.join(', ')] },
    {
      label: 'Collected',
      lines: [
        `until ${clock(exp * 1000, now)}, ${inWords(exp * 1000 - now)} from now`,
        `invited at ${clock(iat * 1000, now)}`,
      ],
    },
    {
      label: 'Its key',
      lines: [
        `is ${erasure === 'memory' ? 'kept in memory' : 'kept in a file system'}, and destroyed ${inWords(useFor * 1000)} later`,
        `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`,
      ],
    },
    {
      label: 'Ceremony',
      lines: [`${rehearsal.cid}, epoch ${rehearsal.epoch}`, `input ${rehearsal.inputDigest}`, `invitation ${digest}`],
    },
  ];
}

function warnIf(condition: boolean): { readonly warning?: true } {
  return condition ? { warning: true } : {};
}
