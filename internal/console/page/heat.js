// The heat of a table or an index: a map of its hash ranges over time, the hottest keys, and charts.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { go, link, route, tableNames, theme, writing, mayWrite } from "./state.js";
import { call, describe, loadTables, knows } from "./api.js";
import { Problem, count, toast, useAction } from "./ui.js";
import { clock, figure, hotKeys, percent, seconds, spans } from "./watch.js";
import { HeatCharts } from "./heatcharts.js";

const refreshTime = 10_000;
const mostShare = 0.99; // of the cells; a few that are far busier would make all others look cold
const kinds = [
  { name: "both", title: "Read and write", of: (read, write) => read + write, limit: (h) => h.PartitionReadUnits },
  { name: "read", title: "Read units", of: (read) => read, limit: (h) => h.PartitionReadUnits },
  { name: "write", title: "Write units", of: (_, write) => write, limit: (h) => h.PartitionWriteUnits },
];

export default function Heat({ steps: [table, index = ""] }) {
  const [error, setError] = useState(null);
  const [described, setDescribed] = useState(null);
  useEffect(() => {
    loadTables().then((names) => { if (!table && names.length > 0) go("heat", names[0]); }, setError);
  }, []);
  useEffect(() => {
    setDescribed(null);
    setError(null);
    if (table) describe(table, true).then(setDescribed, setError);
  }, [table]);
  const indexes = described?.GlobalSecondaryIndexes ?? [];
  const span = spans.find((s) => s.name === route.value.query) ?? spans[0];
  const choose = (name, of, time = span) => (location.hash = link("heat", ...[name, of].filter(Boolean)) + "?" + encodeURIComponent(time.name));
  return html`<div class="bar">
      <h1>Heat</h1>
      <label><span class="hidden">Table</span><select data-search aria-label="Table" value=${table ?? ""} onChange=${(e) => choose(e.target.value, "")}>
        ${(tableNames.value ?? [table].filter(Boolean)).map((n) => html`<option value=${n}>${n}</option>`)}</select></label>
      <label><span class="hidden">Index</span><select aria-label="Index" value=${index} onChange=${(e) => choose(table, e.target.value)}>
        <option value="">the table itself</option>${indexes.map((i) => html`<option value=${i.IndexName}>${i.IndexName}</option>`)}</select></label>
      <span class="push"></span>
      <div class="segments" role="group" aria-label="Time">${spans.map((s) => html`<button type="button" title=${s.title} aria-pressed=${s === span} onClick=${() => choose(table, index, s)}>${s.name}</button>`)}</div>
    </div>
    <${Problem} error=${error} />
    ${tableNames.value?.length === 0 && html`<p class="empty">There are no tables.</p>`}
    ${table && html`<${Map_} key=${table + "/" + index} table=${table} index=${index} span=${span} />
      <${Keys} key=${"keys" + table + "/" + index} table=${table} index=${index} span=${span} />
      <${HeatCharts} table=${table} index=${index} span=${span} />`}`;
}

/** Reads the heat again and again while the last hour is shown. */
function useHeat(table, index, span) {
  const [found, setFound] = useState({});
  const read = async () => {
    const to = Math.ceil(endpointNow() / 1000);
    try {
      const heat = await call("Stator.GetHeat", { TableName: table, ...(index && { IndexName: index }), StartTime: to - span.minutes * 60, EndTime: to, MaxColumns: 240 });
      setFound({ heat, from: to - span.minutes * 60, to });
    } catch (error) {
      setFound((before) => ({ ...before, error }));
    }
  };
  useEffect(() => {
    read();
    if (span.minutes > 60) return undefined;
    const timer = setInterval(() => { if (!document.hidden && knows("Stator.GetHeat")) read(); }, refreshTime);
    return () => clearInterval(timer);
  }, [table, index, span]);
  return [found, read];
}

