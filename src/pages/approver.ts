/**
 * The approver's page: opens a person's key, shows what waits for them, signs what they decide. What is signed is computed from
 * what is shown. The words are those of the command line (`src/words`); the documents are made in `src/documents`.
 */
import './without-eval';
import { shellLine } from '../contracts/next-commands';
import { plainSecretIn } from '../contracts/plain-shares';
import type { Receipt } from '../contracts/run-facts';
import { clock, inLines, jsonIn, jsonText, oneLine } from '../contracts/words';
import { isRunbookError, RunbookError } from '../errors';
import { gatewayOrigin } from '../documents/signed-request';
import type { SigningKey } from '../documents/signing-keys';
import { planToSign, signStatement, statementPayload } from '../documents/statements';
import type { StatementMembers, StatementType, StatedRun } from '../documents/statements';
import { gateTitle, noRightWarnings, notAskedWarnings, planText, readPlan } from '../words/plan';
import { UNSIGNED_FINDINGS, unsignedFindings } from '../words/plan';
import { receiptText, waitingText } from '../words/status';
import {
  area,
  behave,
  box,
  button,
  byId,
  copyFrom,
  copyResult,
  element,
  emptied,
  emptyAll,
  fact,
  factList,
  folded,
  input,
  linesOf,
  openKey,
  part,
  prose,
  show,
  whenPressed,
  whyUnusable,
  written,
} from './elements';
import { askRun, askWaiting, isInvitation, sendDocument } from './gateway';
import type { Item, NamedRun } from './gateway';
import { readRun } from './run';
import type { ApprovalWait, DecisionWait, ShownRun } from './run';

interface Person {
  readonly name: string;
  readonly key: SigningKey;
  /** Absent: nothing is sent. */
  readonly origin: string | undefined;
}

/** What the person may sign on the third step. */
interface Request {
  readonly run: StatedRun;
  /** Reads their answer. */
  readonly answer: () => Statement;
}

interface Statement {
  readonly type: StatementType;
  /** Name of the signal, and of the gateway's path. */
  readonly signal: string;
  readonly members: Omit<StatementMembers<StatementType>, 'name'>;
}

/** What they signed: it can be sent as often as needed, and counts once. */
interface Signed {
  readonly run: StatedRun;
  readonly signal: string;
  readonly document: string;
}

const TITLE = 'Approve and decide';
/** The origin of the one gateway that the policy of this copy allows; empty if the person names one. */
const madeForGateway = written('gateway');
/** The button that Enter presses in each field. */
const ENTER = { name: 'open', gateway: 'open', passphrase: 'open', verdict: 'sign', comment: 'sign', reason: 'sign' };

let person: Person | undefined;
let request: Request | undefined;
let signed: Signed | undefined;

function whoever(): Person {
  if (person !== undefined) return person;
  throw new RunbookError('INVALID_INPUT', 'Your key is closed.', { next: 'Open it again.' });
}

async function open(): Promise<void> {
  const name = input('name').value.trim();
  if (name === '')
    throw new RunbookError('INVALID_INPUT', 'Your name is missing.', {
      needed: 'your name, exactly as the operators list it',
      next: 'Type your name, then press "Open my key" again.',
    });
  const given = madeForGateway || input('gateway').value.trim();
  const origin = given === '' ? undefined : gatewayOrigin(given);
  const key = await openKey(input('key-file'), input('passphrase'), area('key-text').value);
  if (key === undefined)
    throw new RunbookError('INVALID_INPUT', 'Your key is missing: what you decide counts only with your signature.', {
      needed: 'the key file that "runbook join" created for you, and its passphrase',
      next: 'Give both.',
    });
  person = { name, key, origin };
  try {
    await list();
  } catch (error) {
    if (!isRunbookError(error, 'GATEWAY_UNAVAILABLE')) {
      person = undefined;
      throw error;
    }
    // Without its gateway the page still signs.
    byId('paste-part', HTMLDetailsElement).open = true;
    show(2);
    part('error-2').append(box('bad', linesOf(error)));
  }
  for (const id of ['passphrase', 'key-file']) emptied(input(id));
  emptied(area('key-text'));
}

