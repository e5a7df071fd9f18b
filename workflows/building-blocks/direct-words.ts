import type { DirectAttempt } from '../../src/contracts/activities';

/** What holders are shown: everything that they need, and nothing that is secret. */
export interface DirectScreen {
  readonly workflowId: string;
  readonly cluster: string;
  readonly attempt: DirectAttempt;
}

/** What is waited for. The same words while shares come in: each change of the memo costs an event. */
export function directWait(cluster: string): string {
  return `key holders enter their key shares on ${cluster} themselves, and somebody hands in the encoded token`;
}

/** The exact commands, for a terminal of the holder's own. */
export function directInstructions({ workflowId, cluster, attempt }: DirectScreen): string[] {
  const { kind, nonce, fingerprint, progress, required, address, caSha256, needsToken } = attempt;
  const root = kind === 'root-token';
  const flag = root ? '' : ' -dr-token';
  const path = root ? 'sys/generate-root' : 'sys/replication/dr/secondary/generate-operation-token';
  const ca = caSha256 === '' ? { env: '', curl: '' } : { env: ' VAULT_CACERT=ca.pem', curl: ' --cacert ca.pem' };
  return [
    `${progress} of ${required} key shares are in; ${Math.max(0, required - progress)} more are needed. Nobody gives a share to this run, or to any tool of it`,
    `Nonce of the attempt: ${nonce}`,
    `Compare first: the attempt has the OpenPGP key ${spelled(fingerprint)}, as \`vault operator generate-root${flag} -status\` shows it. The signed invitation names the same key: \`runbook share ${workflowId} --holder YOUR-NAME\` shows it and asks for nothing`,
    ...(caSha256 === '' ? [] : [`ca.pem is the CA file of ${cluster}, SHA-256 ${caSha256}`]),
    ...(needsToken
      ? [
          `This version takes the call only with a token that ${cluster} accepts: \`export VAULT_TOKEN\` for the official command line; for curl add \`-H @FILE\`, the file holding the line X-Vault-Token: TOKEN`,
        ]
      : []),
    `Each holder, with the official command line; it shows the nonce as "Operation nonce" and asks for the share without showing it; go on only where both agree: \`VAULT_ADDR=${address}${ca.env} vault operator generate-root${flag} -nonce=${nonce}\``,
    `Or with bash and curl, which asks without showing it and puts it into no argument: \`read -rsp 'Key share: ' KEY && printf '{"key":"%s","nonce":"${nonce}"}' "$KEY" | curl -sS${ca.curl} -H 'Content-Type: application/json' --data-binary @- ${address}/v1/${path}/update; unset KEY\``,
    `Whoever enters the last share is shown the encoded token, once. It is encrypted${root ? ' to the recipient' : ' to this run'} and no secret: \`runbook submit-token ${workflowId} --cluster ${cluster}\` and paste it; or here: More Actions, Send a Signal, \`submitEncodedToken\`: \`{"cluster": "${cluster}", "encodedToken": "..."}\``,
  ];
}

/** The last share seems to be in: nothing is more urgent than the token. */
export function handInInstructions({ workflowId, cluster }: Pick<DirectScreen, 'workflowId' | 'cluster'>): string[] {
  return [
    `The attempt on ${cluster} has ended. If the last share was entered, A TOKEN EXISTS THAT THIS RUN DOES NOT HOLD: whoever was shown "Encoded Token" (encoded_token) hands it in now`,
    `\`runbook submit-token ${workflowId} --cluster ${cluster}\` and paste it; or here: More Actions, Send a Signal, \`submitEncodedToken\`: \`{"cluster": "${cluster}", "encodedToken": "..."}\``,
    'Nobody was shown one: say so among yourselves and wait; this run asks in a moment what to do',
  ];
}

/** In groups of four, to be read aloud. */
function spelled(fingerprint: string): string {
  return (fingerprint.match(/.{1,4}/g) ?? []).join(' ');
}
