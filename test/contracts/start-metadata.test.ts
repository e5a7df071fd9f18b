/** Summary and details of a run as its start sets them, for the Web UI. */
import fc from 'fast-check';
import { startMetadata } from '../../src/contracts/start-metadata';

it('says reason, requester, direction and ticket, and that the requester is a claim', () => {
  const input = { deployment: 'payments', to: 'west', reason: 'maintenance', requestedBy: 'olga', ticket: 'OPS-1' };
  expect(startMetadata('drSwitchover', input)).toEqual({
    staticSummary: 'drSwitchover of payments (to west)',
    staticDetails: [
      '**Reason**: maintenance',
      '**Requested by**: olga, as claimed at the start; unverified',
      '**Direction**: to west',
      '**Ticket**: OPS-1',
    ].join('\n\n'),
  });
  expect(startMetadata('readiness', { deployment: 'payments' }, 'by its Schedule')).toEqual({
    staticSummary: 'readiness of payments, by its Schedule',
    staticDetails: '**Started**: by its Schedule',
  });
});

it('stays within the limits of the server, on one line each, whatever people wrote', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 30_000 }), (text) => {
      const members = ['deployment', 'reason', 'requestedBy', 'ticket', 'to', 'from', 'cluster'];
      const input = Object.fromEntries(members.map((name) => [name, text]));
      const { staticSummary, staticDetails } = startMetadata('drSwitchover', input, 'by somebody');
      expect(Buffer.byteLength(JSON.stringify(staticSummary))).toBeLessThan(400);
      expect(Buffer.byteLength(JSON.stringify(staticDetails))).toBeLessThan(20_000);
      expect(staticSummary).not.toMatch(/[\n`]/);
      expect(staticDetails.split('\n\n').every((line) => /^\*\*[A-Z][a-z ]+\*\*: /.test(line))).toBe(true);
    }),
    { numRuns: 60 },
  );
  const long = Object.fromEntries(
    ['deployment', 'reason', 'requestedBy', 'ticket', 'to', 'from', 'cluster'].map((n) => [
      n,
      '\u{1F600}*'.repeat(9_000),
    ]),
  );
  expect(Buffer.byteLength(JSON.stringify(startMetadata('drSwitchover', long).staticDetails))).toBeLessThan(20_000);
});
