"""The report's style sheet, for light and dark screens and for paper."""

from __future__ import annotations

STYLE = """
:root { color-scheme: light dark; --back: #fff; --text: #1b1f24; --soft: #59636e; --line: #d1d9e0; --box: #f6f8fa;
  --good: #0969da; --bad: #b35900; --unsure: #7a5cc0; --best: #ffd33d; --own: #0969da; --other: #8c959f;
  --ins: #dafbe1; --del: #ffebe9; --k: #b3202c; --s: #0a3069; --c: #59636e; --m: #0550ae; --f: #6639ba; }
@media screen and (prefers-color-scheme: dark) { :root { --back: #0d1117; --text: #e6edf3; --soft: #9198a1;
  --line: #3d444d; --box: #161b22; --good: #58a6ff; --bad: #f0883e; --unsure: #bc8cff; --best: #d29922;
  --own: #58a6ff; --other: #848d97; --ins: #12351f; --del: #4a1d1f; --k: #ff7b72; --s: #a5d6ff; --c: #9198a1;
  --m: #79c0ff; --f: #d2a8ff; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 72rem; padding: 1.5rem 1.2rem 4rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.4rem 0 .6rem; border-bottom: 1px solid var(--line); padding-bottom: .2rem; }
h3 { font-size: 1.05rem; margin: 1.6rem 0 .4rem; }
h4 { font-size: 1rem; margin: 1rem 0 .3rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
a { color: var(--good); }
.soft, caption { color: var(--soft); }
.lead { font-size: 1.15rem; }
.said { white-space: pre-wrap; overflow-wrap: anywhere; }
.site { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; align-items: baseline; border-bottom: 1px solid var(--line);
  padding-bottom: .6rem; margin-bottom: 1.2rem; } .site strong { margin-right: .6rem; }
.site a[aria-current] { color: var(--text); font-weight: 600; text-decoration: none; }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; padding: 0; margin: .8rem 0; list-style: none; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-size: .92rem; }
caption { text-align: left; padding-bottom: .3rem; }
th, td { text-align: left; padding: .22rem .8rem .22rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 6px; padding: .7rem .9rem; overflow-x: auto;
  font: .82rem/1.5 ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; margin: .5rem 0; tab-size: 4; }
details { margin: .5rem 0; } summary { cursor: pointer; }
article { border-top: 1px solid var(--line); padding: .25rem 0; } article > details > div { margin-left: 1.1rem; }
small { color: var(--soft); font-size: .85rem; font-weight: 400; }
h3 small { margin-left: .6rem; } .because { font-weight: 600; }
.figures { display: flex; flex-wrap: wrap; gap: .8rem; margin: .9rem 0; }
.figure { border: 1px solid var(--line); border-radius: 8px; background: var(--box); padding: .5rem 1rem .6rem;
  min-width: 9.5rem; } .figure strong { display: block; font-size: 1.7rem; line-height: 1.3;
  font-variant-numeric: tabular-nums; } .figure span, .figure small { display: block; white-space: pre-line; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr));
  gap: 0 1.6rem; }
figure { margin: .6rem 0; min-width: 0; } figcaption { font-size: .92rem; font-weight: 600; color: var(--text); }
.pictures svg.fits { width: 100%; max-width: 42rem; height: auto; font-size: 15px; }
p, dd, .said { max-width: 80ch; }
.wrapped { white-space: pre-wrap; overflow-wrap: anywhere; max-height: 34rem; overflow-y: auto; }
.status { border: 1px solid currentColor; border-radius: 1rem; padding: 0 .6rem; font-size: .85rem; font-weight: 600;
  white-space: nowrap; margin-left: .4rem; }
p .status, td .status { margin-left: 0; } .status.passed { color: var(--good); } .status.failed { color: var(--bad); }
.status.unmeasured { color: var(--unsure); }
.diff ins, .diff del, .diff span { display: block; text-decoration: none; white-space: pre; min-width: max-content; }
.diff ins { background: var(--ins); } .diff del { background: var(--del); } .hunk { color: var(--soft); }
.k { color: var(--k); } .s { color: var(--s); } .c { color: var(--c); } .m { color: var(--m); }
.f, .d { color: var(--f); } .b { color: var(--m); }
svg { display: block; max-width: none; font: 13px system-ui, "DejaVu Sans", sans-serif; fill: var(--text); }
svg .grid { stroke: var(--line); } svg .one { stroke: var(--soft); stroke-dasharray: 5 4; }
svg .passed { fill: var(--good); } svg .failed { stroke: var(--bad); stroke-width: 2.5; fill: none; }
svg .unmeasured { fill: var(--back); stroke: var(--unsure); stroke-width: 2; }
svg .halo { fill: none; stroke: var(--best); stroke-width: 3.5; }
svg .edge { fill: none; stroke: var(--other); } svg .whisker { stroke: var(--good); stroke-width: 1.5; }
svg .stair { fill: none; stroke: var(--good); stroke-width: 1.5; opacity: .55; }
svg .series { fill: none; stroke: var(--good); stroke-width: 2; }
svg .series-1 { stroke: var(--bad); stroke-dasharray: 7 4; }
svg .own { fill: var(--own); } svg .other { fill: var(--other); } svg .lead { stroke: var(--line); }
svg .thick { stroke-width: 6; opacity: .35; } svg line.own { stroke: var(--own); }
svg line.other { stroke: var(--other); }
svg .median { stroke: var(--text); stroke-width: 2; } svg .roof { stroke: var(--text); stroke-width: 2; }
svg .strong { font-weight: 700; } svg .limit { stroke: var(--bad); stroke-width: 2; } svg .over { fill: var(--bad); }
svg .t0 { fill: var(--own); opacity: .12; }
svg .t1 { fill: var(--own); opacity: .3; } svg .t2 { fill: var(--own); opacity: .55; }
svg .t3 { fill: var(--own); opacity: .8; } svg .t4 { fill: var(--bad); } svg a { text-decoration: none; }
:focus-visible { outline: 2px solid var(--good); outline-offset: 2px; }
@media (max-width: 40rem) { body { padding: 1rem .8rem 3rem; } h1 { font-size: 1.4rem; } .lead { font-size: 1.05rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dt { margin-top: .45rem; font-size: .88rem; } .figure { flex: 1 1 40%; }
  .figure strong { font-size: 1.4rem; } svg.fits { width: 100%; height: auto; font-size: 22px; overflow: visible; }
  table { min-width: 34rem; } table.rows, table.rows tbody { display: block; min-width: 0; }
  .pictures svg.fits { font-size: 20px; }
  table.rows thead { position: absolute; left: -99rem; } table.rows caption { display: block; }
  table.rows tr { display: flex; flex-wrap: wrap; gap: 0 .9rem; padding: .45rem 0;
    border-bottom: 1px solid var(--line); } table.rows td:empty { display: none; }
  table.rows td { border: 0; padding: 0; text-align: left; white-space: normal; }
  table.rows td[data-label]::before { content: attr(data-label) " "; color: var(--soft); font-size: .85rem; } }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; } nav, .skip { display: none; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 7.5pt; }
  .diff ins, .diff del, .diff span { white-space: pre-wrap; min-width: 0; }
  .wide { overflow: visible; } svg { max-width: 100%; height: auto; } h2, h3, h4, summary { break-after: avoid; }
  tr, .drawing { break-inside: avoid; } a { color: inherit; text-decoration: none; }
  details.paper::details-content { content-visibility: visible; display: block; block-size: auto; } }
"""
