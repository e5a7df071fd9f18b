import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { deploymentWorkflowId } from '../../contracts/names';
import type { GateName } from '../../contracts/gates';
import { createHolderKey, formatPublicKey, generatePassphrase } from '../../keys';

/** The name of the simulated deployment. */
export const DEPLOYMENT = 'payments';

/** The people and their groups; key holders are in the order of their key shares. */
const GROUPS = {
  ...{ ada: 'holders', bert: 'holders', cleo: 'holders', dora: 'holders', emil: 'holders' },
  ...{ grace: 'approvers', henry: 'approvers', olga: 'operators' },
} as const;
/** The operator who requests the runs. */
export const OPERATOR = 'olga';

/** Low, so that key files open quickly: these passphrases are random and are discarded after the demonstration. */
const SCRYPT_WORK_FACTOR = 10;

/** Creates everyone's signing key and gives each holder one key share, in files of mode 0600. */
export async function makePeople(
  directory: string,
  keyShares: readonly string[],
): Promise<ReadonlyMap<string, DemoPerson>> {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const names = Object.entries(GROUPS);
  const people = names.map(([name, group], index) =>
    makePerson(directory, name, group, group === 'holders' ? keyShares[index] : undefined),
  );
  return new Map((await Promise.all(people)).map((person) => [person.name, person]));
}

async function makePerson(directory: string, name: string, group: string, share: string | undefined) {
  const passphrase = generatePassphrase();
  const made = await createHolderKey(passphrase, SCRYPT_WORK_FACTOR);
  const write = async (kind: string, content: string): Promise<string> => {
    const file = join(directory, `${name}.${kind}`);
    await writeFile(file, content, { mode: 0o600 });
    return file;
  };
  return {
    ...{ name, groups: [group] },
    /** `<kid>:<x>`, as the inventory lists it. */
    publicKey: formatPublicKey(made.key),
    keyFile: await write('key', made.file),
    passphraseFile: await write('passphrase', `${passphrase.reveal()}\n`),
    /** Key holders only. */
    shareFile: share === undefined ? undefined : await write('share', `${share}\n`),
  };
}

/** A person in the demonstration, with the paths of the files that a real person keeps on their own machine. */
export type DemoPerson = Readonly<Awaited<ReturnType<typeof makePerson>>>;

/** Command-line options that name a person's signing key. */
function signingWords({ keyFile, passphraseFile }: DemoPerson): string[] {
  return ['--key-file', keyFile, '--passphrase-file', passphraseFile];
}

/** Arguments of `runbook` with which a holder answers an invitation without prompts. */
export function shareWords(
  holder: DemoPerson,
  workflowId = deploymentWorkflowId(DEPLOYMENT),
  confirmed = 'west',
): string[] {
  const words = ['share', workflowId, '--holder', holder.name, ...signingWords(holder)];
  return [...words, '--confirm', confirmed, '--share-file', holder.shareFile ?? ''];
}

/** Arguments of `runbook` with which an approver approves a gate; without prompts if `planDigest` is given. */
export function approveWords(
  approver: DemoPerson,
  gate: GateName,
  workflowId = deploymentWorkflowId(DEPLOYMENT),
  planDigest?: string,
): string[] {
  const named = planDigest === undefined ? [] : ['--yes', '--plan-digest', planDigest];
  return ['approve', workflowId, '--gate', gate, '--name', approver.name, ...signingWords(approver), ...named];
}
