import { randomUUID } from 'node:crypto';
import type { Principal } from '../../src/contracts/run-facts';
import { RunbookError } from '../../src/errors';
import { Secret } from '../../src/secret';
import { createCeremonyKeys } from '../../src/keys/ceremony-keys';
import type { CeremonyKeys } from '../../src/keys/ceremony-keys';
import type { ArrivedEnvelope } from '../../src/keys/envelope';
import type { InvitationFacts, RehearsalFacts } from '../../src/keys/invitation';
import type { KeyRecord } from '../../src/keys/key-records';
import type { People, PersonFacts } from '../../src/keys/people';
import type { RunContext } from '../../src/keys/sealing';
import { newSigningKey } from '../../src/keys/holder-keys';
import type { SigningKey } from '../../src/documents/signing-keys';

export const RUN: RunContext = {
  ns: 'default',
  wid: 'deployment:payments',
  rid: '0f7c9a52-5b0e-4c7a-9d7e-8f1a2b3c4d5e',
};
export const CID = '3f2b8c1e-9d4a-4e6b-8a7c-1d2e3f4a5b6c';
export const DIGEST = 'q0PqCjVYzV0vT0sVhXl1d6n0mYk1zq2aJr5yB3uW8eI';

/** A share of 33 bytes whose last byte is `x`. Its text is a canary: it must turn up nowhere. */
export function shareText(x: number, bytes = 33): string {
  return 'c0ffee5ec2e75ba2e0'.padEnd((bytes - 1) * 2, 'a1b2c3d4') + x.toString(16).padStart(2, '0');
}

export function share(x: number, bytes = 33): Secret<'key-share'> {
  return new Secret('key-share', shareText(x, bytes));
}

export interface TestPerson extends PersonFacts {
  readonly key: SigningKey;
}

export function person(
  name: string,
  attestation: PersonFacts['attestation'] = 'signed',
  principal?: string,
): TestPerson {
  const { key } = newSigningKey();
  return {
    name,
    attestation,
    publicKeys: [{ kid: key.kid, x: key.x }],
    key,
    ...(principal !== undefined && { principal: jwt(principal) }),
  };
}

export function lookup(...people: readonly PersonFacts[]): People {
  return new Map(people.map((one) => [one.name, one]));
}

let ceremonyKeys: Promise<CeremonyKeys> | undefined;

/** One set of ceremony keys per test file: making them is the slow part. */
export function sharedCeremonyKeys(): Promise<CeremonyKeys> {
  ceremonyKeys ??= createCeremonyKeys();
  return ceremonyKeys;
}

export function record(keys: CeremonyKeys, changes: Partial<KeyRecord> = {}): KeyRecord {
  return {
    run: RUN,
    cid: CID,
    epoch: 1,
    kind: 'operation-token',
    keys,
    invitation: 'not looked at here',
    invitationDigest: DIGEST,
    holders: ['ben', 'cyd', 'dan'],
    threshold: 3,
    exp: 2_000_000_000,
    useFor: 1800,
    state: 'collecting',
    destroyAfter: 2_000_001_800,
    ...changes,
  };
}

export function invitationFacts(changes: Partial<InvitationFacts> = {}): InvitationFacts {
  return {
    kind: 'operation-token',
    targets: [
      {
        cluster: 'west',
        clusterId: '5a1f0000-0000-4000-8000-000000000001',
        addresses: ['https://10.1.0.4:8200'],
        caSha256: '',
        uses: ['dr.promote', 'dr.operation-token.delete'],
      },
    ],
    requestedBy: { name: 'ada', how: 'claimed' },
    reason: 'maintenance of the hall',
    runbook: 'drSwitchover',
    inputDigest: DIGEST,
    holders: ['ben', 'cyd', 'dan'],
    threshold: 3,
    cid: randomUUID(),
    epoch: 1,
    collectForMs: 1_800_000,
    useForMs: 1_800_000,
    ...changes,
  };
}

export function rehearsalFacts(holders: readonly string[] = ['ben', 'cyd']): RehearsalFacts {
  return {
    ...{ deployment: 'payments', requestedBy: { name: 'olga', how: 'claimed' }, reason: 'every quarter' },
    ...{ runbook: 'ceremonyRehearsal', inputDigest: `payments/${holders.join('+')}`, holders },
    ...{ cid: randomUUID(), epoch: 1, collectForMs: 600_000 },
  };
}

/** An envelope as it arrives. */
export function arrived(content: unknown, more: Partial<ArrivedEnvelope> = {}): ArrivedEnvelope {
  return { content, at: Date.now(), ...more };
}

/** The code and the whole text of the error that `run` throws: also what a log would print of it. */
export async function failureOf(run: () => unknown): Promise<{ code: string; text: string }> {
  try {
    await run();
  } catch (error) {
    if (error instanceof RunbookError) {
      return {
        code: error.code,
        text: `${error.message}\n${error.stack ?? ''}\n${JSON.stringify(error)}\n${String(error.cause)}`,
      };
    }
    throw error;
  }
  throw new Error('it did not fail');
}

/** What the server records of somebody who came with a token. */
export function jwt(name: string): Principal {
  return { type: 'jwt', name };
}