/** Shows what waits, as the gateway knows it now; without a gateway, asks for the status of a run. */
async function list(): Promise<void> {
  const { name, key, origin } = whoever();
  request = signed = undefined;
  for (const id of ['notes', 'items', 'runs', 'waiting']) part(id).replaceChildren();
  document.title = TITLE;
  for (const id of ['look', 'control-part']) part(id).hidden = origin === undefined;
  byId('paste-part', HTMLDetailsElement).open = origin === undefined;
  if (origin === undefined) return show(2);
  const { items, runs, unreachable, warnings } = await askWaiting({ origin, name, key });
  const silent = unreachable.map(({ workflowId }) => workflowId).join(', ');
  const all = [
    ...warnings,
    ...(silent === '' ? [] : [`No worker answers for these runs, which may wait for you too: ${silent}`]),
  ];
  part('notes').replaceChildren(...all.map((text) => box('warn', [text])));
  const none =
    all.length === 0 ? 'Nothing waits for you now.' : 'Nothing else waits for you, as far as the gateway knows.';
  part('waiting').textContent = items.length === 0 ? none : '';
  part('items').replaceChildren(...items.map((each) => choice(...titleOf(each), () => choose(each))));
  const control = (run: NamedRun) => choice(named(run), `Phase: ${run.phase}`, async () => showControl(run));
  part('runs').replaceChildren(...runs.map(control));
  part('control-part').hidden = runs.length === 0;
  show(2);
}

/** Goes back to the list, which is asked for again. */
async function back(): Promise<void> {
  show(2);
  await list();
}

const named = ({ runbook, deployment }: Pick<NamedRun, 'runbook' | 'deployment'>) => `${runbook} of ${deployment}`;

function titleOf(item: Item): readonly [string, string] {
  const { requestedBy = 'not named', reason = 'none given' } = item;
  const who = `Requested by: ${requestedBy}. Reason: ${reason}`;
  if (isInvitation(item))
    return [`${item.kind === 'rehearsal' ? 'Rehearse' : `Give a ${item.kind}`}: ${named(item)}`, who];
  return item.kind === 'approval'
    ? [`Approve gate "${item.gate}": ${named(item)}`, who]
    : [`Decide: ${named(item)} is parked at "${item.step}"`, who];
}

/** An entry of a list, which opens something. */
function choice(title: string, hint: string, work: () => Promise<void>): HTMLElement {
  const made = document.createElement('button');
  made.type = 'button';
  made.append(element('b', title), element('span', hint, 'hint'));
  whenPressed(made, part('error-2'), work);
  const entry = element('li');
  entry.append(made);
  return entry;
}

/** Asks for the run as it is now, and shows what the item is about. */
async function choose(item: Item): Promise<void> {
  if (isInvitation(item)) return showInvitation(item);
  const { name, key, origin = '' } = whoever();
  const run = readRun(await askRun({ origin, name, key }, item));
  if (item.kind === 'approval') return showApproval(run, item.gate, item.planDigest);
  const parked = run.waiting.find((each) => each.for === 'decision' && each.parkingNo === item.parkingNo);
  if (parked?.for === 'decision') return showDecision(run, parked);
  throw new RunbookError('NOT_FOUND', 'This step is not parked any more.', {
    next: 'Press "Look again": perhaps somebody else decided, or what was missing arrived.',
  });
}

