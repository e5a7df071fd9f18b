/** What an approver is shown before the question: what is lost or wiped, and exactly what the approval allows. */
import { approvalLines } from '../../src/cli/render-plan';
import type { RunbookPlan } from '../../src/contracts/plan';

const PLAN: RunbookPlan = {
  runbook: 'drSecondaryOnboarding',
  deployment: 'payments',
  clusters: [
    { cluster: 'east', clusterId: 'id-east', version: '1.21.4+ent', dr: 'primary', performance: 'disabled' },
    { cluster: 'north', clusterId: 'id-north', version: '1.21.4+ent', dr: 'disabled', performance: 'disabled' },
  ],
  operations: [
    {
      operation: 'dr.secondary.enable',
      on: { cluster: 'north', clusterId: 'id-north' },
      with: { cluster: 'east', clusterId: 'id-east' },
    },
  ],
  warnings: ['Everything on north is wiped.'],
  steps: ['Enable north'],
  choices: { form: 'public-key' },
  reason: 'a third site',
};

it('a plan is shown with its warnings and with what the approval allows', () => {
  const text = approvalLines({ text: JSON.stringify(PLAN), digest: 'the-digest' }, 'wipe').join('\n');
  expect(text).toContain('Gate "wipe" of drSecondaryOnboarding, deployment payments, plan the-digest');
  expect(text).toContain('KNOW THIS: Everything on north is wiped.');
  expect(text).toContain('dr.secondary.enable on north with east');
  expect(text).toMatch(/north +DR disabled, performance disabled +1\.21\.4\+ent +id-north/);
  expect(text).toContain('form: public-key');
});

it('a plan of an unknown shape is shown as it is', () => {
  expect(approvalLines({ text: '{"a":1}', digest: 'd' }, 'plan')).toEqual(['Gate "plan", plan d:', '{"a":1}']);
});
