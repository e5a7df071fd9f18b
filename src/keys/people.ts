import type { Attestation, Principal } from '../contracts/run-facts';
import type { VerificationKey } from '../documents/documents';
import { importPublicKey } from '../documents/public-keys';
import type { PublicKeyEntry } from '../documents/public-keys';

/** What the inventory says of a person, as far as documents depend on it. The inventory's `Person` is one. */
export interface PersonFacts {
  readonly name: string;
  readonly attestation: Attestation;
  readonly publicKeys: readonly PublicKeyEntry[];
  readonly principal?: Principal | undefined;
}

/** The people of the inventory, by name. */
export type People = ReadonlyMap<string, PersonFacts>;

/** The key `kid` if it is one of this person's, as {@link VerificationKey}. */
export function keyOfPerson(person: PersonFacts | undefined, kid: string): VerificationKey | undefined {
  const key = person?.publicKeys.find((candidate) => candidate.kid === kid);
  return person && key && { name: person.name, publicKey: importPublicKey(key.x) };
}

/** Whether whom the server saw send something is this person: type and name. */
export function isSender({ principal }: PersonFacts, sender: Principal | undefined): boolean {
  return sender !== undefined && sender.type === principal?.type && sender.name === principal.name;
}
