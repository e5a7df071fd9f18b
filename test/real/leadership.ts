import { Minutes, decoded, text } from './conversation';
import type { Conversation } from './conversation';
import { until } from '../support/by-hand';
import type { PlainCall } from '../support/by-hand';
import type { Nodes } from './real-nodes';

/** Three nodes, of which the first leads, with five key shares (hexadecimal) and threshold three; no attempt is in progress. */
export interface LeadershipPartner {
  readonly nodes: Nodes;
  readonly keyShares: readonly string[];
}

const ATTEMPT = 'sys/generate-root/attempt';
const UPDATE = 'sys/generate-root/update';
const LEADER = ['errors', 'ha_enabled', 'is_self', 'leader_address'];

/**
 * Calls `sys/generate-root` on the nodes of a cluster while the leader changes, while nodes are sealed, and while no
 * node leads, and records the answers. The real and the simulated cluster must give the same answers. Afterwards no
 * node has an attempt.
 */
export async function converseOnLeadership({ nodes, keyShares }: LeadershipPartner): Promise<Conversation> {
  const [a = '', b = '', c = ''] = nodes.addresses;
  const minutes = new Minutes(new Map([a, b, c].map((address, index) => [address, `node ${'abc'[index]}`])));
  const [first = '', second = '', third = ''] = keyShares;

  const say = (what: string, address: string, method: string, path: string, more: PlainCall = {}) =>
    minutes.say(what, [address, method, path, more]);
  const look = (what: string, address: string) => say(what, address, 'GET', ATTEMPT);
  const give = (what: string, address: string, nonce: string, key: string) =>
    say(what, address, 'PUT', UPDATE, { body: { key, nonce } });
  const start = async (what: string, address: string) => (await say(what, address, 'PUT', ATTEMPT)).fields;
  const leader = (what: string, address: string) => minutes.say(what, [address, 'GET', 'sys/leader'], LEADER);
  /** Every call that a run may make to a node that does not serve. */
  const sayAll = async (which: string, address: string, nonce: string) => {
    await look(`${which}: look`, address);
    await start(`${which}: start`, address);
    await give(`${which}: share`, address, nonce, third);
    await say(`${which}: cancel`, address, 'DELETE', ATTEMPT);
    await leader(`${which}: leader`, address);
    await minutes.say(`${which}: seal status`, [address, 'GET', 'sys/seal-status'], ['sealed']);
  };

  // A standby forwards.
  await look('standby: look, nothing runs', c);
  const asked = { 'X-Vault-No-Request-Forwarding': 'true' };
  await say('standby that must not pass on: look', c, 'GET', ATTEMPT, { headers: asked });
  const kept = await start('standby: start', c);
  await look('other standby: look', b);
  await look('active: look', a);
  await give('standby: first share', c, text(kept['nonce']), first);
  await leader('active: leader', a);
  await leader('standby: leader', c);

  // The attempt stays with its node.
  await nodes.lead(b);
  await look('b leads: look at b', b);
  await look('b leads: look at a', a);
  await give('b leads: share at a', a, text(kept['nonce']), second);
  await say('b leads: cancel at a', a, 'DELETE', ATTEMPT);
  const other = await start('b leads: start at c', c);
  await give('b leads: first share at b', b, text(other['nonce']), first);

  // The attempt is valid again when its node leads again.
  await nodes.lead(a);
  await look('a leads again: look at a', a);
  await look('a leads again: look at b', b);
  await start('a leads again: start', a);
  await give("a leads again: share to b's attempt", a, text(other['nonce']), third);
  await give('a leads again: second share', a, text(kept['nonce']), second);

  // A sealed node, and a node without a quorum.
  await nodes.seal();
  await sayAll('a is sealed', a, text(kept['nonce']));
  await nodes.lead(b);
  await look('a is sealed, b leads: look at b', b);
  await nodes.seal();
  await until(`${c} does not reach ${b}`, async () => {
    const { status } = await fetch(`${c}/v1/${ATTEMPT}`, { redirect: 'manual' });
    return status === 307;
  });
  await sayAll('a and b are sealed', c, text(kept['nonce']));

  // Neither sealing nor a leader change ends the attempt.
  await nodes.unseal(a);
  await nodes.unseal(b);
  await nodes.lead(a);
  await look('unsealed, a leads: look', c);
  const ended = await give('unsealed, a leads: third share', c, text(kept['nonce']), third);
  await look('unsealed, a leads: look, the slot is free', a);
  await nodes.lead(b);
  await look('unsealed, b leads: look', b);
  await say('unsealed, b leads: cancel at c', c, 'DELETE', ATTEMPT);
  await look('unsealed, b leads: look again', b);

  // The end of the process ends the attempt.
  await start('b leads: start', b);
  await nodes.restart(b);
  await nodes.unseal(b);
  await nodes.lead(b);
  await look('b was killed and leads again: look', b);
  return { turns: minutes.turns, token: decoded(text(ended.fields['encoded_token']), text(kept['otp'])) };
}
