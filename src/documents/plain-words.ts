import { GIVEN_AS_TOKEN, usesInWords } from '../contracts/asked';
import { GROUPS_ARE_OURS, groupRule } from '../contracts/share-groups';
import { attestedName, clock, inWords, spelled } from '../contracts/words';
import type { Invitation, InvitationUse, Rehearsal, VerifiedInvitation } from './invitation';

/** One thing that a holder must read before giving anything. */
export interface PlainFact {
  readonly label: string;
  /** The first says it; the others go with it. */
  readonly lines: readonly string[];
  /** Out of the ordinary: to be shown so that nobody overlooks it. */
  readonly warning?: true;
}

const DRASTIC: readonly InvitationUse[] = ['dr.disable', 'root-token.generate'];

function fact(label: string, lines: readonly string[], warning = false): PlainFact {
  return { label, lines, ...(warning ? { warning } : {}) };
}

/**
 * Every member of an invitation in plain words, in the order in which a holder should read them: what, on which cluster,
 * who asks and why; then who else is asked and how long; what only an expert compares comes last. The terminal and the
 * page show the same.
 *
 * @param now milliseconds since 1970.
 */
export function plainFacts({ invitation, environment, digest }: VerifiedInvitation, now: number): PlainFact[] {
  const { targets, erasure, useFor, recipient, pgp } = invitation;
  const root = invitation.kind === 'root-token';
  const number = targets.length === 1 ? 'one cluster' : `each of ${targets.length} clusters`;
  const kept =
    erasure === 'memory' ? 'is kept in memory' : 'is kept in a file system that may keep traces (erasure: best effort)';
  const life = inWords(useFor * 1000);
  return [
    fact('What for', [`one ${root ? 'ROOT token' : 'DR operation token'} on ${number}`], root),
    ...(invitation.collects ? [fact('TOKEN', [GIVEN_AS_TOKEN], true)] : []),
    ...targets.map(({ cluster, uses, recovery }) => {
      const drastic = uses.some((use) => DRASTIC.includes(use));
      const share = recovery ? ['it unseals itself: your share is a RECOVERY key share'] : [];
      return fact('Cluster', [cluster, `to ${usesInWords(uses)}`, ...share], drastic);
    }),
    ...whoAndWhy(invitation),
    ...(root || invitation.forPerson
      ? [
          fact(
            'THE TOKEN',
            [
              `goes to whoever has the private key of OpenPGP ${spelled(pgp)}`,
              'compare this fingerprint with that person',
            ],
            true,
          ),
        ]
      : []),
    ...(invitation.keepFor === undefined
      ? []
      : [
          fact(
            'Kept',
            [`sealed for the next run, for at most ${inWords(invitation.keepFor * 1000)}`, 'people approve that run'],
            true,
          ),
        ]),
    signedBy(environment),
    fact('Holders', holderLines(invitation)),
    collected(invitation, now),
    fact('Then used', [`for at most ${life}; then the key that opens your share is destroyed`]),
    fact('That key', [kept, `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`], erasure !== 'memory'),
    theRun(invitation),
    ...targets.map(({ cluster, clusterId, addresses, caSha256 }) =>
      fact('More', [
        `of cluster ${cluster}: cluster ID ${clusterId}`,
        `at ${addresses.join(', ')}`,
        `CA ${caSha256 === '' ? "the system's roots" : `SHA-256 ${caSha256}`}`,
      ]),
    ),
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
  { invitation, environment, digest }: VerifiedInvitation<'rehearsal'>,
  now: number,
): PlainFact[] {
  const { deployment, holders, erasure, useFor, recipient, pgp } = invitation;
  const kept = erasure === 'memory' ? 'kept in memory' : 'kept in a file system';
  return [
    fact('REHEARSAL', ['your key share is NOT asked for', 'your tool makes a value that means nothing']),
    fact('What for', [`to see that tool, key and access of each holder of ${deployment} work`]),
    ...whoAndWhy(invitation),
    signedBy(environment),
    fact('Holders', [holders.join(', ')]),
    collected(invitation, now),
    fact('Its key', [
      `is ${kept}, and destroyed ${inWords(useFor * 1000)} later`,
      `recipient ${recipient.slice(0, 20)}...; OpenPGP ${pgp}`,
    ]),
    theRun(invitation),
    theCeremony(invitation, digest),
  ];
}

type Either = Pick<Invitation & Rehearsal, keyof Invitation & keyof Rehearsal>;

function whoAndWhy({ requestedBy, reason }: Either): PlainFact[] {
  const claimed = requestedBy.how === 'claimed';
  const unproven = claimed ? ['nobody proved that name: ask, where it matters'] : [];
  return [
    fact('Reason', [reason === '' ? 'none given' : reason]),
    fact('Requested by', [attestedName(requestedBy), ...unproven], claimed),
  ];
}

/** The name is the holder's own, given when the key was compared, or when the page was made. */
function signedBy(environment: string): PlainFact {
  if (environment === '')
    return fact('Signed by', ['the workers whose key you noted', 'the signature verifies with the key of your note']);
  return fact('Signed by', [
    `the workers of "${environment}"`,
    'so their key was called when it was trusted here; the signature verifies with it',
  ]);
}

function collected({ exp, iat }: Either, now: number): PlainFact {
  return fact('Collected', [
    `until ${clock(exp * 1000, now)}, ${inWords(exp * 1000 - now)} from now`,
    `invited at ${clock(iat * 1000, now)}`,
  ]);
}

function theRun({ runbook, wid, rid, ns }: Either): PlainFact {
  return fact('Runbook', [runbook, `Workflow ID ${wid}`, `run ${rid}, namespace ${ns}`]);
}

function theCeremony({ cid, epoch, inputDigest }: Either, digest: string): PlainFact {
  return fact('Ceremony', [`${cid}, epoch ${epoch}`, `input ${inputDigest}`, `invitation ${digest}`]);
}