function Map_({ table, index, span }) {
  const [{ heat, from, to, error }, read] = useHeat(table, index, span);
  const [kind, setKind] = useState(kinds[0]);
  const [scale, setScale] = useState("most");
  const [zoom, setZoom] = useState(null); // a partition
  const shownTheme = useTheme();
  if (error?.code === "UnknownOperationException") {
    return html`<p class="notice">This endpoint does not count what keys consume: only a stator has a heat map. The charts below are those of CloudWatch.</p>`;
  }
  if (!heat) return error ? html`<${Problem} error=${error} />` : html`<p class="loading" role="status">Reading …</p>`;
  const cells = cellsOf(heat, to);
  const partition = zoom !== null && zoom < heat.Partitions.length ? zoom : null;
  const rates = cells.map((c) => kind.of(c.read, c.write)).filter((r) => r > 0).sort((a, b) => a - b);
  const busiest = rates.at(-1) ?? 0;
  const top = { limit: kind.limit(heat), busiest, most: rates[Math.floor(rates.length * mostShare)] ?? 0 }[scale];
  return html`<section class="card heat" aria-labelledby="heat-map">
    <div class="bar"><h2 id="heat-map">Units by hash range</h2><span class="push"></span>
      <label>Show <select aria-label="Units" value=${kind.name} onChange=${(e) => setKind(kinds.find((k) => k.name === e.target.value))}>${kinds.map((k) => html`<option value=${k.name}>${k.title}</option>`)}</select></label>
      <label>Scale <select aria-label="Scale" value=${scale} onChange=${(e) => setScale(e.target.value)}><option value="most">up to 99 % of the cells</option><option value="busiest">up to the busiest cell</option><option value="limit">up to a partition's limit</option></select></label>
      <label>Zoom <select aria-label="Zoom" value=${partition ?? ""} onChange=${(e) => setZoom(e.target.value === "" ? null : Number(e.target.value))}><option value="">all partitions</option>${heat.Partitions.map((_, i) => html`<option value=${i}>partition ${i + 1}</option>`)}</select></label>
      <button type="button" data-key="r" onClick=${read}>Refresh</button></div>
    <${Problem} error=${error} />
    ${!heat.Counted && html`<p class="notice">This table is not counted by hash range: the server was started with <code>--heat=false</code>, or counts as many tables as it can.</p>`}
    <${Canvas} heat=${heat} cells=${cells} from=${from} to=${to} kind=${kind} top=${top} zoom=${partition} onZoom=${setZoom} span=${span} theme=${shownTheme} />
    <${Legend} kind=${kind} top=${top} over=${busiest > top} theme=${shownTheme} heat=${heat} throttled=${cells.some((c) => c.throttled > 0)} />
    <${AsTable} heat=${heat} cells=${cells} span=${span} from=${from} to=${to} />
    <details><summary>How to read it</summary><ul class="hint-list">
      <li>Keys are hashed: an even texture is an even load, and keys that grow with time make no diagonal.</li>
      <li>A bright line from left to right is a hot key, or a few. The hottest keys are listed below.</li>
      <li>A stripe from top to bottom is a moment in which all keys were busy: a batch job, or a scan, whose units are spread over what it has read.</li>
      <li>Borders are those of the partition model: ${heat.Throttled ? "they limit the requests to this table, and split when they are hot." : "requests to this table are not limited by them; stator serve --throttle applies them."}</li></ul></details>
  </section>`;
}

/** All cells with their rates per second. */
function cellsOf(heat, to) {
  const cells = [];
  for (const column of heat.Columns) {
    const start = seconds(column.Start), length = column.Minutes * 60;
    const elapsed = Math.max(1, Math.min(length, to - start)); // the present minute is not over
    column.Ranges.forEach((range, i) => cells.push({
      start, length, range, readUnits: column.ReadUnits[i], writeUnits: column.WriteUnits[i], read: column.ReadUnits[i] / elapsed, write: column.WriteUnits[i] / elapsed,
      throttled: (column.ReadThrottles?.[i] ?? 0) + (column.WriteThrottles?.[i] ?? 0),
    }));
  }
  return cells;
}

// From cold to hot; each differs from the card of its theme, and lightness changes in one direction.
const palettes = {
  light: [[253, 241, 203], [254, 204, 92], [253, 141, 60], [227, 26, 28], [128, 0, 38], [58, 0, 40]],
  dark: [[43, 32, 74], [92, 28, 110], [158, 40, 100], [220, 75, 62], [251, 155, 6], [252, 255, 164]],
};
const markColors = { light: "#0064d2", dark: "#58c8ff" };

const darkSystem = () => matchMedia("(prefers-color-scheme: dark)");

