import { createHmac, timingSafeEqual, hkdfSync, randomBytes } from 'node:crypto';
import { CompactEncrypt, compactDecrypt, decodeProtectedHeader } from 'jose';
import { z } from 'zod';
import type { Sealed, SealedKind } from '../contracts/ceremony';
import { looksLikeShare } from '../documents/key-shares';
import { RunbookError } from '../errors';
import { Secret } from '../secret';

/** The run that a worker acts for: namespace, Workflow ID and Run ID, from the activity's own context. */
export interface RunContext {
  readonly ns: string;
  readonly wid: string;
  readonly rid: string;
}

/** What a sealed value is bound to. */
export interface SealSpec<K extends SealedKind = SealedKind> {
  readonly kind: K;
  /** Inventory name of the cluster on which the secret is used. */
  readonly cluster: string;
  readonly clusterId: string;
  /** Complete list of permitted uses, for example `dr.promote`. */
  readonly uses: readonly string[];
  /** Lifetime in seconds from now, at most 60 days. Not a point in time. */
  readonly expSeconds: number;
}

/** The intended use. Every member comes from the activity itself, none from the sealed value. */
export interface OpenSpec<K extends SealedKind = SealedKind> {
  readonly kind: K;
  readonly cluster: string;
  readonly clusterId: string;
  readonly use: string;
  /** Also opens values that an earlier run of the same Workflow ID sealed, and expired values. For deletion only. */
  readonly forDeletion?: boolean;
  /** What people do if the value has expired and no run can make a new one by itself. */
  readonly nextWhenExpired?: string;
}

/** The only use that may be opened with `forDeletion`: it ends the token. */
const DELETION = 'dr.operation-token.delete';

const TYP = 'runbooks-sealed-v1';
const MAX_LIFE_SECONDS = 60 * 24 * 3600;
const MAX_SEALED_LENGTH = 16 * 1024;
const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;

const protectedHeader = z.strictObject({
  alg: z.literal('dir'),
  enc: z.literal('A256GCM'),
  typ: z.literal(TYP),
  kid: z.string(),
  ns: z.string(),
  wid: z.string(),
  rid: z.string(),
  kind: z.string(),
  cluster: z.string(),
  clusterId: z.string(),
  uses: z.array(z.string()),
  iat: z.int(),
  exp: z.int(),
});

function refuse(
  why: string,
  more: { readonly observed?: string; readonly needed?: string; readonly next?: string } = {},
): never {
  throw new RunbookError('SEALED_VALUE_INVALID', `The sealed value is refused: ${why}.`, more);
}

/** Creates one entry `kid:base64key` for the file that `RUNBOOKS_SEAL_KEYS_FILE` names. */
export function newSealKey(kid = `k${randomBytes(4).toString('hex')}`): Secret<'private-key'> {
  if (!KEY_ID.test(kid))
    throw new RunbookError('INVALID_INPUT', 'The name of a seal key may contain letters, digits, - and _ only.');
  return new Secret('private-key', `${kid}:${randomBytes(32).toString('base64')}`);
}

/** The keys derived from one entry of the key ring. */
interface DerivedKeys {
  readonly sealing: Uint8Array;
  readonly attesting: Uint8Array;
}

function derive(key: Uint8Array, info: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key, new Uint8Array(0), info, 32));
}

/** The workers' seal keys. The first one seals; all of them open. To rotate, put a new key in front. */
export class SealKeyring {
  readonly #keys: ReadonlyMap<string, DerivedKeys>;
  /** Identifier of the entry that seals. */
  readonly sealingKid: string;

  private constructor(keys: ReadonlyMap<string, DerivedKeys>, sealingKid: string) {
    this.#keys = keys;
    this.sealingKid = sealingKid;
  }

  /**
   * Reads the text of `RUNBOOKS_SEAL_KEYS_FILE`: `kid:base64key`, one per line or separated by commas, each key 32
   * bytes.
   *
   * @throws RunbookError `SEAL_KEY_MISSING`; the message gives the number of the bad entry, never the entry.
   */
  static parse(text: string): SealKeyring {
    const entries = text.split(/[\s,]+/).filter((entry) => entry !== '');
    const keys = new Map<string, DerivedKeys>();
    for (const [index, entry] of entries.entries()) {
      const colon = entry.indexOf(':');
      const kid = entry.slice(0, Math.max(colon, 0));
      const encoded = entry.slice(colon + 1);
      const key = Buffer.from(encoded, 'base64');
      const strict = key.toString('base64').replace(/(?<!=)=+$/, '') === encoded.replace(/(?<!=)=+$/, '');
      if (!KEY_ID.test(kid) || key.length !== 32 || !strict || keys.has(kid)) {
        throw new RunbookError(
          'SEAL_KEY_MISSING',
          `Entry ${index + 1} of RUNBOOKS_SEAL_KEYS_FILE is not "kid:base64 of 32 bytes" with a unique name.`,
          { next: 'Create a key with `runbook keys seal`.' },
        );
      }
      keys.set(kid, {
        sealing: derive(key, 'runbooks/sealed/v1'),
        attesting: derive(key, 'runbooks/attested/v1'),
      });
      key.fill(0);
    }
    const [first] = keys.keys();
    if (first === undefined) {
      throw new RunbookError('SEAL_KEY_MISSING', 'The file of RUNBOOKS_SEAL_KEYS_FILE is empty.', {
        next: 'Create a key with `runbook keys seal`, and give every worker the same key.',
      });
    }
    return new SealKeyring(keys, first);
  }

