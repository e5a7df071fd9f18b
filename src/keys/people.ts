import type { Attestation, Principal } from '../contracts/run-facts';
import type { VerificationKey } from '../documents/documents';
import { importPublicKey } from '../documents/public-keys';
import type { PublicKeyEntry } from '../documents/public-keys';

/** The facts about a person that documents depend on. The inventory's `Person` satisfies it. */
export interface PersonFacts {
  readonly name: string;
  readonly attestation: Attestation;
  readonly publicKeys: readonly PublicKeyEntry[];
  readonly principal?: Principal | undefined;
}

/** The people of the inventory, by name. */
export type People = ReadonlyMap<string, PersonFacts>;

/** The key `kid` as a {@link VerificationKey}, if it belongs to this person. */
export function keyOfPerson(person: PersonFacts | undefined, kid: string): VerificationKey | undefined {
  const key = person?.publicKeys.find((candidate) => candidate.kid === kid);
  return person && key && { name: person.name, publicKey: importPublicKey(key.x) };
}

/** Whether the sender that the server recorded is this person: type and name must match. */
export function isSender({ principal }: PersonFacts, sender: Principal | undefined): boolean {
  return sender !== undefined && sender.type === principal?.type && sender.name === principal.name;
}
