import { GIVEN_AS_TOKEN, usesInWords } from '../contracts/asked';
import { GROUPS_ARE_OURS, groupRule } from '../contracts/share-groups';
import { attestedName, spelled } from '../contracts/words';
import type { Invitation, InvitationUse, Rehearsal, VerifiedInvitation } from './invitation';
import { clock, inWords } from './words';

/** One thing that a holder must read before he gives his share. */
export interface PlainFact {
  readonly label: string;
  /** The first says it; the others go with it. */
  readonly lines: readonly string[];
  /** Out of the ordinary: to be shown so that nobody overlooks it. */
  readonly warning?: true;
}

const DRASTIC: readonly InvitationUse[] = ['dr.disable', 'root-token.generate'];

/**
 * Every member of an invitation in plain words, in the order in which a holder should read them: what, on which cluster,
 * who asks and why; then who else is asked and how long; what only an expert compares comes last. The terminal and the
 * page show the same.
 *
 * @param now milliseconds since 1970.
 */
export function plainFacts({ invitation, environment, digest }: VerifiedInvitation, now: number): PlainFact[] {
  const { kind, targets, erasure, useFor, recipient, pgp } = invitation;
  const token = kind === 'operation-token' ? 'DR operation token' : 'ROOT token';
  const number = targets.length === 1 ? 'one cluster' : `each of ${targets.length} clusters`;
  return [
    { label: 'What for', lines: [`one ${token} on ${number}`], ...warnIf(kind === 'root-token') },
    ...(invitation.collects ? [{ label: 'TOKEN', lines: [GIVEN_AS_TOKEN], ...warnIf(true) }] : []),
    ...targets.map(({ cluster, uses }) => ({
      label: 'Cluster',
      lines: [cluster, `to ${usesInWords(uses)}`],
      ...warnIf(uses.some((use) => DRASTIC.includes(use))),
    })),
    ...whoAndWhy(invitation),
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
    signedBy(environment),
    { label: 'Holders', lines: holderLines(invitation) },
    collected(invitation, now),
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
    theRun(invitation),
    ...targets.map(({ cluster, clusterId, addresses, caSha256 }) => ({
      label: 'More',
      lines: [
        `of cluster ${cluster}: cluster ID ${clusterId}`,
        `at ${addresses.join(', ')}`,
        `CA ${caSha256 === '' ? "the system's roots" : `SHA-256 ${caSha256}`}`,
      ],
    })),
    theCeremony(invitation, digest),
  ];
}

function holderLines({ holders, standBy = [], groups = [], threshold }: Invitation): string[] {
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
export function plainRehearsalFacts(
  { invitation: rehearsal, environment, digest }: VerifiedInvitation<'rehearsal'>,
  now: number,
): PlainFact[] {
  const { erasure, useFor, recipient, pgp } = rehearsal;
  return [
    { label: 'REHEARSAL', lines: ['your key share is NOT asked for', 'your tool makes a value that means nothing'] },
    { label: 'What for', lines: [`to see that tool, key and access of each holder of ${rehearsal.deployment} work`] },
    ...whoAndWhy(rehearsal),
    signedBy(environment),
    { label: 'Holders', lines: [rehearsal.holders.join(', ')] },
    collected(rehearsal, now),
    {
      label: 'Its key',
      lines: [
        `is ${erasure === 'memory' ? 'kept in memory' : 'kept in a file system'}, and destroyed ${inWords(useFor * 1000)} later`,
        `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`,
      ],
    },
    theRun(rehearsal),
    theCeremony(rehearsal, digest),
  ];
}

type Either = Pick<Invitation & Rehearsal, keyof Invitation & keyof Rehearsal>;

function whoAndWhy({ requestedBy, reason }: Either): PlainFact[] {
  const claimed = requestedBy.how === 'claimed';
  return [
    { label: 'Reason', lines: [reason === '' ? 'none given' : reason] },
    {
      label: 'Requested by',
      lines: [attestedName(requestedBy), ...(claimed ? ['nobody proved that name: ask, where it matters'] : [])],
      ...warnIf(claimed),
    },
  ];
}

/** The name is the holder's own: he gave it when he compared the key, or whoever made his page did. */
function signedBy(environment: string): PlainFact {
  const workers = environment === '' ? 'the workers whose key you noted' : `the workers of "${environment}"`;
  return {
    label: 'Signed by',
    lines: [
      workers,
      environment === ''
        ? 'the signature verifies with the key of your note'
        : 'so their key was called when it was trusted here; the signature verifies with it',
    ],
  };
}

function collected({ exp, iat }: Either, now: number): PlainFact {
  return {
    label: 'Collected',
    lines: [
      `until ${clock(exp * 1000, now)}, ${inWords(exp * 1000 - now)} from now`,
      `invited at ${clock(iat * 1000, now)}`,
    ],
  };
}

function theRun({ runbook, wid, rid, ns }: Either): PlainFact {
  return { label: 'Runbook', lines: [runbook, `Workflow ID ${wid}`, `run ${rid}, namespace ${ns}`] };
}

function theCeremony({ cid, epoch, inputDigest }: Either, digest: string): PlainFact {
  return { label: 'Ceremony', lines: [`${cid}, epoch ${epoch}`, `input ${inputDigest}`, `invitation ${digest}`] };
}

function warnIf(condition: boolean): { readonly warning?: true } {
  return condition ? { warning: true } : {};
}