/** The theme that is shown: the chosen one, or that of the system. */
function useTheme() {
  const [dark, setDark] = useState(darkSystem().matches);
  useEffect(() => {
    const media = darkSystem(), changed = () => setDark(media.matches);
    media.addEventListener("change", changed);
    return () => media.removeEventListener("change", changed);
  }, []);
  return theme.value || (dark ? "dark" : "light");
}

const steps = 20; // colours of the scale, so that a cell can be found in the legend

/** The colour of a share of the scale. Small values stand out by its square root. */
function colorOf(share, palette) {
  const step = Math.min(steps - 1, Math.floor(Math.sqrt(Math.min(1, Math.max(0, share))) * steps));
  const at = (step / (steps - 1)) * (palette.length - 1);
  const i = Math.min(palette.length - 2, Math.floor(at));
  const mix = palette[i].map((c, n) => Math.round(c + (palette[i + 1][n] - c) * (at - i)));
  return `rgb(${mix.join(",")})`;
}

const axis = { left: 44, bottom: 20, top: 4, right: 4 };
const mapHeight = 390;

function Canvas({ heat, cells, from, to, kind, top, zoom, onZoom, span, theme: shownTheme }) {
  const ref = useRef(null);
  const [width, setWidth] = useState(0);
  const [cursor, setCursor] = useState(null); // {at, range}
  const step = heat.Minutes * 60;
  const [low, high] = zoom === null ? [0, 1] : [heat.Partitions[zoom], heat.Partitions[zoom + 1] ?? 1];
  useEffect(() => {
    const box = ref.current.parentElement;
    const watch = new ResizeObserver(() => setWidth(box.clientWidth));
    watch.observe(box);
    return () => watch.disconnect();
  }, []);
  const x = (at) => axis.left + ((at - from) / (to - from)) * (width - axis.left - axis.right);
  const y = (hash) => axis.top + ((hash - low) / (high - low)) * (mapHeight - axis.top - axis.bottom);
  const found = cursor && cells.find((c) => c.range === cursor.range && c.start <= cursor.at && cursor.at < c.start + c.length);
  useEffect(() => {
    if (width === 0) return;
    const canvas = ref.current, ratio = devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = mapHeight * ratio;
    const c = canvas.getContext("2d"), css = getComputedStyle(document.documentElement);
    const text = css.getPropertyValue("--dim"), line = css.getPropertyValue("--line"), strong = css.getPropertyValue("--text");
    c.scale(ratio, ratio);
    c.clearRect(0, 0, width, mapHeight);
    c.save();
    c.beginPath();
    c.rect(axis.left, axis.top, width - axis.left - axis.right, mapHeight - axis.top - axis.bottom);
    c.fillStyle = css.getPropertyValue("--code");
    c.fill();
    c.clip();
    const palette = palettes[shownTheme];
    for (const cell of cells) {
      const value = kind.of(cell.read, cell.write);
      if (value <= 0) continue;
      const left = x(cell.start), above = y(cell.range / heat.Ranges);
      c.fillStyle = colorOf(value / (top || 1), palette);
      c.fillRect(left, above, Math.max(1, x(cell.start + cell.length) - left - 0.3), Math.max(1, y((cell.range + 1) / heat.Ranges) - above));
    }
    c.fillStyle = markColors[shownTheme];
    for (const cell of cells) {
      if (cell.throttled === 0) continue;
      const middle = (x(cell.start) + x(cell.start + cell.length)) / 2, level = y((cell.range + 0.5) / heat.Ranges);
      c.beginPath();
      c.arc(middle, level, 3, 0, 2 * Math.PI);
      c.fill();
    }
    c.restore();
    c.font = "11px system-ui, sans-serif";
    c.textBaseline = "middle";
    c.textAlign = "right";
    const borders = [...heat.Partitions, 1];
    for (let i = 0; i + 1 < borders.length; i++) {
      const begin = Math.max(low, borders[i]), end = Math.min(high, borders[i + 1]);
      if (begin >= end) continue;
      c.strokeStyle = strong;
      c.globalAlpha = 0.55;
      c.setLineDash([4, 3]);
      if (borders[i] > low) {
        c.beginPath();
        c.moveTo(axis.left - 6, Math.round(y(borders[i])) + 0.5);
        c.lineTo(width - axis.right, Math.round(y(borders[i])) + 0.5);
        c.stroke();
      }
      c.setLineDash([]);
      c.globalAlpha = 1;
      c.fillStyle = text;
      if (y(end) - y(begin) > 14) c.fillText("p" + (i + 1), axis.left - 8, (y(begin) + y(end)) / 2);
    }
    c.textBaseline = "alphabetic";
    const ticks = width > 600 ? 6 : 3;
    for (let i = 0; i <= ticks; i++) {
      const at = from + (i / ticks) * (to - from);
      c.textAlign = i === 0 ? "left" : i === ticks ? "right" : "center";
      c.fillStyle = text;
      c.fillText(clock(at), x(at), mapHeight - 5);
    }
    c.strokeStyle = line;
    c.strokeRect(axis.left + 0.5, axis.top + 0.5, width - axis.left - axis.right - 1, mapHeight - axis.top - axis.bottom - 1);
    if (cursor) {
      c.strokeStyle = strong;
      c.lineWidth = 1.5;
      const left = x(cursor.at), above = y(cursor.range / heat.Ranges);
      c.strokeRect(left - 1, above - 1, Math.max(4, x(cursor.at + step) - left + 2), Math.max(4, y((cursor.range + 1) / heat.Ranges) - above + 2));
    }
  }, [width, heat, kind, top, zoom, cursor, shownTheme]);
  const first = Math.floor(low * heat.Ranges), last = Math.min(heat.Ranges - 1, Math.ceil(high * heat.Ranges) - 1);
  const place = (at, range) => setCursor({
    at: Math.min(Math.max(Math.floor(at / step) * step, Math.floor(from / step) * step), Math.floor((to - 1) / step) * step),
    range: Math.min(last, Math.max(first, range)),
  });
  const onMove = (event) => {
    const box = ref.current.getBoundingClientRect();
    const at = from + ((event.clientX - box.left - axis.left) / (width - axis.left - axis.right)) * (to - from);
    const hash = low + ((event.clientY - box.top - axis.top) / (mapHeight - axis.top - axis.bottom)) * (high - low);
    place(at, Math.floor(hash * heat.Ranges));
  };
  const partitionOf = (range) => heat.Partitions.findLastIndex((p) => p <= range / heat.Ranges);
  const hottest = () => cells.filter((c) => c.range >= first && c.range <= last).reduce((a, b) => (a && kind.of(a.read, a.write) >= kind.of(b.read, b.write) ? a : b), null);
  const onKey = (event) => {
    const from_ = cursor ?? { at: to - 1, range: first };
    const rows = event.shiftKey ? 16 : 1;
    switch (event.key) {
      case "ArrowLeft": place(from_.at - step * rows, from_.range); break;
      case "ArrowRight": place(from_.at + step * rows, from_.range); break;
      case "ArrowUp": place(from_.at, from_.range - rows); break;
      case "ArrowDown": place(from_.at, from_.range + rows); break;
      case "Home": place(from, from_.range); break;
      case "End": place(to, from_.range); break;
      case "h": { const c = hottest(); if (c) place(c.start, c.range); break; }
      case "Enter": onZoom(zoom === null ? partitionOf(from_.range) : null); break;
      case "Escape": if (zoom === null) return; onZoom(null); break;
      default: return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  return html`<div class="heat-canvas"><canvas ref=${ref} class="heat-map" tabindex="0" role="application" aria-roledescription="heat map" aria-describedby="heat-keys"
      aria-label=${`Heat map of ${span.title}: ${kind.title.toLowerCase()} by hash range, up to ${figure(top)} a second. A table with the same values follows.`}
      onMouseMove=${onMove} onMouseLeave=${() => { if (document.activeElement !== ref.current) setCursor(null); }} onClick=${() => cursor && onZoom(zoom === null ? partitionOf(cursor.range) : null)} onKeyDown=${onKey}></canvas></div>
    <p class="heat-text" role="status">${cursor ? cellText(cursor, found, heat, step, partitionOf(cursor.range)) : cells.length === 0 ? "Nothing was consumed in this time." : ""}
      <span id="heat-keys" class="hint">${cursor ? "" : "Point at a cell, or focus the map: arrows move (with Shift by 16), h goes to the hottest, Enter or a click zooms to a partition and back."}</span></p>`;
}

function cellText(cursor, cell, heat, step, partition) {
  const start = cell?.start ?? cursor.at, length = cell?.length ?? step;
  const share = (n) => ((n / heat.Ranges) * 100).toFixed(1);
  return html`<strong>${clock(start)}–${clock(start + length)}</strong>, hashes ${share(cursor.range)} to ${share(cursor.range + 1)} %, partition ${partition + 1}:
    ${" "}${cell ? html`<strong>${figure(cell.readUnits)}</strong> read units (${figure(cell.read)}/s), <strong>${figure(cell.writeUnits)}</strong> write units (${figure(cell.write)}/s), <strong>${count(cell.throttled)}</strong> throttled` : "nothing"}`;
}

function Legend({ kind, top, over, theme: shownTheme, heat, throttled }) {
  const ref = useRef(null);
  useEffect(() => {
    const c = ref.current.getContext("2d"), palette = palettes[shownTheme];
    for (let i = 0; i < 200; i++) {
      c.fillStyle = colorOf((i / 200) ** 2, palette); // the square undoes the root: the scale is drawn evenly
      c.fillRect(i, 0, 1, 10);
    }
  }, [shownTheme]);
  return html`<div class="heat-legend">
    <span class="scale"><canvas ref=${ref} width="200" height="10" aria-hidden="true"></canvas>
      <span class="scale-ticks">${[0, 0.25, 0.5, 0.75, 1].map((n) => html`<span>${n === 1 && over ? "≥ " : ""}${figure(n * n * top)}</span>`)}</span></span>
    <span>${kind.title.toLowerCase()}${kind.name === "both" ? " units" : ""} a second, of a range of 1/${heat.Ranges} of the hashes</span>
    <span><i class="mark" aria-hidden="true"></i> ${throttled ? "throttled requests" : "throttled requests: none"}</span>
    <span><i class="border" aria-hidden="true"></i> border of a partition, which serves ${count(heat.PartitionReadUnits)} read and ${count(heat.PartitionWriteUnits)} write units a second</span>
  </div>`;
}

/** The same by partition, with the hottest range of each. */
function AsTable({ heat, cells, span, from, to }) {
  const borders = [...heat.Partitions, 1];
  const rows = useMemo(() => {
    const all = heat.Partitions.map((begin, i) => ({ name: i + 1, begin, end: borders[i + 1], read: 0, write: 0, throttled: 0, peak: null }));
    const minutes = new Map(); // of a partition in a column
    for (const c of cells) {
      const at = heat.Partitions.findLastIndex((p) => p <= c.range / heat.Ranges), p = all[at];
      p.read += c.readUnits;
      p.write += c.writeUnits;
      p.throttled += c.throttled;
      const key = at + "/" + c.start, m = minutes.get(key) ?? { read: 0, write: 0, start: c.start };
      m.read += c.read;
      m.write += c.write;
      minutes.set(key, m);
      m.share = Math.max(m.read / heat.PartitionReadUnits, m.write / heat.PartitionWriteUnits);
      if (!p.peak || m.share > p.peak.share) p.peak = m;
    }
    return all;
  }, [heat]);
  const most = 40;
  const shown = [...rows].sort((a, b) => b.throttled - a.throttled || b.read + b.write - a.read - a.write).slice(0, most);
  return html`<details><summary>As a table</summary><div class="scroll"><table class="list heat-table"><caption>Partitions in ${span.title}, from ${clock(from)} to ${clock(to)}${rows.length > most ? `: the ${most} busiest of ${rows.length}` : ""}</caption>
    <thead><tr><th scope="col">Partition</th><th scope="col">Hashes</th><th scope="col" class="number">Read units</th><th scope="col" class="number">Write units</th><th scope="col" class="number">Throttled</th><th scope="col" class="number">Busiest</th><th scope="col">at</th></tr></thead>
    <tbody>${shown.map((p) => html`<tr><td>${p.name}</td><td>${(p.begin * 100).toFixed(1)} to ${(p.end * 100).toFixed(1)} %</td><td class="number">${figure(p.read)}</td><td class="number">${figure(p.write)}</td><td class="number">${count(p.throttled)}</td>
      <td class="number">${p.peak ? percent(p.peak.share) + " of its limit" : ""}</td><td>${p.peak ? clock(p.peak.start) : ""}</td></tr>`)}</tbody></table></div></details>`;
}

/** What one partition serves, in the units of Contributor Insights: a write unit counts as three read units. */
const weightedLimit = 3000;

function Keys({ table, index, span }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const of = { TableName: table, ...(index && { IndexName: index }) };
  const read = async () => {
    try {
      const now = Math.ceil(endpointNow() / 60_000) * 60;
      const d = await call("DescribeContributorInsights", of);
      const reports = {};
      for (const rule of d.ContributorInsightsRuleList ?? []) {
        const kind = rule.split("-")[1];
        if (d.ContributorInsightsStatus === "ENABLED" && (kind === "PKC" || kind === "PKT")) reports[kind] = await hotKeys(rule, now - Math.min(span.minutes, 1440) * 60, now);
      }
      setFound({ status: d.ContributorInsightsStatus, reports });
      setError(null);
    } catch (err) {
      setError(err);
    }
  };
  useEffect(() => {
    read();
    const timer = setInterval(() => { if (!document.hidden && !error) read(); }, refreshTime);
    return () => clearInterval(timer);
  }, [span]);
  const [enable, busy] = useAction(async () => {
    await call("UpdateContributorInsights", { ...of, ContributorInsightsAction: "ENABLE" });
    toast("Keys are counted from now on.");
    await read();
  });
  const off = found && found.status !== "ENABLED" && found.status !== "ENABLING";
  return html`<section class="card" aria-labelledby="hot-keys"><div class="bar"><h2 id="hot-keys">Hottest keys</h2>
      ${off && html`<span class="push"></span>${mayWrite.value && html`<button type="button" data-key="n" disabled=${!writing.value || busy} title=${writing.value ? "" : "Switch changes on first"} onClick=${enable}>Count keys</button>`}`}</div>
    ${error && (error.code === "UnknownOperationException" ? html`<p class="hint">This endpoint has no Contributor Insights, which count keys.</p>` : html`<${Problem} error=${error} />`)}
    ${off && html`<p>${found.status === "FAILED" ? "Contributor Insights failed: there are as many rules as an account may have." : "Keys of this " + (index ? "index" : "table") + " are not counted: Contributor Insights is off."}</p>`}
    ${found && !off && html`<div class="columns">
      <${KeyTable} title="Consumed most" unit="units" report=${found.reports.PKC} limited empty="No key was accessed in this time." note="A write unit counts as three." />
      <${KeyTable} title="Throttled most" unit="requests" report=${found.reports.PKT} empty="No key was throttled in this time." /></div>`}
  </section>`;
}

function KeyTable({ title, unit, report, limited, empty, note }) {
  if (!report || report.Contributors.length === 0) return html`<div><h3>${title}</h3><p class="hint">${empty}</p></div>`;
  const most = report.Contributors[0].ApproximateAggregateValue;
  return html`<div class="scroll"><table class="list keys-table"><caption><h3>${title}</h3> ${note && html`<span class="hint">${note}</span>`}</caption>
    <thead><tr><th scope="col">Partition key</th><th scope="col" class="number">${unit}</th><th scope="col" class="number">of all</th>${limited && html`<th scope="col" class="number">Busiest minute</th>`}</tr></thead>
    <tbody>${report.Contributors.map((c) => {
      const peak = Math.max(0, ...c.Datapoints.map((d) => d.ApproximateValue)) / 60 / weightedLimit;
      return html`<tr><td class="mono key-name"><span class="key-bar" style=${{ width: Math.max(1, (c.ApproximateAggregateValue / most) * 100) + "%" }} aria-hidden="true"></span>${c.Keys[0]}</td>
        <td class="number">${figure(c.ApproximateAggregateValue)}</td><td class="number">${percent(c.ApproximateAggregateValue / (report.AggregateValue || 1))}</td>
        ${limited && html`<td class=${"number " + (peak >= 1 ? "tone-bad" : peak >= 0.4 ? "tone-warm" : "")}>${percent(peak)} of a partition${peak >= 1 ? ": throttled on AWS" : ""}</td>`}</tr>`;
    })}</tbody></table></div>`;
}
