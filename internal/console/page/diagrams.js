// What a model says of the states of items, and of a day: the diagrams of stator model doc.
import { html } from "./html.js";

/** The status machines of a model, with the patterns that make each transition. */
export function Machines({ machines }) {
  if (!machines?.length) return null;
  return html`<section class="card" aria-labelledby="machines"><h2 id="machines">Status machines</h2>
    ${machines.map((m, i) => html`<div class="machine" key=${m.Name}><h3>${m.Name} <span class="hint mono">${m.Of}</span></h3>${m.Description && html`<p class="hint">${m.Description}</p>`}
      <div class="columns">${m.Diagram.Nodes?.length > 0 && html`<figure class="diagram scroll" tabindex="0" aria-label=${"Diagram of " + m.Name}><${Diagram} machine=${m} tip=${"tip-" + i} /></figure>`}
      <div class="scroll"><table class="list transitions"><thead><tr><th scope="col" class="number">#</th><th scope="col">From</th><th scope="col">To</th><th scope="col">Also needs</th><th scope="col">Done by</th></tr></thead>
        <tbody>${(m.Transitions ?? []).map((t) => html`<tr><td class="number">${t.Number}</td><td>${t.From}</td><td>${t.To}</td><td>${t.Condition && html`<code>${t.Condition}</code>`}</td><td>${(t.Patterns ?? []).map((p) => p.Name).join(", ")}</td></tr>`)}</tbody></table></div></div></div>`)}</section>`;
}

function Diagram({ machine, tip }) {
  const { Width: width, Height: height, Nodes: nodes, Edges: edges, Starts: starts } = machine.Diagram;
  const arrow = (e) => html`<path class="arrow" d=${e.Path} marker-end=${`url(#${tip})`} />`;
  return html`<svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`States and transitions of ${machine.Name}: ${(machine.Transitions ?? []).map((t) => `${t.From} to ${t.To}`).join(", ")}`}>
    <defs><marker id=${tip} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0 L10 5 L0 10 z" /></marker></defs>
    ${(starts ?? []).map((e) => html`<circle class="start" cx=${e.X} cy=${e.Y} r="5" />${arrow(e)}`)}
    ${(edges ?? []).map(arrow)}
    ${nodes.map((n) => html`<rect class=${"state" + (n.Final ? " final" : "")} x=${n.X} y=${n.Y} width=${n.Width} height=${n.Height} rx="10" />
      ${n.Final && html`<rect class="ring" x=${n.X + 4} y=${n.Y + 4} width=${n.Width - 8} height=${n.Height - 8} rx="7" />`}<text x=${n.TextX} y=${n.TextY}>${n.Name}</text>`)}
    ${(edges ?? []).map((e) => html`<circle class="count" cx=${e.X} cy=${e.Y} r="9" /><text class="small" x=${e.X} y=${e.Y + 4}>${e.Number}</text>`)}
  </svg>`;
}

/** The load of the busiest partitions over a day. */
export function Day({ day }) {
  if (!day) return null;
  const { Width: width, Height: height, Shares: shares, Hours: hours, Curves: curves, LimitY: limit } = day;
  return html`<section class="card" aria-labelledby="model-day"><h2 id="model-day">Over a day</h2>
    ${day.Note ? html`<p class="hint">${day.Note}</p>` : html`<p class="hint">A day on which each pattern has its rate as the mean and its peak as the maximum, as shares of what a partition serves. The shape and the hour of the peak are assumed.</p>
      <div class="chart day scroll" tabindex="0" role="group" aria-label="Load over a day"><svg viewBox=${`-24 -8 ${width + 48} ${height + 32}`} role="img" aria-label=${"Load of the busiest partitions over a day: " + curves.map((c) => `${c.Key} of ${c.Place} ${c.Mean} on average, ${c.Peak} at the peak`).join("; ")}>
        ${shares.map((s) => html`<line class="rule" x1="0" x2=${width} y1=${s.At} y2=${s.At} /><text x="2" y=${s.At + 13}>${s.Text}</text>`)}
        <line class="rule" x1="0" x2=${width} y1=${height} y2=${height} />
        ${hours.map((h) => html`<text class="middle" x=${h.At} y=${height + 18}>${h.Text}</text>`)}
        ${limit >= 0 && html`<line class="series slimit" x1="0" x2=${width} y1=${limit} y2=${limit} />`}
        ${curves.map((c, i) => html`<polyline class=${"series s" + i} points=${c.Points} />`)}</svg></div>
      <ul class="legend day-legend">${curves.map((c, i) => html`<li><i class=${"swatch s" + i} aria-hidden="true"></i><code>${c.Key}</code> <span class="hint">${c.Place}: ${c.Mean} of the limit on average, ${c.Peak} at the peak</span></li>`)}</ul>`}</section>`;
}