/** Shows what a pasted status waits for. */
async function showPasted(): Promise<void> {
  const run = readRun(jsonIn(area('status').value));
  const { approvals, decisions } = waitsOf(run);
  part('items').replaceChildren(
    ...approvals.map(({ gate }) =>
      choice(`Approve gate "${gate}": ${named(run)}`, `Phase: ${run.phase}`, async () => showApproval(run, gate)),
    ),
    ...decisions.map((each) =>
      choice(`Decide: ${named(run)} is parked at "${each.step}"`, `Phase: ${run.phase}`, async () =>
        showDecision(run, each),
      ),
    ),
    choice(`Stop, pause or resume: ${named(run)}`, `Phase: ${run.phase}`, async () => showControl(run)),
  );
  part('waiting').textContent =
    approvals.length + decisions.length === 0 ? 'This run does not wait for an approval or a decision.' : '';
  part('items').querySelector('button')?.focus();
}

const waitsOf = ({ waiting }: ShownRun) => ({
  approvals: waiting.filter((each): each is ApprovalWait => each.for === 'approval'),
  decisions: waiting.filter((each): each is DecisionWait => each.for === 'decision'),
});

/** Shows the third step, with one of its forms. */
function ask(what: string, form: 'approval' | 'choice' | 'holder', asked: Request | undefined): void {
  request = asked;
  for (const each of ['approval', 'choice', 'holder']) part(`${each}-form`).hidden = each !== form;
  for (const id of ['verdict', 'comment', 'reason']) emptied(input(id));
  part('sign').hidden = asked === undefined;
  part('sign').textContent = person?.origin === undefined ? 'Sign' : 'Sign and send';
  part('what').textContent = what;
  document.title = what;
  show(3);
}

/** Shows a plan, warnings first, and what was found about it. The digest that is signed is that of the text that is shown. */
function showApproval(run: ShownRun, gate: string, claimed = run.planDigest): void {
  const { text, digest } = planToSign({ ...run, planDigest: claimed });
  const plan = readPlan(text);
  const words = plan && planText(plan, gate);
  const findings = unsignedFindings(run.findings);
  const warnings = [
    ...noRightWarnings(run, gate, whoever().name),
    ...(words?.warnings ?? []),
    ...notAskedWarnings(run, gate),
  ];
  part('before').replaceChildren(
    ...warnings.map((warning) => box('warn', [warning])),
    ...(findings.length === 0 ? [] : [box('warn', [UNSIGNED_FINDINGS, ...findings])]),
  );
  const approved = waitsOf(run).approvals.find((each) => each.gate === gate);
  const waiting = approved && waitingText(run.workflowId, approved, (at) => clock(at));
  const facts = words
    ? [
        fact('Requested by', [words.requestedBy]),
        fact('Reason', [words.reason]),
        ...words.allowed.map(({ title, operations }) => fact(title, operations, { even: true })),
        ...(waiting ? [fact(waiting.title, [waiting.text.trim(), ...waiting.lines.map((line) => line.text)])] : []),
        ...words.clusters.map(([cluster = '', ...more]) => fact('Cluster', [cluster, ...more])),
        ...(words.choices.length > 0 ? [fact('Choices', words.choices, { even: true })] : []),
      ]
    : [fact('This page cannot read this plan: it may be too old. Its text', [rawText(text)], { warning: true })];
  const steps = element('ol');
  steps.append(...(words?.steps ?? []).map((step) => prose('li', step)));
  part('request').replaceChildren(
    factList(facts),
    ...(words ? [element('h3', 'Steps'), steps] : []),
    folded('Technical details, to compare', [
      fact('Digest of this plan', [digest]),
      ...(words?.inventory === undefined ? [] : [fact('Inventory', [words.inventory])]),
      fact('Run', [run.workflowId, `${run.runId}, namespace ${run.namespace}`]),
    ]),
  );
  ask(gateTitle(gate, plan), 'approval', {
    run,
    answer: () => {
      const verdict = input('verdict').value.trim().toLowerCase();
      if (verdict !== 'approve' && verdict !== 'reject')
        throw new RunbookError('INVALID_INPUT', 'Not signed.', {
          needed: '"approve" or "reject"',
          next: 'Read the plan, then type one of the two words.',
        });
      const comment = input('comment').value;
      return { type: 'approval', signal: 'approve', members: { gate, planDigest: digest, verdict, comment } };
    },
  });
}

