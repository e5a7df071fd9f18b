import type { Report } from '../contracts/report';
import { escapeUntrusted } from '../contracts/words';
import type { Block, Section } from './report-document';
import { plain, toned } from './report-document';
import type { Tone } from './report-words';
import { allAttestedText, attestedText, betweenText, timeText } from './report-words';

function gateTone(state: string): Tone {
  if (state === 'approved' || state === 'not-needed') return 'good';
  return state === 'opened' ? 'neutral' : 'bad';
}

/** Gates, parked steps and controls: who decided what, and how that is known. */
export function peopleSection(report: Report): Section {
  const gates: readonly Block[] = report.gates.length
    ? [
        {
          kind: 'table',
          caption: 'Gates: where people approve what comes next.',
          columns: ['Gate', 'State', 'By', 'Opened', 'Open for', 'Plan digest'],
          rows: report.gates.map(({ gate, state, by, openedAt, closedAt, planDigest }) => [
            plain(gate),
            toned(state, gateTone(state)),
            toned(allAttestedText(by), by.some(({ how }) => how === 'claimed') ? 'warning' : 'neutral'),
            plain(timeText(openedAt)),
            plain(closedAt === undefined ? 'still open' : betweenText(openedAt, closedAt)),
            plain(planDigest),
          ]),
        },
      ]
    : [{ kind: 'paragraph', text: 'No gate was opened.' }];
  const parkings: readonly Block[] = report.parkings.length
    ? [
        {
          kind: 'table',
          caption: 'Steps that failed and waited for a decision.',
          columns: ['Step', 'Parked', 'Error', 'Decision', 'By', 'Waited'],
          rows: report.parkings.map(({ step, parkingNo, at, code, message, decision }) => [
            plain(`${step}, parking ${parkingNo}`),
            plain(timeText(at)),
            plain(`${code}: ${message}`),
            decision ? plain(`${decision.action}: ${escapeUntrusted(decision.reason)}`) : toned('none', 'bad'),
            decision
              ? toned(attestedText(decision.by), decision.by.how === 'claimed' ? 'warning' : 'neutral')
              : plain(''),
            plain(decision ? betweenText(at, decision.at) : ''),
          ]),
        },
      ]
    : [];
  const controls: readonly Block[] = report.controls.length
    ? [
        {
          kind: 'table',
          caption: 'Pause, resume, abort and cancel. Names here are what the sender typed.',
          columns: ['Time', 'Control', 'By', 'Reason'],
          rows: report.controls.map(({ at, control, by, reason }) => [
            plain(timeText(at)),
            plain(control),
            toned(`${escapeUntrusted(by)} (UNVERIFIED)`, 'warning'),
            plain(reason),
          ]),
        },
      ]
    : [];
  return { id: 'people', title: 'People', blocks: [...gates, ...holdersBlocks(report), ...parkings, ...controls] };
}

/** Whom the run asked for key shares, and what each of them did. */
function holdersBlocks({ holders = [] }: Report): readonly Block[] {
  if (holders.length === 0) return [];
  return [
    {
      kind: 'table',
      caption: 'Key holders: who was asked and when, who declined, who gave a share.',
      columns: ['Holder', 'Epoch', 'Asked', 'Declined', 'Gave'],
      rows: holders.map(({ name, epoch, as, askedAt, why, declined, gave }) => [
        plain(as === 'stand-by' ? `${name} (stand-by)` : name),
        plain(String(epoch)),
        plain(askedAt === undefined ? 'not asked' : `${timeText(askedAt)}: ${why ?? ''}`),
        declined
          ? toned(
              `${timeText(declined.at)}${declined.how === 'claimed' ? ' (UNVERIFIED)' : ''}: ${declined.text}`,
              'warning',
            )
          : plain(''),
        gave ? toned(timeText(gave.at), gave.how === 'claimed' ? 'warning' : 'good') : plain('no'),
      ]),
    },
  ];
}

/** What became of each signal, also of those that no receipt answers. */
export function receiptsSection(report: Report): Section {
  const received = report.receipts.map(({ at, signal, arrival, verdict, code, text, from }) => {
    return [
      plain(timeText(at)),
      plain(`${signal} ${arrival}`),
      toned(verdict, verdict === 'accepted' ? 'good' : 'bad'),
      from ? toned(attestedText(from), from.how === 'claimed' ? 'warning' : 'neutral') : toned('unknown', 'warning'),
      plain(text.startsWith(code) ? text : `${code}: ${text}`),
    ];
  });
  const unanswered = report.signals
    .filter(({ answered }) => !answered)
    .map(({ at, signal, arrival }) => [
      plain(timeText(at)),
      plain(`${signal} ${arrival}`),
      toned('no receipt', 'warning'),
      toned('unknown', 'warning'),
      plain('the run gave no receipt for it'),
    ]);
  const rows = [...received, ...unanswered];
  return {
    id: 'receipts',
    title: 'Receipts',
    blocks: [
      rows.length === 0
        ? { kind: 'paragraph', text: 'No signal came in.' }
        : {
            kind: 'table',
            caption: 'What became of each signal.',
            columns: ['Time', 'Signal', 'Verdict', 'From', 'Why'],
            rows,
          },
    ],
  };
}
