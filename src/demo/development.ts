import { guideLines } from './guide';
import { startStage } from './stage';
import type { StageOptions } from './stage';

/** The whole demonstration, waiting for people. */
interface Development {
  /** What a person can do now: exact commands and links. */
  readonly guide: readonly string[];
  /** Rejects when the worker ends by itself. */
  readonly ended: Promise<void>;
  stop(): Promise<void>;
}

/** Starts server, simulated deployment, clients and worker, and says what people can do (`runbook dev`). */
export async function startDevelopment(options: StageOptions): Promise<Development> {
  const stage = await startStage(options);
  const ended = stage.worker.ended.then((code) => options.say(`The worker ended with ${code}.`));
  return { guide: guideLines(stage), ended, stop: () => stage.stop() };
}
