/** The holder's page in a real browser: from an invitation to an envelope that the workers open, and nothing else. */
import { Secret } from '../../src/secret';
import {
  createHolderKey,
  createInvitation,
  formatPublicKey,
  newSigningKey,
  openRehearsalAnswer,
  openShares,
  spokenFingerprint,
} from '../../src/keys';
import type { CreatedInvitation, PersonFacts } from '../../src/keys';
import { lookup, rehearsalFacts, RUN, shareText } from '../keys/builders';
import { until } from '../support/by-hand';
import { findChromium } from '../support/chromium';
import { openStandIn } from './stand-in-gateway';
import {
  agree,
  check,
  checkRefused,
  encryptAndCopy,
  focused,
  messageOf,
  openStage,
  pinOf,
  tabTo,
  visit,
} from './support';
import type { Stage } from './support';

const executable = findChromium();
const inBrowser = executable === undefined ? describe.skip : describe;
const because = executable === undefined ? ' (not run: no Chromium on this machine; CHROMIUM names one)' : '';
const ben: PersonFacts = { name: 'ben', attestation: 'claimed', publicKeys: [] };
const SHARE = shareText(7);

inBrowser(`the holder's page in a browser${because}`, () => {
  let stage: Stage;
  let invitation: CreatedInvitation;

  beforeAll(async () => {
    stage = await openStage(executable ?? '');
    invitation = await stage.invite();
  });
  afterAll(() => stage.close());

  async function opened(envelope: unknown, person: PersonFacts = ben) {
    const { cid, epoch } = invitation.invitation;
    const record = await stage.records.read({ run: invitation.invitation, cid, epoch });
    const [given] = await openShares(record, [{ content: envelope, at: Date.now() }], lookup(person));
    return { verdict: given?.receipt.verdict, share: given?.share?.reveal() };
  }

  it('shows every member in plain words first, then makes an envelope that only the workers open; makes no request to the network and stores no data', async () => {
    const next = newSigningKey().key;
    const keys = `${pinOf(stage)} ${formatPublicKey(next)}`;
    const { page, requests, complaints } = await stage.open(keys);
    // While the workers' key is replaced there are two.
    for (const { kid } of [stage.workersKey, next])
      expect(await page.innerText('#trusted')).toContain(spokenFingerprint(kid));
    expect(await page.innerText('#step-1')).not.toContain('one key');
    await check(page, `["${invitation.jws}"]`, 'ben');
    await page.waitForSelector('#step-2:not([hidden])');
    // Only experts compare the rest, so the holder agrees within the first screens of a telephone.
    await page.setViewportSize({ width: 390, height: 844 });
    expect((await page.locator('#agree').boundingBox())?.y).toBeLessThan(2 * 844);
    expect(await page.isVisible('#more-facts')).toBe(false);
    expect(await page.innerText('#facts')).toContain('erasure: best effort');
    await page.click('#technical summary');
    const shown = await page.innerText('#step-2');
    const { targets, requestedBy, cid, wid, rid, ns, runbook, reason, inputDigest, pgp } = invitation.invitation;
    const members = [targets[0]?.cluster, targets[0]?.clusterId, targets[0]?.addresses[0], requestedBy.name, cid, wid];
    for (const member of [...members, rid, ns, runbook, reason, inputDigest, pgp, 'UNVERIFIED', 'promote it'])
      expect(shown).toContain(member);
    expect(await page.isVisible('#share')).toBe(false);

    await agree(page, 'west');
    const typed = SHARE.toUpperCase().replace(/(.{4})/g, '$1 ');
    await page.fill('#share', typed);
    expect(await opened(await encryptAndCopy(page))).toEqual({ verdict: 'accepted', share: SHARE });

    // The same, signed with a key of his own.
    const passphrase = 'canary-passphrase-of-ben';
    const { file, key } = await createHolderKey(new Secret('passphrase', passphrase), 4);
    await page.click('#step-4 .again');
    await check(page, invitation.jws, 'ben');
    await agree(page, 'west');
    await page.fill('#share', typed);
    await page.click('#signing summary');
    await page.setInputFiles('#key-file', { name: 'ben.key', mimeType: 'text/plain', buffer: Buffer.from(file) });
    for (const [given, refusal] of [
      ['', 'passphrase of the signing key is missing'],
      ['wrong', 'passphrase is wrong'],
    ] as const) {
      await page.fill('#passphrase', given);
      await page.click('#encrypt');
      await until(refusal, async () => (await messageOf(page, 3)).includes(refusal));
    }
    await page.fill('#passphrase', passphrase);
    const envelope = await encryptAndCopy(page);
    const signing = { ...ben, attestation: 'signed' as const, publicKeys: [key] };
    expect(await opened(envelope, signing)).toEqual({ verdict: 'accepted', share: SHARE });
    expect(JSON.stringify(envelope)).not.toContain(SHARE);

    const left = await page.evaluate<string>(`(async () => JSON.stringify([
      document.documentElement.outerHTML, location.href, document.title, document.cookie, history.state, history.length,
      window.name, { ...localStorage }, { ...sessionStorage }, await caches.keys(), await indexedDB.databases(),
      [...document.querySelectorAll('input, textarea')].map((field) => field.value),
    ]))()`);
    for (const form of [SHARE, Buffer.from(SHARE, 'hex').toString('base64'), SHARE.slice(0, 20)])
      expect(left.toLowerCase().replaceAll(' ', '')).not.toContain(form.toLowerCase());
    for (const text of [invitation.jws, 'canary']) expect(left).not.toContain(text);
    expect([await page.inputValue('#passphrase'), await page.inputValue('#key-file')]).toEqual(['', '']);
    // The undo history of the field went with the field.
    await page.evaluate("document.querySelector('#step-3').hidden = false");
    await page.focus('#share');
    await page.keyboard.press('Control+z');
    expect(await page.inputValue('#share')).toBe('');
    expect(requests).toEqual([]);
    expect(complaints).toEqual([]);
  });

  it('stops at another fingerprint, whatever came with the invitation; a page made for no key is of no use', async () => {
    const other = newSigningKey().key;
    const { page } = await stage.open(formatPublicKey(other));
    await check(page, `${invitation.jws}\n${pinOf(stage)}`, 'ben');
    const message = await messageOf(page, 1);
    const fingerprints = [stage.workersKey, other].map(({ kid }) => spokenFingerprint(kid));
    for (const text of ['STOP', 'Do not type your key share', ...fingerprints, 'a number that you already know'])
      expect(message).toContain(text);
    expect([await page.isVisible('#step-2'), await page.isVisible('#share')]).toEqual([false, false]);

    const published = await stage.open();
    expect(await published.page.innerText('#warnings')).toContain('trusts no key');
    expect(await published.page.isVisible('#step-1')).toBe(false);
  });

  it('explains errors in plain words, and continues only with the name of the cluster and a share of the right length', async () => {
    const expired = await stage.invite({}, Date.now() - 7_200_000);
    const [header, , signature] = invitation.jws.split('.');
    const forged = `${header}.${Buffer.from(JSON.stringify({ ...invitation.invitation, reason: 'another' })).toString('base64url')}.${signature}`;
    const { page } = await stage.open(pinOf(stage));
    for (const [text, holder, expected] of [
      ['', 'ben', 'no invitation'],
      [`${invitation.jws} ${expired.jws}`, 'ben', 'more than one'],
      [expired.jws, 'ben', 'expired'],
      [invitation.jws, 'eve', 'ben, cyd, dan'],
      [invitation.jws, '', 'name is missing'],
      [forged, 'ben', 'signature does not verify'],
    ] as const)
      await checkRefused(page, text, holder, expected);
    expect(await page.isVisible('#step-2')).toBe(false);

    await page.fill('#invitation', invitation.jws);
    await page.fill('#holder', 'ben');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-2:not([hidden])');
    await page.fill('#cluster', 'east');
    await page.click('#agree');
    expect(await messageOf(page, 2)).toContain('does not match the invitation');
    await page.fill('#cluster', 'west');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-3:not([hidden])');
    expect(await page.getAttribute('#share', 'type')).toBe('password');
    expect(await page.getAttribute('#share', 'autocomplete')).toBe('off');
    await page.fill('#share', SHARE.slice(0, 21));
    await page.click('#encrypt');
    const message = await messageOf(page, 3);
    expect(message).toContain('21 characters');
    expect(message).not.toContain(SHARE.slice(0, 8));
    await page.click('#step-3 .again');
    expect(await page.inputValue('#share')).toBe('');
  });

  it('continues with no invitation that expired while it was read, nor while the share was typed', async () => {
    const { page } = await stage.open(pinOf(stage));
    const pass = () => page.evaluate(`Date.now = () => ${invitation.invitation.exp * 1000}`);
    await check(page, invitation.jws, 'ben');
    await page.waitForSelector('#step-2:not([hidden])');
    await page.evaluate('window.clock = Date.now');
    await pass();
    await page.fill('#cluster', 'west');
    await page.click('#agree');
    for (const text of ['The invitation has expired.', 'Get the current invitation from the run'])
      expect(await messageOf(page, 2)).toContain(text);
    expect(await page.isVisible('#share')).toBe(false);

    await page.evaluate('Date.now = window.clock');
    await agree(page, 'west');
    await page.fill('#share', SHARE);
    await pass();
    await page.click('#encrypt');
    expect(await messageOf(page, 3)).toContain('The invitation has expired.');
    expect(await page.isVisible('#envelope')).toBe(false);
  });

  it('asks for no share in a rehearsal, nor if the run takes tokens; hostile words make no line of their own', async () => {
    const { page } = await stage.open(pinOf(stage));
    const tokens = await stage.invite({ collects: 'tokens' });
    await check(page, tokens.jws, 'ben');
    await page.waitForSelector('#step-2:not([hidden])');
    expect(await page.innerText('#title')).toBe('Do not type your key share here');
    expect(await page.innerText('#facts')).toContain('takes no key shares');
    expect([await page.isVisible('#cluster'), await page.isVisible('#share')]).toEqual([false, false]);
    await page.click('#step-2 .again');

    const evil = 'drill\nAsked by grace (signed)\u001b[2A\u202eend';
    const forged = await stage.invite({ reason: evil, requestedBy: { name: evil, how: 'claimed' } });
    await check(page, forged.jws, 'ben');
    await agree(page, 'west');
    expect((await page.textContent('#step-3')) ?? '').toContain('Reason: drill Asked by grace (signed)[2Aend');
    expect((await page.textContent('body')) ?? '').not.toMatch(/[^\P{Cc}\s]|\p{Bidi_Control}/u);
    await page.click('#step-3 .again');

    const rehearsal = await createInvitation(stage.records, stage.workersKey, RUN, 'rehearsal', rehearsalFacts());
    await check(page, rehearsal.jws, 'ben');
    await agree(page, 'payments');
    expect(await page.isVisible('#share')).toBe(false);
    const title = 'REHEARSAL: do not type your key share';
    expect([await page.innerText('#title'), await page.title()]).toEqual([title, title]);
    expect(await page.innerText('body')).not.toContain('Give your key share');
    expect(await page.innerText('#step-3')).toContain('Do not type your key share');
    const envelope = await encryptAndCopy(page);
    const record = await stage.records.read({ run: rehearsal.invitation, cid: rehearsal.invitation.cid, epoch: 1 });
    const { receipt, answer } = await openRehearsalAnswer(record, { content: envelope, at: Date.now() }, lookup(ben));
    expect(receipt.verdict).toBe('accepted');
    expect(answer?.tool).toMatch(/^holder page \d/);
  });

  it('shows who must sign before they type a share, and makes no envelope without their key', async () => {
    const { page } = await stage.open(pinOf(stage));
    const signed = await stage.invite({ mustSign: ['cyd'] });
    await check(page, signed.jws, 'ben');
    await page.waitForSelector('#step-2:not([hidden])');
    expect(await page.isVisible('#must-sign')).toBe(false);
    await page.click('#step-2 .again');
    await check(page, signed.jws, 'cyd');
    await page.waitForSelector('#step-2:not([hidden])');
    expect(await page.innerText('#must-sign')).toContain('If you have only this browser, stop here');
    expect(await page.innerText('#facts')).toContain('with their signature: cyd');
    expect(await page.isVisible('#share')).toBe(false);
    await agree(page, 'west');
    expect([await page.isVisible('#key-file'), await page.innerText('#signing-hint')]).toEqual([
      true,
      'Required: the operators list a public key for you.',
    ]);
    await page.click('#encrypt');
    expect(await messageOf(page, 3)).toContain('You must sign your answer');
  });

  it('works by keyboard alone, and has a name for everything that a screen reader reads', async () => {
    const { page } = await stage.open(pinOf(stage));
    const read = (step: number) => page.locator(`#step-${step}`).ariaSnapshot();
    expect((await read(1)).replace(spokenFingerprint(stage.workersKey.kid), 'FINGERPRINT')).toMatchSnapshot('step 1');
    await tabTo(page, 'invitation');
    await page.keyboard.insertText(invitation.jws);
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.type('ben');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-2:not([hidden])');
    expect(await focused(page)).toContain('Read what you are being asked for');
    const facts = /(- term: Collected\n)(- definition: .*\n){2}/;
    const unread = (await read(2)).replace(facts, '$1').replaceAll(/(recipient|OpenPGP) \S+/g, '$1 KEY');
    expect(unread).toMatchSnapshot('step 2');
    await tabTo(page, 'cluster');
    await page.keyboard.type('west');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-3:not([hidden])');
    expect(await focused(page)).toBe('share');
    expect(await read(3)).toMatchSnapshot('step 3');
    await page.keyboard.type(SHARE);
    await page.keyboard.press('Enter');
    await page.waitForSelector('#step-4:not([hidden])');
    expect((await read(4)).replace(/"?\{.*\}"?/, 'ENVELOPE')).toMatchSnapshot('step 4');
    await tabTo(page, 'copy');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#copied .box.good');
  });

  it('made for a gateway, gets the invitation there and sends the envelope, with the key opened once; neither share nor passphrase is sent', async () => {
    const passphrase = 'canary-passphrase-of-ben';
    const { file, key } = await createHolderKey(new Secret('passphrase', passphrase), 4);
    const gateway = await openStandIn(key);
    try {
      const other = await stage.invite({ reason: 'another reason' });
      const itemOf = ({ jws, invitation: { wid, rid, ns, runbook, reason } }: CreatedInvitation) => ({
        ...{
          kind: 'share',
          holder: 'ben',
          invitation: jws,
          workflowId: wid,
          runId: rid,
          namespace: ns,
          runbook,
          reason,
        },
        ...{ deployment: 'payments', phase: 'waiting-for-people' },
      });
      let items: readonly unknown[] = [];
      const receipt = { signal: 'share', arrival: 1, verdict: 'accepted', code: 'accepted', text: 'accepted' };
      gateway.answer = ({ path }) => {
        if (path !== '/v1/waiting') return [200, { sent: true, receipt }];
        const at = new Date().toISOString();
        return [200, { schema: 'runbooks/waiting/v1', at, person: 'ben', items, runs: [], unreachable: [] }];
      };
      const { page, requests, complaints } = await stage.open(pinOf(stage), gateway.origin);
      expect(await page.innerText('#progress')).toContain(`can send to ${gateway.origin} and nowhere else`);
      await page.fill('#holder', 'ben');
      await page.click('#fetch-part summary');
      await page.click('#fetch');
      expect(await page.innerText('#error-fetch .box')).toContain('your key is missing');
      await page.setInputFiles('#fetch-key-file', { name: 'k', mimeType: 'text/plain', buffer: Buffer.from(file) });
      await page.fill('#fetch-passphrase', passphrase);
      await page.click('#fetch');
      await until('no invitation', async () =>
        (await page.innerText('#error-fetch')).includes('You are not asked for anything now.'),
      );
      items = [invitation, other].map(itemOf);
      await page.click('#fetch');
      await page.click('#found button >> text=another reason');
      await page.waitForSelector('#step-2:not([hidden])');
      expect(await page.innerText('#facts')).toContain('another reason');
      await page.click('#step-2 .again');

      // Of one, there is nothing to choose.
      items = [itemOf(invitation)];
      await page.fill('#holder', 'ben');
      await page.setInputFiles('#fetch-key-file', { name: 'k', mimeType: 'text/plain', buffer: Buffer.from(file) });
      await page.fill('#fetch-passphrase', passphrase);
      await page.keyboard.press('Enter');
      await agree(page, 'west');
      expect([await page.isVisible('#signing'), await page.isVisible('#signed')]).toEqual([false, true]);
      await page.fill('#share', SHARE);
      await page.click('#encrypt');
      await page.click('#send');
      await page.waitForSelector('#receipt .box.good');
      expect(await page.innerText('#receipt')).toBe('share 1: accepted');
      const sent = gateway.asked.at(-1);
      expect(sent?.path).toBe(`/v1/runs/${encodeURIComponent(RUN.wid)}/${RUN.rid}/share`);
      const signing = { ...ben, attestation: 'signed' as const, publicKeys: [key] };
      expect(await opened(JSON.parse(sent?.body ?? ''), signing)).toEqual({ verdict: 'accepted', share: SHARE });
      const everything = gateway.asked.map(({ raw }) => raw).join('\n');
      for (const secret of [SHARE, passphrase, file.slice(40, 80)]) expect(everything).not.toContain(secret);
      expect(requests.every((url) => url.startsWith(gateway.origin))).toBe(true);
      expect(complaints).toEqual([]);
      for (const id of ['fetch-passphrase', 'passphrase', 'share']) expect(await page.inputValue(`#${id}`)).toBe('');
    } finally {
      await gateway.close();
    }
  });

  it('runs no script but its own, and makes no request, whatever is put into it', async () => {
    const { address, paths } = await stage.serve(() => '');
    const { page } = await stage.open(pinOf(stage));
    await page.evaluate(`(() => {
      window.refused = [];
      document.addEventListener('securitypolicyviolation', ({ effectiveDirective }) => window.refused.push(effectiveDirective));
      const attempts = [
        () => document.body.append(Object.assign(document.createElement('script'), { textContent: 'window.injected = 1' })),
        () => {
          const script = document.createElement('script');
          script.append('window.injected = 2');
          document.body.append(script);
        },
        () => document.body.append(Object.assign(document.createElement('script'), { src: '${address}/script' })),
        () => document.body.append(Object.assign(document.createElement('img'), { src: '${address}/image' })),
        () => document.body.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: '${address}/style' })),
        () => document.body.append(Object.assign(document.createElement('iframe'), { src: '${address}/frame' })),
        () => document.body.insertAdjacentHTML('beforeend', '<img src="${address}/markup">'),
        () => document.body.setAttribute('onclick', 'window.injected = 3'),
        () => document.body.click(),
        () => void fetch('${address}/fetch').catch(() => undefined),
        () => void navigator.sendBeacon('${address}/beacon'),
        () => void new WebSocket('${address.replace('http', 'ws')}/socket'),
        () => {
          const form = Object.assign(document.createElement('form'), { action: '${address}/form', method: 'post' });
          document.body.append(form);
          form.submit();
        },
      ];
      for (const attempt of attempts) try { attempt(); } catch {}
    })()`);
    const needed = [
      'connect-src',
      'form-action',
      'frame-src',
      'img-src',
      'require-trusted-types-for',
      'style-src-elem',
    ];
    const refused = () => page.evaluate<string[]>('[...new Set(window.refused)].sort()');
    await until('every refusal', async () => (await refused()).length >= needed.length);
    expect(await refused()).toEqual(needed);
    expect(await page.evaluate('window.injected')).toBeUndefined();
    expect(paths).toEqual([]);
  });

  it('refuses if it came from a server, or is inside another page, and runs no script that was written into its markup', async () => {
    const injected = '<script>window.injected = 1</script><b onclick="window.injected = 2">b</b>';
    const served = stage.html.replace('</main>', `</main>${injected}`);
    const { address, paths } = await stage.serve((path) =>
      path === '/page' ? served : '<iframe src="/page"></iframe>',
    );
    const { page, requests, complaints } = await visit(stage.browser, `${address}/page`);
    await page.click('b >> text=/^b$/');
    expect(await page.evaluate('window.injected')).toBeUndefined();
    expect(complaints.join('\n')).toContain('Content Security Policy');
    expect(await page.innerText('#warnings')).toContain('came from a server');
    expect(await page.isVisible('#step-1')).toBe(false);
    expect(requests).toEqual([]);
    // A client of another test may still knock at what was its service's port.
    expect(paths.filter((path) => !path.startsWith('/v1/'))).toEqual(['/page']);
    await page.goto(`${address}/frame`);
    const frame = page.frameLocator('iframe');
    await frame.locator('#warnings .box').waitFor();
    expect(await frame.locator('#warnings').innerText()).toContain('inside another page');
    expect(await frame.locator('#step-1').isVisible()).toBe(false);
  });
});
