/** One ceremony on the real server, each holder on a way of his own: connected, offline, and with only a browser. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ceremonyWorkflowId } from '../../src/contracts/names';
import { QUERIES, SIGNALS } from '../../src/contracts/signals';
import { addPin, formatPublicKey, newSigningKey, spokenFingerprint } from '../../src/keys';
import { cli } from '../cli/support';
import { agree, check, encryptAndCopy, openStage } from '../pages/support';
import type { Stage } from '../pages/support';
import { findChromium } from '../support/chromium';
import { temporaryDirectory } from '../support/directory';
import { replayRun } from '../support/replay';
import { openScenario } from '../support/scenario';
import type { Scenario } from '../support/scenario';

const executable = findChromium();
const inBrowser = executable === undefined ? it.skip : it;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';

describe(`three holders, three ways${because}`, () => {
  const directory = temporaryDirectory('holders-ways');
  let scenario: Scenario;
  let stage: Stage | undefined;
  openScenario((opened) => (scenario = opened), { attestation: 'claimed' });
  afterAll(() => stage?.close());

  inBrowser(
    `a token is made of shares from terminal, envelope file and page; no share is readable anywhere${because}`,
    async () => {
      stage = await openStage(executable ?? '');
      const { key: before } = newSigningKey();
      const lock = ceremonyWorkflowId('west');
      const run = await scenario.tokenCeremony();
      await run.waitsFor('shares');
      const shareOf = (name: string) => scenario.person(name).share ?? '';
      const workersKey = formatPublicKey(scenario.workersKey);
      const pins = join(directory, 'pins.json');
      await addPin(pins, 'production', formatPublicKey(before));
      const newcomersPins = join(directory, 'newcomers-pins.json');
      const printed: string[] = [];
      const runbook = async (words: readonly string[], answers: readonly string[] = []) => {
        const result = await cli(words, { env: { ...scenario.environment, RUNBOOKS_PINS: pins }, answers });
        printed.push(result.out, result.err);
        return result;
      };

      // Connected, who pinned the key before: stopped at another fingerprint, with the command that pins the new key.
      const stopped = await runbook(['share', lock, '--holder', 'ada']);
      expect(stopped.err).toContain('STOP. The invitation is signed with a different key from the one pinned');
      for (const { kid } of [before, scenario.workersKey]) expect(stopped.err).toContain(spokenFingerprint(kid));
      expect(stopped.err).toContain('runbook keys trust production');
      expect((await runbook(['keys', 'trust', 'production', workersKey], ['yes'])).out).toContain('Still trusted');
      expect((await runbook(['keys', 'distrust', spokenFingerprint(before.kid)])).code).toBe(0);
      const online = await runbook(['share', lock, '--holder', 'ada'], ['west', shareOf('ada')]);
      expect([online.code, online.out]).toEqual([0, expect.stringContaining('accepted')]);

      // Offline: a file to the holder, a line back, sent by somebody else.
      const invitationFile = join(directory, 'invitation.txt');
      const envelopeFile = join(directory, 'bert.envelope');
      await writeFile(invitationFile, (await cli(['invitation', lock], { env: scenario.environment })).out);
      const offline = ['share', lock, '--holder', 'bert', '--invitation-file', invitationFile, '--print'];
      await addPin(newcomersPins, 'production', workersKey);
      const made = await cli(offline, {
        env: { RUNBOOKS_PINS: newcomersPins },
        answers: ['west', shareOf('bert')],
      });
      expect(made.code).toBe(0);
      printed.push(made.err);
      await writeFile(envelopeFile, made.out);
      const sent = await runbook(['share', lock, '--envelope-file', envelopeFile]);
      expect([sent.code, sent.out]).toEqual([0, expect.stringContaining('accepted')]);

      // With only a browser: the query's answer into the page, the envelope into the form.
      const { page, requests } = await stage.open(workersKey);
      await check(page, JSON.stringify(await run.handle.query(QUERIES.invitation)), 'cleo');
      await agree(page, 'west');
      await page.fill('#share', shareOf('cleo'));
      await run.handle.signal(SIGNALS.share, await encryptAndCopy(page));
      expect(requests).toEqual([]);
      const markup = await page.content();

      expect(await run.report()).toMatchObject({ outcome: 'completed', parkings: [] });
      scenario.shows(...printed, markup, await readFile(envelopeFile, 'utf8'));
      await replayRun(run);
    },
  );
});
