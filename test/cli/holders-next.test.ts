/** Whatever a holder is refused by the run, they read what to do next. What the terminal and the page refuse: eslint.config.mjs. */
import { ENVELOPE_VERDICTS, nextOfShare } from '../../src/contracts/receipts';

const sent = { workflowId: "deployment:o'hara", holder: 'ada' };
const SHARE = "runbook share 'deployment:o'\\''hara' --holder ada";
const STATUS = "`runbook status 'deployment:o'\\''hara'`";

/** Where it is not the command that gives an envelope again. */
const OTHERS: Readonly<Record<string, string>> = {
  undecodable: 'json/plain',
  'plain-text-share': 'finish this run, rekey, then delete',
  'plain-text-token': 'end that token now',
  'not-invited': STATUS,
  'not-signed': `${SHARE} --key-file`,
  'wrong-signer': `${SHARE} --key-file`,
  expired: STATUS,
  'other-kind': STATUS,
  'wrong-cluster': STATUS,
  'same-share-as-another': 'by voice',
  repeated: 'you have nothing left to do',
  superseded: 'you have nothing left to do',
  'keys-gone': `when you are asked again: \`${SHARE}\``,
  'no-ceremony': STATUS,
};

describe('a receipt', () => {
  const codes = [...Object.keys(ENVELOPE_VERDICTS), 'undecodable', 'no-ceremony', 'not-checked'];

  it.each(codes.filter((code) => code !== 'accepted'))(
    'of an envelope that does not count (%s) names the next step of this person',
    (code) => expect(nextOfShare(code, sent)).toContain(OTHERS[code] ?? SHARE),
  );

  it('has a next step for every verdict but the good one; without a name it suits everyone', () => {
    expect(nextOfShare('accepted', sent)).toBeUndefined();
    expect(nextOfShare('malformed', { workflowId: 'w' })).toContain('runbook share w');
    expect(nextOfShare('wrong-signer', { ...sent, how: 'principal' })).toContain('with your own login');
  });
});
