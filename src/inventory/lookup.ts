import { readFile } from 'node:fs/promises';
import { importSigningKey } from '../documents/signing-keys';
import type { SigningKey } from '../documents/signing-keys';
import { errnoOf, RunbookError } from '../errors';
import { Secret } from '../secret';
import type { SecretKind } from '../secret';
import type { Attestation } from '../contracts/run-facts';
import type { GateName } from '../contracts/gates';
import type { CredentialSource, Person, ClusterEntry, Deployment, Inventory } from './schema';

export const listed = (names: Iterable<string>): string => [...names].sort().join(', ') || 'none';

/** @throws RunbookError `UNKNOWN_DEPLOYMENT`, listing the known ones. */
export function findDeployment(inventory: Inventory, name: string): Deployment {
  const deployment = inventory.deployments.get(name);
  if (deployment !== undefined) return deployment;
  throw new RunbookError('UNKNOWN_DEPLOYMENT', `The inventory has no deployment "${name}".`, {
    observed: name,
    needed: `one of: ${listed(inventory.deployments.keys())}`,
  });
}

/** @throws RunbookError `UNKNOWN_CLUSTER`, listing the clusters of the deployment. */
export function findCluster(deployment: Deployment, name: string): ClusterEntry {
  const cluster = deployment.clusters.get(name);
  if (cluster !== undefined) return cluster;
  throw new RunbookError('UNKNOWN_CLUSTER', `Deployment "${deployment.name}" has no cluster "${name}".`, {
    observed: name,
    needed: `one of: ${listed(deployment.clusters.keys())}`,
  });
}

/**
 * The DR set of a cluster: its name and all its members, including the cluster itself.
 *
 * @throws RunbookError `UNKNOWN_CLUSTER`.
 */
export function drSetOf(
  deployment: Deployment,
  cluster: string,
): { readonly name: string; readonly members: readonly string[] } {
  const { drSet } = findCluster(deployment, cluster);
  return { name: drSet, members: deployment.drSets.get(drSet) ?? [cluster] };
}

/**
 * The one rule about claims: in a laboratory a claimed name counts. Elsewhere it counts at no gate and in no decision,
 * because anybody can claim it.
 */
export function countsIn({ laboratory }: Pick<Deployment, 'laboratory'>, how: Attestation): boolean {
  return laboratory || how !== 'claimed';
}

/** Whether this person's documents can be attributed to them. Before that, nothing that they send counts. */
export function hasJoined({ attestation, publicKeys }: Pick<Person, 'attestation' | 'publicKeys'>): boolean {
  return attestation !== 'signed' || publicKeys.length > 0;
}

/** The people whose approvals count at a gate, before the requester is excluded. */
export function approversOf(inventory: Inventory, deployment: Deployment, gate: GateName): readonly Person[] {
  return membersWhoCount(inventory, deployment, deployment.gates[gate].groups);
}

/**
 * The people who may decide about a parked step: everybody who may approve at any gate of this deployment, and its
 * operators.
 */
export function decidersOf(inventory: Inventory, deployment: Deployment): readonly Person[] {
  const ofGates = Object.values(deployment.gates).flatMap(({ groups }) => groups);
  return membersWhoCount(inventory, deployment, [...ofGates, ...deployment.operators]);
}

function membersWhoCount({ people }: Inventory, deployment: Deployment, groups: readonly string[]): readonly Person[] {
  return [...people.values()].filter(
    (person) =>
      person.groups.some((group) => groups.includes(group)) &&
      hasJoined(person) &&
      countsIn(deployment, person.attestation),
  );
}

/** The roster of a deployment's ceremonies. Holders whose key is not listed yet are not invited. Pure. */
export function rosterOf({ ceremony, notJoined }: Deployment) {
  const joined = (names: readonly string[]) => names.filter((name) => !notJoined.includes(name));
  return { holders: joined(ceremony.holders), standBy: joined(ceremony.standBy) };
}