/** A text of unknown form, on one line. */
function rawText(text: string): string {
  const content = jsonIn(text);
  return content === undefined ? oneLine(text) : jsonText(inLines(content));
}

/** Shows a parked step, and its choices with their effects. */
function showDecision(run: ShownRun, parked: DecisionWait): void {
  const { step, parkingNo, choices } = parked;
  const { title, text, lines } = waitingText(run.workflowId, parked, (at) => clock(at));
  part('before').replaceChildren(box('warn', [`${title}${text}`]));
  const facts = lines.filter(({ command }) => command === undefined).map((line) => prose('p', line.text));
  part('request').replaceChildren(...facts, element('p', `${run.workflowId}, run ${run.runId}`, 'quiet'));
  showChoices(
    'What shall the run do?',
    choices.map(({ action, effect }) => [action, effect]),
  );
  const answer = (): Statement => {
    const members = { step, parkingNo, action: chosen(), reason: reasonGiven() };
    return { type: 'decision', signal: 'decide', members };
  };
  ask(`Decide: ${named(run)}`, 'choice', { run, answer });
}

const CONTROLS = [
  [
    'abort',
    'ends the run at its next safe point, with its clean-ups and a report; in an outage, only once a cluster serves',
  ],
  ['pause', 'pauses the run before its next step; in an outage, only once a cluster serves'],
  ['resume', 'continues a paused run'],
] as const;

function showControl(run: StatedRun & Pick<NamedRun, 'runbook' | 'deployment' | 'phase'>): void {
  part('before').replaceChildren();
  part('request').replaceChildren(element('p', `${run.workflowId}, run ${run.runId}, phase ${run.phase}`, 'quiet'));
  showChoices('What shall the run do?', CONTROLS);
  const answer = (): Statement => {
    const action = chosen();
    return { type: 'control', signal: action, members: { action, reason: reasonGiven(), inputDigest: undefined } };
  };
  ask(`Stop, pause or resume: ${named(run)}`, 'choice', { run, answer });
}

function showChoices(legend: string, choices: readonly (readonly [string, string])[]): void {
  part('choice-legend').textContent = legend;
  part('choices').replaceChildren(
    ...choices.map(([action, effect]) => {
      const radio = document.createElement('input');
      radio.type = 'radio';
      radio.name = 'choice';
      radio.value = action;
      const label = element('label');
      label.append(radio, element('b', action), prose('span', `: ${effect}`));
      return label;
    }),
  );
}

function chosen(): string {
  const radio = document.querySelector('input[name="choice"]:checked');
  if (radio instanceof HTMLInputElement) return radio.value;
  throw new RunbookError('INVALID_INPUT', 'Nothing is chosen.', { next: 'Choose what the run shall do.' });
}

function reasonGiven(): string {
  const reason = input('reason').value.trim();
  if (reason.length >= 3) return reason;
  throw new RunbookError('INVALID_INPUT', 'The reason is missing.', { next: 'Say why, in a few words.' });
}

function showInvitation(item: Extract<Item, { invitation: string }>): void {
  part('before').replaceChildren();
  part('request').replaceChildren(element('p', titleOf(item)[1]));
  area('invitation').value = item.invitation;
  part('copied-invitation').replaceChildren();
  ask(titleOf(item)[0], 'holder', undefined);
}

/** Signs the answer; sends it if there is a gateway. */
async function sign(): Promise<void> {
  const { name, key, origin } = whoever();
  if (request === undefined) return;
  const { run, answer } = request;
  const { type, signal, members } = answer();
  if (plainSecretIn(members))
    throw new RunbookError(
      'PLAIN_TEXT_SHARE',
      'This seems to contain a key share or a token in plain text. Nothing was sent.',
      {
        next: 'Remove it. Type a key share only into your holder\'s page or "runbook share".',
      },
    );
  const payload = statementPayload(type, run, { ...members, name });
  signed = { run, signal, document: await signStatement(type, payload, key) };
  showSigned(signed, origin !== undefined);
  if (origin !== undefined) await send();
}

