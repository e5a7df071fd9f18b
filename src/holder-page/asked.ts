import { createEnvelope, createRehearsalEnvelope, plainFacts, plainRehearsalFacts } from '../holder';
import type { EnvelopePayload, PlainFact, SigningKey } from '../holder';
import type { Secret } from '../secret';
import type { Verified } from './trust';

/** What the holder is asked for, in the words of the page. */
export interface Asked {
  readonly kind: Verified['kind'];
  /** End of the collecting, seconds since 1970. */
  readonly exp: number;
  readonly run: { readonly ns: string; readonly wid: string; readonly rid: string };
  readonly summary: string;
  /** What has to be typed so that nobody agrees without having read. */
  readonly confirm: { readonly label: string; readonly wanted: string };
  /** The holders of this run enter their shares in the service themselves: nothing is asked for here. */
  readonly direct: boolean;
  facts(now: number): readonly PlainFact[];
}

/** The verified invitation as the page needs it. */
export function askedOf(verified: Verified): Asked {
  if (verified.kind === 'rehearsal') {
    const { checked } = verified;
    const { exp, ns, wid, rid, deployment, requestedBy, reason } = checked.rehearsal;
    return {
      kind: 'rehearsal',
      exp,
      run: { ns, wid, rid },
      summary: `A rehearsal for ${deployment}, asked by ${requestedBy.name}: ${reason}`,
      confirm: { label: 'To go on, type the name of the deployment', wanted: deployment },
      direct: false,
      facts: (now) => plainRehearsalFacts(checked, now),
    };
  }
  const { checked } = verified;
  const { exp, ns, wid, rid, targets, runbook, requestedBy, reason } = checked.invitation;
  return {
    kind: 'ceremony',
    exp,
    run: { ns, wid, rid },
    summary: `${runbook} for ${targets.map(({ cluster }) => cluster).join(', ')}, asked by ${requestedBy.name}: ${reason}`,
    confirm: {
      label: `To go on, type the name of the ${targets.length > 1 ? 'first ' : ''}cluster`,
      wanted: targets[0]?.cluster ?? '',
    },
    direct: checked.invitation.shares === 'direct',
    facts: (now) => plainFacts(checked, now),
  };
}

/**
 * The holder's answer. To a rehearsal there is no way to hand a share in: the value in it is made on the spot.
 *
 * @param given.share asked for only where it is needed.
 */
export function answer(
  verified: Verified,
  given: { readonly holder: string; readonly share: () => Secret<'key-share'>; readonly key: SigningKey | undefined },
): Promise<string | EnvelopePayload> {
  const common = {
    holder: given.holder,
    // The highest counts: a later envelope of the same holder replaces an earlier one.
    seq: Date.now(),
    ...(given.key === undefined ? {} : { signingKey: given.key }),
  };
  if (verified.kind === 'rehearsal') {
    const { rehearsal, digest } = verified.checked;
    return createRehearsalEnvelope({ ...common, rehearsal, rehearsalDigest: digest, tool: toolName() });
  }
  const { invitation, digest } = verified.checked;
  return createEnvelope({ ...common, invitation, invitationDigest: digest, share: given.share() });
}

function toolName(): string {
  return `holder page ${document.querySelector('meta[name="version"]')?.getAttribute('content') ?? ''}`.trim();
}
