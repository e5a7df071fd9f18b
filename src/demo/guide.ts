import { deploymentWorkflowId } from '../contracts/names';
import { shellLine } from '../cli/text';
import { approveWords, DEPLOYMENT, OPERATOR, shareWords } from './people';
import type { Stage } from './stage';

const ASKED = { deployment: DEPLOYMENT, requestedBy: OPERATOR };
const SWITCHOVER = { ...ASKED, to: 'west', reason: 'demonstration of a planned switchover' };
const FAILOVER = { ...ASKED, to: 'west', reason: 'east is gone' };
const REJOIN = { ...ASKED, cluster: 'east', reason: 'east is back' };

/** The exact commands for a person who plays all the parts. */
export function guideLines({ server, payments, environmentFile }: Stage): string[] {
  const workflowId = deploymentWorkflowId(DEPLOYMENT);
  const holders = [...payments.people.values()].filter(({ shareFile }) => shareFile !== undefined);
  const approvers = [...payments.people.values()].filter(({ groups }) => groups.includes('approvers'));
  const command = (...words: readonly string[]): string => `  ${shellLine('runbook', ...words)}`;
  const approve = (gate: 'plan' | 'go' | 'promote') =>
    approvers.slice(0, 1).map((approver) => command(...approveWords(approver, gate)));
  return [
    '',
    'Everything runs. In another terminal, first:',
    `  source ${environmentFile}`,
    '',
    '1. Look at the plan (only reads), then start the switchover; in the Web UI with the same JSON object as input:',
    command('plan', 'drSwitchover', '--input', JSON.stringify(SWITCHOVER)),
    command('start', 'drSwitchover', '--input', JSON.stringify(SWITCHOVER)),
    '',
    '2. Follow it, in a terminal of its own:',
    command('watch', workflowId),
    '',
    '3. Three of the five key holders give their shares (with --print: one line to paste as signal "share" in the Web UI):',
    ...holders.slice(0, 3).map((holder) => command(...shareWords(holder))),
    '   Without --confirm and --share-file the command asks, as it would ask a real holder.',
    '',
    '4. An approver approves the plan, and then, right before the outage, says go:',
    ...approve('plan'),
    ...approve('go'),
    '   Each shows the plan and asks. For scripts: --yes with --plan-digest.',
    '',
    '5. Afterwards:',
    command('report', workflowId),
    `  ${server.uiAddress}/namespaces/${server.namespace}/workflows`,
    '',
    '6. Would it work at all?',
    command('readiness', DEPLOYMENT),
    '',
    '7. The other drill, before a switchover: east is gone, and west takes over. Shares as above:',
    '  simulated kill east',
    command('start', 'drFailover', '--input', JSON.stringify(FAILOVER)),
    ...approve('promote'),
    '   When it is back (simulated restart east), it must not serve as primary beside west:',
    command('start', 'drRejoin', '--input', JSON.stringify(REJOIN)),
    '   More to break: simulated --help',
    '',
    'Ctrl-C here ends everything and removes its files; reports stay.',
  ];
}
