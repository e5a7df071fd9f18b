import { parseInventory } from '../../src/inventory';
import { RunbookError } from '../../src/errors';
import { EXAMPLE } from './example';

const DAY_MS = 86_400_000;

/** The example with a member `readiness` of its deployment, as flow YAML. */
function withReadiness(member: string): string {
  const text = EXAMPLE.replace(/^ {4}drSets:/m, `    readiness: ${member}\n    drSets:`);
  expect(text).not.toBe(EXAMPLE);
  return text;
}

const readinessOf = (text: string) => parseInventory(text, 'inventory.yaml').deployments.get('payments')?.readiness;

describe('readiness of a deployment', () => {
  it('has defaults, and attests nothing by itself', () => {
    expect(readinessOf(EXAMPLE)).toEqual({
      snapshots: undefined,
      snapshotAgeMs: 26 * 3_600_000,
      termWarningMs: 30 * DAY_MS,
      certificateLifeMs: 21 * DAY_MS,
      licenceLifeMs: 30 * DAY_MS,
      canaryAgeMs: 120_000,
      clockSkewMs: 5_000,
      sampleAgeMs: 900_000,
      rehearsalAgeMs: 90 * DAY_MS,
      independent: false,
    });
  });

  it.each(['{ automatic: hourly }', '{ stampFile: /run/snapshot }', "{ takenAt: '2026-01-01T00:00:00Z' }"])(
    'knows of snapshots by %s',
    (snapshots) => {
      expect(readinessOf(withReadiness(`{ snapshots: ${snapshots}, independent: true }`))).toMatchObject({
        independent: true,
        snapshots: expect.any(Object) as object,
      });
    },
  );

  it.each([
    ['{ snapshots: { stampFile: relative } }', 'readiness.snapshots'],
    ['{ snapshots: { automatic: ../status } }', 'readiness.snapshots'],
    ['{ snapshots: { automatic: a, stampFile: /b } }', 'readiness.snapshots'],
    ['{ clockSkew: 5 }', 'readiness.clockSkew'],
    ['{ rehearsalAge: 0d }', 'readiness.rehearsalAge'],
    ['{ independant: true }', 'readiness.independant'],
  ])('%s is a mistake', (member, path) => {
    let message = '';
    try {
      readinessOf(withReadiness(member));
    } catch (error) {
      message = error instanceof RunbookError ? `${error.message} ${error.observed ?? ''}` : '';
    }
    expect(message).toContain(path);
  });
});