function showSigned({ run, signal, document: jws }: Signed, sending: boolean): void {
  const line = JSON.stringify({ document: jws });
  part('done').textContent = sending ? 'Sending' : 'Signed; not sent yet';
  area('line').value = line;
  part('workflow').textContent = run.workflowId;
  part('namespace').textContent = run.namespace;
  part('run').textContent = run.runId;
  part('signal').textContent = signal;
  const to = ['--namespace', run.namespace, '--workflow-id', run.workflowId, '--run-id', run.runId];
  part('command').textContent = shellLine('temporal', 'workflow', 'signal', ...to, '--name', signal, '--input', line);
  byId('by-hand', HTMLDetailsElement).open = !sending;
  part('send').hidden = true;
  part('copied').replaceChildren();
  part('receipt').textContent = sending ? 'Waiting for the receipt of the run.' : '';
  show(4);
}

async function send(): Promise<void> {
  const { name, key, origin } = whoever();
  if (signed === undefined || origin === undefined) return;
  try {
    showReceipt(await sendDocument({ origin, name, key }, signed.run, signed.signal, signed.document));
  } catch (error) {
    // It is signed: it can be sent again, or passed on.
    const unanswered = isRunbookError(error) && error.retryable;
    part('done').textContent = unanswered ? 'Signed; it is unknown whether it arrived' : 'The gateway has refused it';
    part('receipt').replaceChildren();
    part('send').hidden = !unanswered;
    part('error-4').replaceChildren(box('bad', linesOf(error)));
  }
}

function showReceipt(receipt: Receipt | undefined): void {
  part('send').hidden = receipt !== undefined;
  if (receipt === undefined) {
    part('done').textContent = 'Sent; no receipt yet';
    const lines = ['The run has not answered yet.', 'Press "Send it again" in a minute: it counts once.'];
    return part('receipt').replaceChildren(box('warn', lines));
  }
  const { title, text } = receiptText(receipt);
  const accepted = receipt.verdict === 'accepted';
  part('done').textContent = accepted ? 'The run has accepted it' : 'The run has refused it';
  part('receipt').replaceChildren(box(accepted ? 'good' : 'bad', [`${title}${text}`]));
}

function closeKey(): void {
  person = request = signed = undefined;
  emptyAll();
  input('gateway').value = madeForGateway;
  for (const id of ['notes', 'items', 'runs', 'waiting', 'before', 'request', 'choices', 'receipt', 'command'])
    part(id).replaceChildren();
  document.title = TITLE;
}

async function begin(): Promise<void> {
  const unusable = await whyUnusable('runbook approve');
  if (unusable) {
    part('warnings').append(box('bad', unusable));
    return;
  }
  closeKey();
  if (madeForGateway !== '') {
    part('gateway-part').hidden = true;
    const only = `This page can send to ${madeForGateway} and nowhere else.`;
    part('progress').textContent = `Your key and its passphrase never leave this device. ${only}`;
    part('network').textContent = only;
  }
  whenPressed(button('open'), part('error-1'), open);
  whenPressed(button('look'), part('error-2'), list);
  whenPressed(button('show'), part('error-status'), showPasted);
  whenPressed(button('sign'), part('error-3'), sign);
  whenPressed(button('send'), part('error-4'), send);
  for (const [id, field, result] of [
    ['copy', 'line', 'copied'],
    ['copy-invitation', 'invitation', 'copied-invitation'],
  ] as const)
    whenPressed(button(id), part(result), async () => {
      part(result).replaceChildren(copyResult(await copyFrom(area(field))));
    });
  for (const each of document.querySelectorAll('button.back'))
    if (each instanceof HTMLButtonElement) whenPressed(each, part('error-2'), back);
  behave(ENTER, closeKey);
  part('step-1').hidden = false;
}

void begin();
