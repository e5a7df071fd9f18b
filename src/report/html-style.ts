/** The style of the page: readable at night and on paper, no outside resource. */
export const STYLE = `
:root { color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #1b2430; --soft: #55606e; --line: #d8dde4;
  --good: #14713d; --warning: #8a5300; --bad: #b3201f; --neutral: #33506f;
  --good-fill: #d9f0e2; --warning-fill: #fdecc8; --bad-fill: #fbdcda; --neutral-fill: #e3ebf4;
  --service: #2f6fb3; --machine: #8792a0; --people: #d2691e; --bar: #2f6fb3; --band: #d2691e22; }
@media screen and (prefers-color-scheme: dark) { :root {
  --page: #12161b; --card: #1b2128; --text: #e6eaf0; --soft: #9aa6b4; --line: #333c47;
  --good: #6fd59a; --warning: #f0b95a; --bad: #ff8d86; --neutral: #a9c4e2;
  --good-fill: #163524; --warning-fill: #3d2e10; --bad-fill: #451c1b; --neutral-fill: #22303f;
  --service: #5b9fe6; --machine: #6b7684; --people: #e98a45; --bar: #5b9fe6; --band: #e98a4526; } }
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
.badge { display: inline-block; border-radius: .3rem; padding: 0 .45rem; font-size: .85em; font-weight: 600; }
.total { font-size: 2.6rem; line-height: 1.1; font-weight: 700; font-variant-numeric: tabular-nums; margin: 0 0 .25rem; }
code { user-select: all; overflow-wrap: anywhere; } .soft { color: var(--soft); } p { margin: .25rem 0; overflow-wrap: anywhere; }
.split { display: flex; height: 1.75rem; border-radius: .3rem; overflow: hidden; margin: .75rem 0 .5rem; background: var(--line); }
.split span { min-width: 0; } .service { background: var(--service); } .machine { background: var(--machine); } .people { background: var(--people); } .before { background: var(--soft); }
nav { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .75rem 0 0; font-size: .9rem; } a { color: var(--neutral); }
details { margin-bottom: .75rem; } summary { cursor: pointer; padding: .35rem 0; color: var(--good); font-weight: 600; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; padding: 0; margin: 0; }
.legend i { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem; margin-right: .4rem; }
.legend b { font-variant-numeric: tabular-nums; }
ul.items { margin: 0; padding-left: 1.25rem; } ul.items li { margin: .3rem 0; overflow-wrap: anywhere; }
ul.items.labelled { list-style: none; padding: 0; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1.25rem; margin: 0 0 .5rem; } dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin-bottom: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } caption { text-align: left; color: var(--soft); padding-bottom: .35rem; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-top: 1px solid var(--line); overflow-wrap: break-word; }
th { font-weight: 600; border-top: 0; white-space: nowrap; } td.long { min-width: 11rem; overflow-wrap: anywhere; }
.many td.long { min-width: 0; } .many th { white-space: normal; }
.timeline { list-style: none; margin: 0 0 1rem; padding: 0; }
.timeline > li { border-top: 1px solid var(--line); padding: .4rem 0; break-inside: avoid; }
.row { display: grid; grid-template-columns: 17rem 1fr 11rem; gap: 1rem; align-items: center; }
.name { font-weight: 600; overflow-wrap: anywhere; } .took { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.track { position: relative; height: 1rem; background: linear-gradient(var(--line), var(--line)) center / 100% 1px no-repeat; }
.track i { position: absolute; top: 0; bottom: 0; border-radius: .2rem; background: var(--bar); min-width: 3px; }
.track i.band { background: var(--band); top: -.4rem; bottom: -.4rem; border-radius: 0; }
.track i.bad { background: var(--bad); } .track i.warning { background: var(--warning); } .track i.people { background: var(--people); }
.activities { list-style: none; margin: .15rem 0 0; padding: 0 0 0 1rem; font-size: .85rem; color: var(--soft); }
.activities li { overflow-wrap: anywhere; } .axis { display: flex; justify-content: space-between; font-size: .85rem; color: var(--soft); padding-left: 18rem; padding-right: 12rem; }
h3 { font-size: 1rem; margin: .5rem 0; }
@media (max-width: 46rem) { .row { grid-template-columns: 1fr auto; } .track { grid-column: 1 / -1; order: 3; } .axis { padding: 0; } }
@media screen and (max-width: 46rem) { dl { grid-template-columns: 1fr; } dt { margin-top: .3rem; } thead { display: none; } table, caption, tbody, tr, td { display: block; }
  tr { border-top: 1px solid var(--line); padding: .4rem 0; } td { border: 0; padding: .1rem 0; overflow-wrap: anywhere; } td:empty { display: none; }
  td::before { content: attr(data-column) ": "; color: var(--soft); } }
@media print { body { background: #fff; font-size: 11pt; } main { max-width: none; padding: 0; } section { border: 0; border-top: 1px solid #999; border-radius: 0; padding: .5rem 0; }
  nav { display: none; } details::details-content { content-visibility: visible; display: block; block-size: auto; } summary { list-style: none; }
  tr, li { break-inside: avoid; } h2 { break-after: avoid; } .wide { overflow: visible; } table { font-size: .8rem; } td.long { min-width: 0; }
  .many thead { display: none; } .many, .many caption, .many tbody, .many tr, .many td { display: block; } .many tr { border-top: 1px solid var(--line); padding: .2rem 0; }
  .many td { display: inline; border: 0; padding: 0 .75rem 0 0; } .many td:empty { display: none; } .many td::before { content: attr(data-column) ": "; color: var(--soft); } * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
`;
