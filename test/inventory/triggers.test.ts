/** The triggers of an inventory: what a message of an incident tool may start. */
import { parseInventory } from '../../src/inventory';
import { EXAMPLE, mistakes } from './example';

const trigger = (members: string) =>
  `${EXAMPLE}triggers:\n  - { name: gone, kind: pagerduty, secret: { file: /run/secret }, match: { event.data.service.id: P1 }, ${members} }\n`;
const wrong = (members: string) =>
  mistakes(trigger(members)).map((line) => line.replace(/^inventory.yaml:\d+:\d+: /, ''));

it('an inventory has no triggers unless it lists some', () => {
  expect(parseInventory(EXAMPLE, 'inventory.yaml').triggers).toEqual([]);
});

it.each([
  'runbook: readiness, deployment: payments',
  'runbook: drFailover, deployment: payments',
  'runbook: drFailover, deployment: payments, input: { to: west, reason: the primary is gone }',
  'runbook: drSwitchover, deployment: payments, input: { to: west, dryRun: true }',
])('a trigger may start { %s }', (members) => {
  const [{ match, input } = { match: undefined, input: undefined }] = parseInventory(
    trigger(members),
    'inventory.yaml',
  ).triggers;
  expect(match).toEqual({ 'event.data.service.id': ['P1'] });
  expect(input).toEqual(expect.any(Object));
});

describe('a trigger is refused when the inventory is loaded if it', () => {
  it.each([
    [
      'starts what changes the service',
      'runbook: drSwitchover, deployment: payments, input: { to: west }',
      /a trigger starts readiness, drFailover, or a dry run/,
    ],
    [
      'starts a switchover whose dryRun is a text',
      "runbook: drSwitchover, deployment: payments, input: { to: west, dryRun: 'true' }",
      /a trigger starts readiness/,
    ],
    ['deletes tokens', 'runbook: operationTokenDisposal, deployment: payments', /a trigger starts readiness/],
    [
      'takes a run over',
      'runbook: drFailover, deployment: payments, input: { takeOver: true }',
      /takeOver: the gateway sets this member, or only a person/,
    ],
    [
      'names who asks',
      'runbook: drFailover, deployment: payments, input: { requestedBy: ada }',
      /requestedBy: the gateway sets/,
    ],
    [
      'names another deployment inside',
      'runbook: drFailover, deployment: payments, input: { deployment: orders }',
      /input.deployment: the gateway sets/,
    ],
    [
      'is about a deployment that there is not',
      'runbook: readiness, deployment: orders',
      /no deployment orders; there are: payments/,
    ],
    [
      'is about a cluster that there is not',
      'runbook: drFailover, deployment: payments, input: { to: wset }',
      /no cluster wset; there are: east, eu, west/,
    ],
    [
      'gives an input that the runbook does not take',
      'runbook: drFailover, deployment: payments, input: { force: true }',
      /force is not a known field/,
    ],
    [
      'gives the readiness check an input',
      'runbook: readiness, deployment: payments, input: { dryRun: true }',
      /dryRun is not a known field/,
    ],
    ['names no runbook', 'runbook: reboot, deployment: payments', /Invalid option/],
  ])('%s', (_what, members, expected) => {
    expect(wrong(members).join('\n')).toMatch(expected);
  });

  it('has no condition, has a secret inside, or has the name of another', () => {
    const none = trigger('runbook: readiness, deployment: payments').replace('event.data.service.id: P1', '');
    expect(mistakes(none)).toEqual([expect.stringContaining('would start for every message')]);
    const inline = trigger('runbook: readiness, deployment: payments').replace('{ file: /run/secret }', 'hunter2');
    expect(mistakes(inline)).toEqual([expect.stringContaining('a secret is { file: /absolute/path }')]);
    const once = trigger('runbook: readiness, deployment: payments');
    const twice = `${once}${once.split('triggers:\n')[1] ?? ''}`;
    expect(mistakes(twice)).toEqual([expect.stringContaining('gone is listed twice')]);
  });

  it('accepts messages of any age', () => {
    const text = trigger('runbook: readiness, deployment: payments, signature: { header: x-signature }, id: id');
    expect(mistakes(text.replace('pagerduty', 'hmac'))).toEqual([
      expect.stringContaining('exactly one of time and occurredAt'),
    ]);
  });
});
