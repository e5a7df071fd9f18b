import { firstNight } from './first-night';
import { leaderChanges } from './leader-change';
import { realCluster, realServer } from './real-service';
import { rootTokens } from './root-token';

// Elections, restarts, and unsealing take seconds each.
jest.setTimeout(600_000);

const [server, cluster] = [realServer(), realCluster()];
// One after the other: all use the same server.
if (server) rootTokens(server);
if (cluster) leaderChanges(cluster);
if (server) firstNight(server);
if (!cluster)
  // eslint-disable-next-line jest/no-disabled-tests -- the result shows what was not run, and why
  it.skip(`not run: RUNBOOKS_TEST_REAL_ADDR ${server ? 'and RUNBOOKS_TEST_REAL_NODES_FILE name no three nodes' : 'names no server'}`, () =>
    undefined);
