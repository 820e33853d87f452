// Charts of values over time, as SVG with a table.
import { html, useState } from "./html.js";
import { clock, figure } from "./watch.js";

const width = 520, height = 170, left = 46, right = 8, top = 10, bottom = 20;

/** The next number of the form 1, 2 or 5 times a power of ten. */
export function niceAbove(n) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((f) => f * power).find((f) => f >= n * 0.999999);
}

/**
 * Lines over time. series: {name, points: {at, value}[], kind}; kind is the number of a colour, "limit" or "bad".
 * Where a series has no point for longer than a period, its line has a gap; with zeros, it is 0 there.
 */
export function Chart({ title, unit, series, from, to, period, zeros }) {
  const [at, setAt] = useState(null);
  const shown = series.map((s) => ({ ...s, points: zeros && s.kind !== "limit" ? filled(s.points, from, to, period) : s.points })).filter((s) => s.points.length > 0);
  const most = niceAbove(Math.max(0, ...shown.flatMap((s) => s.points.map((p) => p.value))));
  const x = (t) => left + ((t - from) / (to - from)) * (width - left - right);
  const y = (v) => top + (1 - Math.min(1, v / most)) * (height - top - bottom);
  const times = [...new Set(shown.flatMap((s) => s.points.map((p) => p.at)))].sort((a, b) => a - b);
  const nearest = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const t = from + (((event.clientX - box.left) / box.width) * width - left) / (width - left - right) * (to - from);
    setAt(times.reduce((best, c) => (Math.abs(c - t) < Math.abs(best - t) ? c : best), times[0] ?? null));
  };
  const onKey = (event) => {
    const i = times.indexOf(at);
    const next = { ArrowRight: Math.min(times.length - 1, i + 1), ArrowLeft: i < 0 ? times.length - 1 : Math.max(0, i - 1), Home: 0, End: times.length - 1 }[event.key];
    if (next === undefined) return;
    setAt(times[next]);
    event.preventDefault();
  };
  const value = (s) => s.points.find((p) => p.at === at)?.value;
  return html`<figure class="chart card">
    <figcaption><h3>${title}</h3> <span class="hint">${unit}</span></figcaption>
    ${shown.length === 0 ? html`<p class="empty">Nothing in this time.</p>` : html`
    <svg viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${title}, ${unit}: ${shown.map((s) => `${s.name} up to ${figure(Math.max(...s.points.map((p) => p.value)))}`).join("; ")}. Arrow keys read the values.`}
        tabindex="0" onMouseMove=${nearest} onMouseLeave=${() => setAt(null)} onKeyDown=${onKey}>
      ${[0, 0.5, 1].map((share) => html`<line class="rule" x1=${left} x2=${width - right} y1=${y(share * most)} y2=${y(share * most)} /><text x=${left - 6} y=${y(share * most) + 4} text-anchor="end">${figure(share * most)}</text>`)}
      ${[0, 0.25, 0.5, 0.75, 1].map((share) => html`<text x=${x(from + share * (to - from))} y=${height - 4} text-anchor=${share === 0 ? "start" : share === 1 ? "end" : "middle"}>${clock(from + share * (to - from))}</text>`)}
      ${shown.map((s) => lines(s.points, period).map((line) => (line.length === 1
        ? html`<circle class=${"series s" + s.kind} cx=${x(line[0].at)} cy=${y(line[0].value)} r="2.5" />`
        : html`<polyline class=${"series s" + s.kind} points=${line.map((p) => x(p.at).toFixed(1) + "," + y(p.value).toFixed(1)).join(" ")} />`)))}
      ${at !== null && html`<line class="cursor" x1=${x(at)} x2=${x(at)} y1=${top} y2=${height - bottom} />`}
    </svg>
    <div class="legend">${shown.map((s) => html`<span><i class=${"swatch s" + s.kind} aria-hidden="true"></i>${s.name}${at !== null && value(s) !== undefined ? html` <strong>${figure(value(s))}</strong>` : ""}</span>`)}
      <span class="hint push" role="status">${at !== null ? clock(at) : ""}</span></div>
    <details><summary>As a table</summary><div class="scroll"><table class="list"><caption>${title}, ${unit}</caption>
      <thead><tr><th scope="col">Time</th>${shown.map((s) => html`<th scope="col" class="number">${s.name}</th>`)}</tr></thead>
      <tbody>${times.slice(-60).reverse().map((t) => html`<tr><td>${clock(t)}</td>${shown.map((s) => { const p = s.points.find((q) => q.at === t); return html`<td class="number">${p ? figure(p.value) : ""}</td>`; })}</tr>`)}</tbody>
    </table></div></details>`}
  </figure>`;
}

/** Points for all periods, with 0 where there is none between the first and the last. */
function filled(points, from, to, period) {
  if (points.length === 0) return [];
  const at = new Map(points.map((p) => [p.at, p.value]));
  const all = [];
  for (let t = points[0].at; t <= points.at(-1).at + period / 2; t += period) all.push({ at: t, value: at.get(t) ?? 0 });
  if (points[0].at - period > from) all.unshift({ at: points[0].at - period, value: 0 });
  if (points.at(-1).at + 2 * period < to) all.push({ at: points.at(-1).at + period, value: 0 });
  return all;
}

/** The parts of a line, which has gaps where points are missing. */
function lines(points, period) {
  const parts = [];
  for (const p of points) {
    const last = parts.at(-1);
    if (last && p.at - last.at(-1).at <= period * 1.5) last.push(p);
    else parts.push([p]);
  }
  return parts;
}
