import { resolve } from 'node:path';
import { printError } from '../cli/errors';
import { processContext } from '../cli/context';
import { startStage } from './stage';
import { demonstrate, PLAIN_ACTS, SWITCHOVER_ACTS } from './stories';

const USAGE = `npm run demo             a planned switchover of a simulated deployment, all people played; ends by itself
npm run demo -- --plain  without hooks: the service's own quota, AppRole, policies, canaries; a switchover, a failover, a rejoin
runbook dev              the same deployment as the first, but you play the people; runs until Ctrl-C`;

async function main(words: readonly string[]): Promise<number> {
  const [option, ...more] = words;
  const plain = option === '--plain';
  if ((option !== undefined && !plain) || more.length > 0) {
    console.error(USAGE);
    return option === '--help' ? 0 : 2;
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
  const say = (line: string): void => console.log(line);
  const begin = Date.now();
  const stage = await startStage({ reportDirectory: resolve('reports'), plain, say });
  try {
    const well = await demonstrate(stage, plain ? PLAIN_ACTS : SWITCHOVER_ACTS, say, stop.signal);
    const how = well ? 'all as it should be' : 'NOT as it should be';
    say(`  Demonstration: ${how}, ${((Date.now() - begin) / 1000).toFixed(1)} s`);
    return well ? 0 : 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return 130;
  } finally {
    await stage.stop();
  }
}

main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    printError(processContext(new AbortController().signal), error, { json: false, debug: true });
    process.exitCode = 1;
  },
);
