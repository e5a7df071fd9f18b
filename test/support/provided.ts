import { DOCUMENT_TYPES, signDocument } from '../../src/documents/documents';
import { sealEnvelope } from '../../src/documents/envelope';
import type { EnvelopePayload } from '../../src/documents/envelope';
import { verifyInvitation } from '../../src/keys';
import type { SigningKey } from '../../src/keys';
import type { TestPerson } from './people';
import type { Scenario, TestRun } from './scenario';

export interface Providing {
  readonly cluster: string;
  /** Any text: the tool of an honest person would refuse text that is not a token. */
  readonly token: string;
  readonly seq?: number;
  readonly signingKey?: SigningKey;
  /** The plain members, as a person without a signing key sends them. */
  readonly unsigned?: boolean;
  /** The name in the envelope; default: the person's own. */
  readonly name?: string;
  /** Members of the encrypted part that differ from the envelope around it. */
  readonly inside?: Readonly<Record<string, string>>;
  readonly typ?: typeof DOCUMENT_TYPES.token | typeof DOCUMENT_TYPES.share;
}

/** The signal input of a person who provides an operation token, created without the checks of the tool. */
export async function providedBy(
  person: TestPerson,
  invitationJws: string,
  workersKey: SigningKey,
  { cluster, token, seq = 1, signingKey = person.key, unsigned, name = person.name, inside, typ }: Providing,
): Promise<{ readonly document: string } | EnvelopePayload> {
  const payload = JSON.parse(Buffer.from(invitationJws.split('.')[1] ?? '', 'base64url').toString()) as {
    holders: string[];
  };
  const pins = [{ environment: 'test', ...workersKey }];
  const holder = payload.holders[0] ?? '';
  const { invitation, digest: inv } = await verifyInvitation(invitationJws, { pins, now: Date.now(), holder });
  const facts = { invitation, invitationDigest: inv, holder: name, seq };
  const envelope = await sealEnvelope('tokens', facts, { token, ...inside }, { cluster });
  if (typeof envelope === 'string') throw new Error('nobody signed it yet');
  return unsigned ? envelope : { document: await signDocument(typ ?? DOCUMENT_TYPES.token, envelope, signingKey) };
}

/** Creates an operation token on a DR secondary, as people do with the service's own command line. */
export function generatedOn(scenario: Scenario, cluster: string): string {
  const { service } = scenario;
  return service.cluster(cluster).tokens.createOperationToken(service.now());
}

/** Waits until the run asks for a token of this cluster, and provides one. */
export async function provide(
  scenario: Scenario,
  run: TestRun,
  cluster: string,
  { holder = 'ada', token }: { readonly holder?: string; readonly token?: string } = {},
): Promise<void> {
  await run.waitsFor('action', ({ what }) => new RegExp(`operation token of ${cluster}\\b`).test(what));
  const invitation = await run.invitation();
  const given = token ?? generatedOn(scenario, cluster);
  const person = scenario.person(holder);
  const seq = Date.now();
  await run.handle.signal(
    'share',
    await providedBy(person, invitation, scenario.workersKey, { cluster, token: given, seq }),
  );
}
