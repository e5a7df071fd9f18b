import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createHolderKey, generatePassphrase } from '../keys';

/** A person of the demonstration: where the files are that a real person keeps on a machine of his own. */
export interface DemoPerson {
  readonly name: string;
  readonly groups: readonly string[];
  /** `<kid>:<x>`, for the inventory. */
  readonly publicKey: string;
  readonly keyFile: string;
  readonly passphraseFile: string;
  /** Of the key holders. */
  readonly shareFile?: string;
}

/** Key holders, in the order in which they get the key shares. */
export const HOLDERS = ['ada', 'bert', 'cleo', 'dora', 'emil'] as const;
const APPROVERS = ['grace', 'henry'] as const;
/** Who asks for the switchover. */
export const OPERATOR = 'olga';

/** Cheap to open: these passphrases are random and live as long as the demonstration. */
const SCRYPT_WORK_FACTOR = 10;

/** Makes everybody's signing key, and gives each holder one key share, in files of mode 0600. */
export async function makePeople(
  directory: string,
  keyShares: readonly string[],
): Promise<ReadonlyMap<string, DemoPerson>> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const groupsOf = (name: string): string[] => {
    if (name === OPERATOR) return ['operators'];
    return APPROVERS.some((approver) => approver === name) ? ['approvers'] : ['holders'];
  };
  const people = await Promise.all(
    [...HOLDERS, ...APPROVERS, OPERATOR].map(async (name, index): Promise<[string, DemoPerson]> => {
      const passphrase = generatePassphrase();
      const key = await createHolderKey(passphrase, SCRYPT_WORK_FACTOR);
      const keyFile = join(directory, `${name}.key`);
      const passphraseFile = join(directory, `${name}.passphrase`);
      await writeFile(keyFile, key.file, { mode: 0o600 });
      await writeFile(passphraseFile, `${passphrase.reveal()}\n`, { mode: 0o600 });
      const share = index < HOLDERS.length ? keyShares[index] : undefined;
      const shareFile = join(directory, `${name}.share`);
      if (share !== undefined) await writeFile(shareFile, `${share}\n`, { mode: 0o600 });
      const person = { name, groups: groupsOf(name), publicKey: key.inventoryLine, keyFile, passphraseFile };
      return [name, share === undefined ? person : { ...person, shareFile }];
    }),
  );
  return new Map(people);
}
