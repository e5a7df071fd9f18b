/** What a runbook's one input object may be. Everything else is refused by the name of the field. */
import fc from 'fast-check';
import { RUNBOOK_NAMES } from '../../src/contracts/names';
import { RUNBOOK_INPUTS, inputMistakes } from '../../src/contracts/runbook-inputs';

const SWITCHOVER = { deployment: 'payments', to: 'west', reason: 'maintenance of east' };
const CEREMONY = { deployment: 'payments', cluster: 'west', uses: ['dr.promote'], keepFor: '12h', reason: 'prepare' };

const without = (from: object, name: string): object =>
  Object.fromEntries(Object.entries(from).filter(([member]) => member !== name));

it('the least input of a switchover is completed with the careful choices', () => {
  expect(RUNBOOK_INPUTS.drSwitchover.parse(SWITCHOVER)).toEqual({
    ...SWITCHOVER,
    dryRun: false,
    go: 'required',
    onStuck: 'promote-back',
    acceptLoss: 'none',
    acknowledgeNewerSecondary: false,
  });
});

it('the least input of a ceremony is accepted', () => {
  expect(RUNBOOK_INPUTS.operationTokenCeremony.parse(CEREMONY)).toEqual({ ...CEREMONY, dryRun: false });
});

const WRONG: readonly (readonly [field: string, input: unknown])[] = [
  ['deployment', without(SWITCHOVER, 'deployment')],
  ['deployment', { ...SWITCHOVER, deployment: 'pay ments' }],
  ['to', without(SWITCHOVER, 'to')],
  ['to', { ...SWITCHOVER, to: '../west' }],
  ['reason', without(SWITCHOVER, 'reason')],
  ['reason', { ...SWITCHOVER, reason: ' a ' }],
  ['reason', { ...SWITCHOVER, reason: 'x'.repeat(501) }],
  ['requestedBy', { ...SWITCHOVER, requestedBy: ' ' }],
  ['go', { ...SWITCHOVER, go: 'later' }],
  ['onStuck', { ...SWITCHOVER, onStuck: 'force' }],
  ['acceptLoss', { ...SWITCHOVER, acceptLoss: 'any' }],
  ['tokenSource', { ...SWITCHOVER, tokenSource: 'root' }],
];

it.each(WRONG)('a switchover with a wrong or missing %s is refused, and the field is named', (field, input) => {
  const result = RUNBOOK_INPUTS.drSwitchover.safeParse(input);
  expect(result.success).toBe(false);
  expect(result.error?.issues.map(({ path }) => path.join('.'))).toContain(field);
});

it.each([
  ['force', true],
  ['token', 'hvs.x'],
  ['Deployment', 'payments'],
])('a switchover with a field that it does not have is refused: %s', (field, value) => {
  const result = RUNBOOK_INPUTS.drSwitchover.safeParse({ ...SWITCHOVER, [field]: value });
  expect(result.error?.issues).toEqual([expect.objectContaining({ code: 'unrecognized_keys', keys: [field] })]);
});

it.each([
  ['uses', { ...CEREMONY, uses: [] }],
  ['keepFor', { ...CEREMONY, keepFor: undefined }],
  ['keepFor', { ...CEREMONY, recipient: 'a key' }],
  ['keepFor', { ...CEREMONY, keepFor: '999h' }],
  ['uses.0', { ...CEREMONY, uses: ['dr.everything'] }],
])('a ceremony with a wrong or missing %s is refused, and the field is named', (field, input) => {
  const result = RUNBOOK_INPUTS.operationTokenCeremony.safeParse(input);
  expect(result.error?.issues.map(({ path }) => path.join('.'))).toContain(field);
});

it('of fields without end, however long their names are, a few are named', () => {
  const fields = Array.from({ length: 90_000 }, (_, number) => [`${number}${'x'.repeat(200)}`, 0] as const);
  const { error } = RUNBOOK_INPUTS.drSwitchover.safeParse({ ...SWITCHOVER, ...Object.fromEntries(fields) });
  const told = error ? inputMistakes(error) : [];
  expect(told).toHaveLength(20);
  expect(told[0]).toBe(`0${'x'.repeat(99)} is not a known field`);
});

it('no input at all, in whatever form, is an error and never an exception', () => {
  fc.assert(
    fc.property(fc.anything(), fc.constantFrom(...RUNBOOK_NAMES), (input, name) => {
      expect(RUNBOOK_INPUTS[name].safeParse(input).success).toBe(false);
    }),
    { numRuns: 300, seed: 3 },
  );
});
