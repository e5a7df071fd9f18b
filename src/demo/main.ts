import { resolve } from 'node:path';
import { printError } from '../cli/errors';
import { processContext } from '../cli/context';
import { guideLines } from './guide';
import { startStage } from './stage';
import { demonstrate, PLAIN_ACTS, SWITCHOVER_ACTS } from './stories';

const USAGE = `npm run demo                    a planned switchover of a simulated deployment, all people played; ends by itself
npm run demo -- --plain         without hooks: the service's own quota, AppRole, policies, canaries; a switchover, a failover, a rejoin
npm run demo -- --interactive   the same deployment, but you play the people; runs until Ctrl-C`;

async function main(words: readonly string[]): Promise<number> {
  const unknown = words.filter((word) => !['--interactive', '--plain'].includes(word));
  if (unknown.length > 0) {
    console.error(USAGE);
    return unknown.every((word) => word === '--help' || word === '-h') ? 0 : 2;
  }
  const stop = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stop.abort());
  const say = (line: string): void => console.log(line);
  const begin = Date.now();
  const plain = words.includes('--plain');
  const stage = await startStage({ reportDirectory: resolve('reports'), plain, say });
  try {
    if (words.includes('--interactive')) {
      for (const line of guideLines(stage)) say(line);
      await Promise.race([aborted(stop.signal), stage.worker.ended]);
      return stop.signal.aborted ? 0 : 1;
    }
    const well = await demonstrate(stage, plain ? PLAIN_ACTS : SWITCHOVER_ACTS, say, stop.signal);
    say(
      `  Demonstration: ${well ? 'all as it should be' : 'NOT as it should be'}, ${((Date.now() - begin) / 1000).toFixed(1)} s`,
    );
    return well ? 0 : 1;
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return 130;
  } finally {
    await stage.stop();
  }
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done();
    else signal.addEventListener('abort', () => done(), { once: true });
  });
}

main(process.argv.slice(2)).then(
  (code) => (process.exitCode = code),
  (error: unknown) => {
    printError(processContext(new AbortController().signal), error, { json: false, debug: true });
    process.exitCode = 1;
  },
);