  /** The derived encryption key of entry `kid`. For sealing and opening only. */
  derivedKey(kid: string): Uint8Array | undefined {
    return this.#keys.get(kid)?.sealing;
  }

  /** The derived key of entry `kid` that attests what a worker observed. */
  attestingKey(kid: string): Uint8Array | undefined {
    return this.#keys.get(kid)?.attesting;
  }

  toJSON(): string {
    return '[redacted]';
  }
}

/**
 * Seals a secret for transport through Temporal, bound to the run, one cluster and its uses (protocol: "Sealed value").
 *
 * @param context the activity's own run, never from input.
 * @throws RunbookError `SEALED_VALUE_INVALID` if the value could never be opened again.
 */
export async function sealValue<K extends SealedKind>(
  keyring: SealKeyring,
  context: RunContext,
  spec: SealSpec<K>,
  secret: Secret<K>,
): Promise<Sealed<K>> {
  if (!(spec.expSeconds > 0 && spec.expSeconds <= MAX_LIFE_SECONDS))
    refuse('its time to live must be between 1 s and 60 days');
  if (spec.uses.length === 0) refuse('it lists no use');
  const key = keyring.derivedKey(keyring.sealingKid) ?? refuse('no seal key is available');
  const iat = Math.floor(Date.now() / 1000);
  const plaintext = Buffer.from(secret.reveal(), 'utf8');
  const { ns, wid, rid } = context;
  const { kind, cluster, clusterId, uses, expSeconds } = spec;
  const sealed = await new CompactEncrypt(plaintext)
    .setProtectedHeader({
      ...{ alg: 'dir', enc: 'A256GCM', typ: TYP, kid: keyring.sealingKid },
      ...{ ns, wid, rid, kind, cluster, clusterId, uses: [...uses], iat, exp: iat + Math.ceil(expSeconds) },
    })
    .encrypt(key)
    .finally(() => plaintext.fill(0));
  if (sealed.length > MAX_SEALED_LENGTH) refuse('it would be larger than 16 KiB');
  // Nothing else creates the type `Sealed`.
  return sealed as Sealed<K>;
}

/**
 * Opens a sealed value if it was sealed for exactly this run, kind, cluster and use, and has not expired.
 *
 * @param context the activity's own run, never from input.
 * @throws RunbookError `SEALED_VALUE_INVALID`; the message names the binding that failed and quotes nothing of the
 * value.
 */
export async function openValue<K extends SealedKind>(
  keyring: SealKeyring,
  context: RunContext,
  sealed: Sealed<K>,
  spec: OpenSpec<K>,
): Promise<Secret<K>> {
  const { header, plaintext } = await decrypt(keyring, sealed);
  const forDeletion = spec.forDeletion === true;
  if (forDeletion && spec.use !== DELETION) refuse('only a deletion may open it for deletion');

  if (header.ns !== context.ns || header.wid !== context.wid) refuse('it belongs to another workflow');
  if (header.rid !== context.rid && !forDeletion) refuse('it belongs to another run of this workflow');
  if (header.kind !== spec.kind) refuse('it holds another kind of secret');
  if (header.cluster !== spec.cluster || header.clusterId !== spec.clusterId) refuse('it is meant for another cluster');
  if (!header.uses.includes(spec.use)) refuse('it is not meant for this use');
  // A generated operation token outlives its sealed form, so an expired value must stay usable for deletion.
  if (header.exp <= Math.floor(Date.now() / 1000) && !forDeletion) {
    refuse('it has expired', {
      observed: `valid until ${new Date(header.exp * 1000).toISOString()}`,
      needed: 'a value that has not expired',
      next:
        spec.nextWhenExpired ??
        'Decide retry: the run makes a new one, and asks the key holders again if it needs them.',
    });
  }
  return new Secret(spec.kind, plaintext);
}

