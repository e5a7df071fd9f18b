import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { chromium } from 'playwright-core';
import type { Browser } from 'playwright-core';

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome', 'microsoft-edge'];
const PLACES = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
];

/** Path of Chromium: from `CHROMIUM`, the usual names on the PATH, or the usual places; undefined if there is none. */
export function findChromium(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const given = env['CHROMIUM'];
  if (given !== undefined && given !== '') return given;
  const folders = (env['PATH'] ?? '').split(delimiter).filter(Boolean);
  return [...folders.flatMap((folder) => NAMES.map((name) => join(folder, name))), ...PLACES].find((each) =>
    existsSync(each),
  );
}

/** Starts Chromium without a window. */
export function startChromium(executablePath: string): Promise<Browser> {
  // Chromium refuses to run in its sandbox as root.
  return chromium.launch({ executablePath, headless: true, args: process.getuid?.() === 0 ? ['--no-sandbox'] : [] });
}
