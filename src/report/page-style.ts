/** The style of a report's page: readable at night, on a telephone and on paper; no external resource. */
export const STYLE = `
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2430; --soft: #55606e; --line: #d8dde4; --rule: #eceff3;
  --good: #14713d; --warning: #8a5300; --bad: #b3201f; --neutral: #33506f;
  --good-fill: #d9f0e2; --warning-fill: #fdecc8; --bad-fill: #fbdcda; --neutral-fill: #e3ebf4;
  --primary: #1f5fa8; --on-primary: #ffffff; --work: #4d7fb5; --wait: #e0a030; --outage: #d03a36; --paused: #8d6fc0; --unprotected: #9aa5b3; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page: #12161b; --card: #1b2128; --text: #e6eaf0; --soft: #9aa6b4; --line: #333c47; --rule: #262d36;
  --good: #6fd59a; --warning: #f0b95a; --bad: #ff8d86; --neutral: #a9c4e2;
  --good-fill: #163524; --warning-fill: #3d2e10; --bad-fill: #451c1b; --neutral-fill: #22303f;
  --primary: #7db4f0; --on-primary: #0d1a2a; --work: #6c9fd6; --wait: #d99a2e; --outage: #f0605b; --paused: #a98be0; --unprotected: #6d7886; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1rem; font-weight: 600; color: var(--soft); margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 0 0 .75rem; }
.headline { font-size: 1.5rem; line-height: 1.3; font-weight: 650; margin: 0; padding: 1rem 1.25rem; border-radius: .5rem; border-left: .4rem solid; overflow-wrap: anywhere; }
section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.25rem; margin-top: 1rem; }
.good { color: var(--good); } .warning { color: var(--warning); } .bad { color: var(--bad); } .neutral { color: var(--neutral); }
.headline.good, .badge.good { background: var(--good-fill); } .headline.warning, .badge.warning { background: var(--warning-fill); }
.headline.bad, .badge.bad { background: var(--bad-fill); } .headline.neutral, .badge.neutral { background: var(--neutral-fill); }
p { margin: .25rem 0; overflow-wrap: anywhere; } .below { margin-top: .75rem; font-size: .95rem; }
.badge { display: inline-block; border-radius: .3rem; padding: 0 .45rem; font-size: .85em; font-weight: 600; }
code { user-select: all; overflow-wrap: anywhere; } .soft { color: var(--soft); }
#figures { background: none; border: 0; padding: 0; margin-top: .75rem; } #figures h2 { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
dl.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.6rem, 1fr)); gap: .75rem; margin: 0; }
dl.figures > div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .9rem .7rem; }
dl.figures dt { font-size: .85rem; } dd.figure { font-size: 1.6rem; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; } dd.figure.neutral { color: var(--text); } dd.objective { font-size: .85rem; margin-top: .15rem; }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .75rem 0 0; font-size: .9rem; } a { color: var(--neutral); }
details { margin-bottom: .75rem; } summary { cursor: pointer; padding: .35rem 0; color: var(--neutral); font-weight: 600; }
section > details { margin: 0; } summary h2 { display: inline; }
ul.items { margin: 0; padding-left: 1.25rem; } ul.items li { margin: .3rem 0; overflow-wrap: anywhere; }
ul.items.labelled { list-style: none; padding: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0 0 .5rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; border-top: 0; } td, th { white-space: nowrap; } td.long { min-width: 11rem; white-space: normal; overflow-wrap: anywhere; }
.many td.long { min-width: 0; } .many th { white-space: normal; }
.pictures { display: flex; flex-wrap: wrap; gap: 1rem 2rem; } figure { flex: 1 1 17rem; margin: 0; min-width: 0; } figcaption { font-weight: 600; margin-bottom: .4rem; font-size: .95rem; }
svg { display: block; width: 100%; height: auto; } svg.roles { max-width: 29rem; } svg text { fill: var(--text); } svg .soft { fill: var(--soft); }
svg.narrow { display: none; } svg .box { fill: var(--card); stroke: var(--line); stroke-width: 1.2; } svg .box.changed { fill: var(--neutral-fill); stroke: var(--primary); stroke-width: 1.8; } svg .box.unread { stroke-dasharray: 4 3; }
svg .pill { stroke: none; } svg .pill.primary { fill: var(--primary); } svg .pill.secondary { fill: var(--card); stroke: var(--primary); } svg .pill.not-read { fill: none; stroke: var(--soft); stroke-dasharray: 3 2; }
svg .on.primary { fill: var(--on-primary); } svg .on.secondary { fill: var(--primary); } svg .on.not-read { fill: var(--soft); }
svg .link { stroke: var(--primary); stroke-width: 1.8; } svg .link.performance { stroke-dasharray: 4 3; } svg .root, svg .head { fill: var(--primary); } svg .link.broken { stroke: var(--bad); } svg .head.broken { fill: var(--bad); }
svg .grid { stroke: var(--rule); } svg .rule { stroke: var(--rule); } svg .cut { fill: var(--card); } svg .torn { stroke: var(--soft); stroke-dasharray: 3 2; }
svg .bar.step { fill: var(--work); } svg .bar.wait { fill: var(--wait); } svg .bar.failed { fill: var(--card); stroke: var(--bad); stroke-width: 2; } svg .bar.skipped { fill: none; stroke: var(--warning); stroke-dasharray: 3 2; stroke-width: 1.5; }
svg .bar.outage { fill: var(--outage); } svg .bar.paused { fill: var(--paused); } svg .bar.unprotected { fill: var(--unprotected); } svg .band.outage { fill: var(--outage); opacity: .13; } svg .band.paused { fill: var(--paused); opacity: .1; }
svg .open { fill: none; stroke: var(--card); stroke-width: 1.6; } svg .mark { fill: var(--text); stroke: var(--card); } svg .name.outage, svg .took.outage { fill: var(--bad); } svg .name.failed, svg .took.failed { fill: var(--bad); } svg .name.skipped { fill: var(--warning); }
ul.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; list-style: none; margin: .6rem 0 .5rem; padding: 0; font-size: .85rem; color: var(--soft); } ul.legend li { display: flex; align-items: center; gap: .4rem; }
.sample { display: inline-block; width: 1.1rem; height: .6rem; border-radius: 2px; } .sample.line { height: 0; width: 1.6rem; border-radius: 0; border-top: 2px solid var(--primary); } .sample.line.performance { border-top-style: dashed; } .sample.line.broken { border-top-color: var(--bad); }
.sample.step { background: var(--work); } .sample.wait { background: var(--wait); } .sample.failed { border: 2px solid var(--bad); } .sample.skipped { border: 1.5px dashed var(--warning); } .sample.outage { background: var(--outage); } .sample.paused { background: var(--paused); } .sample.unprotected { background: var(--unprotected); }
@media screen and (max-width: 46rem) { main { padding: 1rem .6rem 3rem; } section { padding: .8rem .8rem; } .headline { font-size: 1.25rem; padding: .8rem 1rem; } dl.figures { grid-template-columns: repeat(auto-fit, minmax(8.2rem, 1fr)); gap: .5rem; } dd.figure { font-size: 1.3rem; }
  svg.wide { display: none; } svg.narrow { display: block; } svg.roles { max-width: 26rem; }
  dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } thead { display: none; } table, caption, tbody, tr, td { display: block; }
  tr { border-top: 1px solid var(--line); padding: .4rem 0; } td { border: 0; padding: .1rem 0; white-space: normal; overflow-wrap: anywhere; } td:empty { display: none; }
  td::before { content: attr(data-column) ": "; color: var(--soft); } }
@page { size: A4; margin: 16mm 14mm 18mm; @bottom-right { content: counter(page) " / " counter(pages); font: 9pt system-ui, sans-serif; color: #55606e; } }
@media print { body { background: #fff; font-size: 10.5pt; } main { max-width: none; padding: 0; } section { border: 0; border-top: 1px solid #999; border-radius: 0; padding: .5rem 0; } #figures { border: 0; }
  nav { display: none; } .headline { font-size: 1.35rem; padding: .7rem 1rem; } dl.figures { grid-template-columns: repeat(auto-fit, minmax(6rem, 1fr)); gap: .5rem; } dl.figures > div { padding: .35rem .5rem; } dd.figure { font-size: 1.1rem; overflow-wrap: break-word; } dd.objective, dl.figures dt { font-size: .75rem; }
  details.on-screen::details-content { content-visibility: visible; display: block; block-size: auto; } .as-picture, section:has(> details.if-opened:not([open])) { display: none; } summary { list-style: none; } summary::-webkit-details-marker { display: none; }
  tr, li, figure, .pictures, .headline, dl.figures, dl > div { break-inside: avoid; } h2, caption, figcaption { break-after: avoid; } .legend { break-before: avoid; } dt { break-after: avoid; } dl { break-inside: avoid; } svg.time-line { max-width: 165mm; max-height: 235mm; } svg.roles { max-width: 68mm; } td[data-column="What"] { min-width: 42mm; } td[data-column="Took"] { white-space: nowrap; } .wide { overflow: visible; } table { font-size: .8rem; } td { white-space: normal; } td.long { min-width: 0; }
  .many thead { display: none; } .many, .many caption, .many tbody, .many tr, .many td { display: block; } .many tr { border-top: 1px solid var(--line); padding: .2rem 0; }
  .many td { display: inline; border: 0; padding: 0 .75rem 0 0; } .many td:empty { display: none; } .many td::before { content: attr(data-column) ": "; color: var(--soft); } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
`;