async function decrypt(
  keyring: SealKeyring,
  sealed: unknown,
): Promise<{ header: z.infer<typeof protectedHeader>; plaintext: string }> {
  if (typeof sealed !== 'string' || sealed.length > MAX_SEALED_LENGTH) refuse('it is not a sealed value');
  const parts = sealed.split('.');
  const strict = parts.every((part) => Buffer.from(part, 'base64url').toString('base64url') === part);
  if (parts.length !== 5 || !strict) refuse('it is not a sealed value');
  const header = headerOf(sealed) ?? refuse('its header is not that of a sealed value');
  const key = keyring.derivedKey(header.kid) ?? refuseLacking(header.kid);
  try {
    const opened = await compactDecrypt(sealed, key, {
      keyManagementAlgorithms: ['dir'],
      contentEncryptionAlgorithms: ['A256GCM'],
    });
    try {
      return { header, plaintext: new TextDecoder('utf-8', { fatal: true }).decode(opened.plaintext) };
    } finally {
      opened.plaintext.fill(0);
    }
  } catch {
    return refuse('it does not open');
  }
}

/** Names the entry that was removed too early. Never quotes a name that could be a key share. */
function refuseLacking(kid: string): never {
  const entry = KEY_ID.test(kid) && !looksLikeShare(kid) ? `the entry ${kid}` : 'the entry';
  refuse(`it was sealed with a key that this worker does not have: put ${entry} back into RUNBOOKS_SEAL_KEYS_FILE`, {
    observed: `RUNBOOKS_SEAL_KEYS_FILE lacks ${entry}`,
    needed: `${entry} in RUNBOOKS_SEAL_KEYS_FILE, after the others`,
    next: `The person who runs the workers puts ${entry} back after the others and restarts the workers. Then decide retry. Nothing is lost.`,
  });
}

/** The header of a sealed value, unverified; undefined if the text is none. */
function headerOf(sealed: string): z.infer<typeof protectedHeader> | undefined {
  try {
    return protectedHeader.parse(decodeProtectedHeader(sealed));
  } catch {
    return undefined;
  }
}

const SEALED = /(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]+\.\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+/g;

/**
 * The names of the seal keys that `keyring` lacks to open the sealed values in `value`, such as a history or an entry
 * of the record. Searches every text and every payload; opens nothing.
 */
export function missingSealKeys(keyring: SealKeyring, value: unknown): readonly string[] {
  const kids = new Set<string>();
  const visit = (part: unknown): void => {
    if (typeof part === 'string') for (const [sealed] of part.matchAll(SEALED)) add(sealed);
    if (part instanceof Uint8Array)
      visit(Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('latin1'));
    else if (typeof part === 'object' && part !== null) Object.values(part).forEach(visit);
  };
  const add = (sealed: string): void => {
    const kid = headerOf(sealed)?.kid;
    if (kid !== undefined && KEY_ID.test(kid) && keyring.derivedKey(kid) === undefined) kids.add(kid);
  };
  visit(value);
  return [...kids].sort();
}

/** What identifies an observation of a worker that a later run relies on. */
export interface AttestedFacts {
  readonly deployment: string;
  readonly kind: 'wal-samples' | 'record' | 'record-entry' | 'held-demotion' | 'quotas-before';
  /** Time of the observation, epoch ms. */
  readonly time: number;
}

/**
 * The workers' mark on an observation: `kid.mac`, an HMAC-SHA256 with a key derived from the first entry of the key
 * ring. Write access to the namespace is not enough to create one: it takes a seal key.
 *
 * @param content JSON. The caller must compare the time, deployment and run in it.
 */
export function attest(keyring: SealKeyring, facts: AttestedFacts, content: unknown): string {
  const kid = keyring.sealingKid;
  const key = keyring.attestingKey(kid);
  if (key === undefined) throw new Error('no key attests');
  return `${kid}.${macOf(key, facts, content).toString('base64url')}`;
}

/** The name of the seal key that a mark claims. */
export const kidOfMark = (mark: string): string => mark.split('.', 1)[0] ?? '';

/** Whether a worker made this mark on exactly these facts and this content, with any key of the ring. */
export function isAttested(keyring: SealKeyring, facts: AttestedFacts, content: unknown, mark: unknown): boolean {
  if (typeof mark !== 'string' || mark.length > 200) return false;
  const [, mac = ''] = mark.split('.');
  const key = keyring.attestingKey(kidOfMark(mark));
  if (key === undefined) return false;
  const [given, wanted] = [Buffer.from(mac, 'base64url'), macOf(key, facts, content)];
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}

/**
 * Parsing and serializing JSON keeps the order of members, so content that passed through Temporal has the same text.
 */
function macOf(key: Uint8Array, { deployment, kind, time }: AttestedFacts, content: unknown): Buffer {
  return createHmac('sha256', key).update(JSON.stringify({ deployment, kind, time, content }), 'utf8').digest();
}
