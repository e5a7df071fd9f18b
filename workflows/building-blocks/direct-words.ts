import type { DirectAttempt } from '../../src/contracts/activities';
import { nextCommandOf } from '../../src/contracts/next-commands';
import type { Waiting } from '../../src/contracts/run-status';
import { sendInWebUi } from '../../src/contracts/web-ui';
import { said, spelled } from '../../src/contracts/words';

/** What holders are shown: everything that they need, and nothing that is secret. */
export interface DirectScreen {
  readonly workflowId: string;
  readonly cluster: string;
  readonly attempt: DirectAttempt;
  /** Who is asked, stands by or declined, and until when there is time. Whose share is in is not known. */
  readonly people: Extract<Waiting, { for: 'shares' }>;
}

/** What is waited for. The same words while shares come in: each change of the memo costs an event. */
export function directWait(cluster: string): string {
  return `key holders enter their key shares on ${cluster} themselves, and somebody hands in the encoded token`;
}

/** With the official command line. */
export function directCommand(attempt: DirectAttempt): string {
  return officialCommand(attempt, `-nonce=${attempt.nonce}`);
}

function officialCommand({ kind, address, caSha256 }: DirectAttempt, option: string): string {
  const ca = caSha256 === '' ? '' : ' VAULT_CACERT=ca.pem';
  return `VAULT_ADDR=${address}${ca} vault operator generate-root${flagOf(kind)} ${option}`;
}

/** The exact commands, for a terminal of the holder's own. */
export function directInstructions({ workflowId, cluster, attempt, people }: DirectScreen): string[] {
  const { kind, nonce, fingerprint, progress, required, address, caSha256, needsToken } = attempt;
  const root = kind === 'root-token';
  const path = root ? 'sys/generate-root' : 'sys/replication/dr/secondary/generate-operation-token';
  const ca = caSha256 === '' ? '' : ' --cacert ca.pem';
  return [
    `${progress} of ${required} key shares are in; ${Math.max(0, required - progress)} more are needed, until ${timeOf(people.until)}. Nobody gives a share to this run, or to any tool of it`,
    ...peopleLines(workflowId, people),
    `Nonce of the attempt: ${nonce}`,
    `Compare first: the attempt has the OpenPGP key ${spelled(fingerprint)}, as \`${officialCommand(attempt, '-status')}\` shows it. The signed invitation names the same key: \`${nextCommandOf.share(workflowId, 'YOUR-NAME')}\` shows it and asks for nothing`,
    ...(caSha256 === '' ? [] : [`ca.pem is the CA file of ${cluster}, SHA-256 ${caSha256}`]),
    ...(needsToken
      ? [
          `This version takes the call only with a token that ${cluster} accepts: \`export VAULT_TOKEN\` for the official command line; for curl add \`-H @FILE\`, the file holding the line \`X-Vault-Token: TOKEN\`. Where people open the calls to everybody instead, this run looks at its end whether that was taken back`,
        ]
      : []),
    `Each holder, with the official command line; it shows the nonce as "Operation nonce" and asks for the share without showing it; go on only where both agree: \`${directCommand(attempt)}\``,
    `Never \`generate-root${flagOf(kind)} -init\`, although the command says so where it finds no attempt: that starts one of your own, which blocks this run. The active node changed: wait for the new nonce here, and enter your share with it`,
    `Or with bash and curl, which asks without showing it and puts it into no argument: \`read -rsp 'Key share: ' KEY && printf '{"key":"%s","nonce":"${nonce}"}' "$KEY" | curl -sS${ca} -H 'Content-Type: application/json' --data-binary @- ${address}/v1/${path}/update; unset KEY\``,
    `Whoever enters the last share is shown the encoded token, once. It is encrypted${root ? ' to the recipient' : ' to this run'} and no secret. Hand it in at once: ${handIn(workflowId, cluster)}`,
  ];
}

/** The last share seems to be in: nothing is more urgent than the token. */
export function handInInstructions({
  workflowId,
  cluster,
  handInMs,
}: Pick<DirectScreen, 'workflowId' | 'cluster'> & { readonly handInMs: number }): string[] {
  return [
    `The attempt on ${cluster} has ended. If the last share was entered, A TOKEN EXISTS THAT THIS RUN DOES NOT HOLD: whoever was shown "Encoded Token" (encoded_token) hands it in now`,
    handIn(workflowId, cluster),
    `Nobody was shown one: say so among yourselves and wait; this run asks in ${inWords(handInMs)} what to do`,
  ];
}

function handIn(workflowId: string, cluster: string): string {
  return `\`${nextCommandOf.submitToken(workflowId, cluster)}\` and paste it; or here: ${sendInWebUi('`submitEncodedToken`', `\`{"cluster": "${cluster}", "encodedToken": "..."}\``)}`;
}

/** Who is asked and who is not, as far as that can be known: the service does not tell whose shares are in. */
function peopleLines(workflowId: string, people: DirectScreen['people']): string[] {
  const { missingHolders, standBy, declined = [], outOfTerm = [] } = people;
  const told = declined.map(
    ({ by, reason }) => `${said(by.name)} (${by.how === 'claimed' ? 'UNVERIFIED: ' : ''}${said(reason)})`,
  );
  return [
    `Asked: ${missingHolders.join(', ') || 'nobody'}. Who of them entered a share already is not known here: the service does not tell it`,
    ...(told.length > 0 ? [`Declined; may enter one all the same, with the same command: ${told.join(', ')}`] : []),
    ...(standBy
      ? [
          `Standing by, asked at ${timeOf(standBy.askedFrom)} or as soon as somebody declines; may enter one now: ${standBy.holders.join(', ')}`,
        ]
      : []),
    ...outOfTerm.map(({ name, why }) => `Not invited: ${name}, ${why}`),
    `Whoever cannot enter one says so, so that others are asked: \`${nextCommandOf.decline(workflowId)}\``,
  ];
}

function flagOf(kind: DirectAttempt['kind']): string {
  return kind === 'root-token' ? '' : ' -dr-token';
}

function timeOf(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replace('T', ' ')} UTC`;
}

function inWords(milliseconds: number): string {
  return milliseconds < 60_000 ? `${milliseconds / 1000} s` : `${Math.round(milliseconds / 60_000)} min`;
}