/** The source as text for messages: the name of the variable or file, never the value. */
export function describeSource(source: CredentialSource): string {
  return 'env' in source ? `environment variable ${source.env}` : `file ${source.file}`;
}

/**
 * Reads a secret from its source; a file is read again at every call. Removes trailing line ends.
 *
 * @throws RunbookError `CREDENTIAL_UNAVAILABLE`, which names the source and never the value.
 */
export async function readSecret<K extends SecretKind>(source: CredentialSource, kind: K): Promise<Secret<K>> {
  // Editors on Windows put a byte order mark in front.
  const value = (await readSource(source)).replace(/^\uFEFF/, '').replace(/(?<![\r\n])[\r\n]+$/, '');
  if (value === '') throw unavailable(source, 'it is empty');
  return new Secret(kind, value);
}

/**
 * Reads the secret that a login sends. As {@link readSecret}, but what is certainly no such secret is refused here: the
 * service locks an AppRole after five wrong ones.
 */
export async function readLoginSecret(source: CredentialSource): Promise<Secret<'login-secret'>> {
  const secret = await readSecret(source, 'login-secret');
  const wrong = notALoginSecret(secret.reveal());
  if (wrong !== undefined) throw unavailable(source, wrong);
  return secret;
}

/** What a text is, if it is certainly not the secret itself. Never quotes it. */
function notALoginSecret(text: string): string | undefined {
  const trimmed = text.trim();
  if (/^[[{]/.test(trimmed)) {
    const wrapped = /"wrap_info"\s*:\s*\{/.test(trimmed)
      ? 'a wrapped answer: unwrap it first (vault unwrap) and store'
      : 'JSON: store';
    return `it holds ${wrapped} only the secret itself, on one line`;
  }
  if (/^hv[sb]\.|^s\.[A-Za-z0-9]{24}$/.test(trimmed))
    return 'it holds a token of the service, such as the wrapping token of a secret ID: unwrap it first (vault unwrap) and store only the secret ID';
  if (/^-----BEGIN /.test(trimmed)) return 'it holds a PEM block instead of the secret';
  if (/\s/.test(trimmed)) return 'it holds more than one word: store only the secret itself, on one line';
  return undefined;
}

/**
 * Reads a token of the service from its source. As {@link readSecret}; a token with spaces or line breaks is refused.
 */
export async function readCredential(source: CredentialSource): Promise<Secret<'service-token'>> {
  const token = await readSecret(source, 'service-token');
  // Such a value could not be a header, and the HTTP library's error would quote it.
  if (!/^[\x21-\x7e]+$/.test(token.reveal())) throw unavailable(source, 'it does not contain exactly one token');
  return token;
}

/**
 * Reads the workers' signing key (an Ed25519 private JWK).
 *
 * @throws RunbookError `CREDENTIAL_UNAVAILABLE` or `DOCUMENT_INVALID`.
 */
export async function readSigningKey(source: CredentialSource): Promise<SigningKey> {
  return importSigningKey(await readSecret(source, 'private-key'));
}

async function readSource(source: CredentialSource): Promise<string> {
  if ('env' in source) {
    const value = process.env[source.env];
    if (value === undefined) throw unavailable(source, 'it is not set');
    return value;
  }
  try {
    return await readFile(source.file, 'utf8');
  } catch (error) {
    throw unavailable(source, errnoOf(error) ?? 'it cannot be read');
  }
}

function unavailable(source: CredentialSource, why: string): RunbookError {
  const text = `The credential from ${describeSource(source)} is not available: ${why}.`;
  return new RunbookError('CREDENTIAL_UNAVAILABLE', text, {
    next: 'Correct the source. It is read again at the next attempt.',
  });
}

/** Whether every deployment is a laboratory, and there is one. */
export function onlyLaboratories({ deployments }: Inventory): boolean {
  return deployments.size > 0 && [...deployments.values()].every(({ laboratory }) => laboratory);
}
