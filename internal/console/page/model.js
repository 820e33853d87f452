// An access-pattern model: its checks, patterns, tables, cost and heat, with another traffic; and the requests that match it.
import { html, useEffect, useRef, useState } from "./html.js";
import { call } from "./api.js";
import { Dialog, Problem, count, useAction } from "./ui.js";
import { clockTime } from "./poll.js";
import { design, designInput, loadDesign, useDesign, isDenied, ChooseModel, ModelProblem } from "./design.js";
import { Day, Machines } from "./diagrams.js";
import { dollars, figure, percent } from "./watch.js";

const settle = 250; // milliseconds after the last change of a field

export default function Model() {
  const d = useDesign();
  const [found, setFound] = useState(null);
  const [problem, setProblem] = useState(null);
  const [editing, setEditing] = useState(false);
  const number = useRef(0);
  useEffect(() => {
    if (!d?.text) {
      setFound(null);
      return undefined;
    }
    const timer = setTimeout(async () => {
      const mine = ++number.current;
      try {
        const reply = await call("Workbench.DescribeModel", designInput(d));
        if (mine === number.current) { setFound(reply); setProblem(null); }
      } catch (err) {
        if (mine === number.current) setProblem(err);
      }
    }, found ? settle : 0);
    return () => clearTimeout(timer);
  }, [d]);
  if (!d) return html`<p class="loading" role="status">Reading …</p>`;
  const page = found?.Page;
  return html`<div class="bar"><h1>${page?.Title ?? "Model"}</h1>${d.name && html`<span class="hint mono">${d.name}</span>`}<span class="push"></span>
      ${d.text && html`<button type="button" data-key="e" onClick=${() => setEditing(true)}>Edit text</button>`}
      ${d.given && html`<button type="button" data-key="r" onClick=${() => loadDesign(true).catch(setProblem)}>Read the file again</button>`}
      <${ChooseModel} label=${d.text ? "Open another file" : "Open a model file"} /></div>
    <${ModelProblem} error=${problem ?? d.error} />
    ${!d.text && !isDenied(d.error) && html`<div class="card"><h2>No model is open</h2><p>A model declares the access patterns of an application: what is read and written by which key, and how often. It is checked,
      priced and heated here by the code that the server charges by. Nothing of it is stored.</p>
      <p>Open a file here, or start the console with one: <code>stator serve --console --model shop.model.yaml</code>. <code>stator model init shop.model.yaml</code> asks some questions and writes a first one.</p></div>`}
    ${found?.Syntax && html`<section class="card"><h2>The text is no model yet</h2><${Faults} faults=${found.Syntax.map((f) => ({ Line: f.position.line, Message: f.message, Try: f.try }))} /></section>`}
    ${page && html`<${Tiles} page=${page} found=${found} d=${d} />
      ${page.Description && html`<p class="lead">${page.Description}</p>`}
      ${(page.Faults?.length > 0 || page.Notes?.length > 0) && html`<section class="card"><h2>Checks</h2><${Faults} faults=${page.Faults ?? []} /><${Faults} faults=${page.Notes ?? []} note /></section>`}
      <${Patterns} found=${found} d=${d} />
      <div class="columns"><${Hot} found=${found} /><${Forecast} d=${d} /></div>
      <${Day} day=${page.Day} />
      <${Machines} machines=${page.Machines} />
      ${page.Tables.map((t, i) => html`<${SingleTable} key=${t.Name} table=${t} entities=${found.Entities} cost=${found.Cost.tables[i]} />`)}
      <${Drift} d=${d} />
      <p class="hint">Prices: ${found.Cost.prices.region}, ${found.Cost.prices.date}, ${found.Cost.prices.currency}. <code>stator model doc</code> writes these documents as files.</p>`}
    ${editing && html`<${Edit} d=${d} onClose=${() => setEditing(false)} />`}`;
}

function Edit({ d, onClose }) {
  const [text, setText] = useState(d.text);
  const apply = (event) => {
    event.preventDefault();
    design.value = { ...d, text };
    onClose();
  };
  return html`<${Dialog} wide title="Text of the model" onClose=${onClose}><form class="form" onSubmit=${apply}>
    <p class="hint">Changes are checked here, and not stored.</p>
    <textarea class="code" rows="26" spellcheck="false" aria-label="Text of the model" value=${text} onInput=${(e) => setText(e.target.value)} onKeyDown=${(e) => { if (e.key === "Enter" && e.ctrlKey) apply(e); }}></textarea>
    <div class="dialog-foot"><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Check</button></div></form><//>`;
}

function Tiles({ page, found, d }) {
  const { Baseline: base, Cost: now } = found;
  const changed = d.times !== 1 || Object.keys(d.rates).length > 0;
  const hottest = found.Heat?.[0]?.share ?? 0;
  const delta = (a, b, write) => (changed && Math.abs(a - b) > 1e-9 * Math.max(a, b) ? html`<span class="delta">was ${write(b)}</span>` : null);
  const tiles = [
    { value: page.Tiles[0].Value, label: page.Tiles[0].Label, tone: page.Tiles[0].Tone },
    { value: dollars(now.dollars), label: now.prices.currency + " a month", was: delta(now.dollars, base.Dollars, dollars) },
    { value: figure(now.read), label: "read units a second", was: delta(now.read, base.Read, figure) },
    { value: figure(now.write), label: "write units a second", was: delta(now.write, base.Write, figure) },
    { value: percent(hottest), label: "of its limit: the hottest partition", tone: tone(hottest), was: delta(hottest, base.Hottest, percent) },
    ...page.Tiles.filter((t) => /^faults?$/.test(t.Label)).map((t) => ({ value: t.Value, label: t.Label, tone: t.Tone })),
  ];
  return html`<div class="tiles">${tiles.map((t) => html`<div class=${"tile card " + (t.tone ? "tone-" + t.tone : "")}><span class="tile-value">${t.value}</span> <span class="tile-label">${t.label}</span> ${t.was}</div>`)}</div>`;
}

const tone = (share) => (share >= 0.8 ? "bad" : share >= 0.4 ? "warm" : "good");

function Faults({ faults, note }) {
  if (!faults?.length) return null;
  return html`<ul class="faults">${faults.map((f) => html`<li><span class=${"badge " + (note ? "" : "scan")}>${note ? "note" : "fault"}</span> ${f.Line > 0 && html`<span class="hint">line ${f.Line}</span> `}${f.About && html`<strong>${f.About}</strong>: `}${f.Message}${f.Try && html`<br /><span class="hint">${f.Try}</span>`}</li>`)}</ul>`;
}

function Patterns({ found, d }) {
  const page = found.Page;
  const changed = d.times !== 1 || Object.keys(d.rates).length > 0;
  const setTimes = (times) => (design.value = { ...d, times });
  const setRate = (name, text) => {
    const rates = { ...d.rates };
    if (text.trim() === "") delete rates[name];
    else rates[name] = text.trim();
    design.value = { ...d, rates };
  };
  return html`<section class="card" aria-labelledby="patterns"><div class="bar"><h2 id="patterns">Access patterns</h2><span class="push"></span>
      <label>What if all traffic were × <input class="times" type="number" min="0" max="1000000" step="any" aria-label="Multiple of all traffic" value=${d.times} onInput=${(e) => e.target.value !== "" && setTimes(Number(e.target.value))} /></label>
      <input type="range" min="-1" max="3" step="0.1" aria-label="Multiple of all traffic, as a slider" aria-valuetext=${"times " + d.times} value=${Math.log10(Math.max(0.1, d.times))} onInput=${(e) => setTimes(Number((10 ** Number(e.target.value)).toPrecision(2)))} />
      <button type="button" disabled=${!changed} onClick=${() => (design.value = { ...d, times: 1, rates: {} })}>As declared</button></div>
    <div class="scroll"><table class="list patterns"><thead><tr><th scope="col">Pattern</th><th scope="col">Served by</th><th scope="col">Rate</th><th scope="col" class="number">Read</th><th scope="col" class="number">Write</th><th scope="col" class="number">a month</th><th scope="col" class="number">Share</th></tr></thead>
      ${page.Groups.map((g) => html`<tbody>${g.Name && html`<tr><th scope="rowgroup" colspan="7" class="group">${g.Name}</th></tr>`}
        ${g.Patterns.map((p) => html`<${Pattern} key=${p.Name} p=${p} base=${found.Baseline} rate=${d.rates[p.Name]} onRate=${(text) => setRate(p.Name, text)} />`)}</tbody>`)}
    </table></div></section>`;
}

function Pattern({ p, base, rate, onRate }) {
  const [open, setOpen] = useState(false);
  const [text, setText] = useState(rate ?? "");
  useEffect(() => { if (rate === undefined) setText(""); }, [rate]);
  const valid = text === "" || /^\s*[\d.]+\s*\/\s*(s|second|min|minute|h|hour|d|day|week|month|y|year)\s*$/.test(text);
  const declared = base.Rates[p.Name];
  return html`<tr>
      <td><button type="button" class="link" aria-expanded=${open} onClick=${() => setOpen(!open)}>${p.Name}</button>
        ${p.Status !== "ok" && html` <span class="badge scan">${p.Status}</span>`}${p.Description && html`<br /><span class="hint">${p.Description}</span>`}</td>
      <td>${p.By ? html`<span class="mono">${p.By}</span>` : "nothing"}</td>
      <td><input class=${"rate mono" + (valid ? "" : " wrong")} aria-label=${"Rate of " + p.Name} aria-invalid=${!valid} placeholder=${p.Rate || declared || "none"} value=${text} title=${p.Peak ? "peak " + p.Peak : ""}
        onInput=${(e) => { const v = e.target.value; setText(v); if (v.trim() === "" || /^\s*[\d.]+\s*\/\s*(s|second|min|minute|h|hour|d|day|week|month|y|year)\s*$/.test(v)) onRate(v); }} /></td>
      <td class="number">${p.Read}</td><td class="number">${p.Write}</td><td class="number">${p.Dollars === "-" ? "–" : "$" + p.Dollars}</td>
      <td class="number share-cell"><span class="share-bar" style=${{ width: Math.round(p.Share * 60) + "px" }} aria-hidden="true"></span> ${percent(p.Share)}</td>
    </tr>
    ${open && html`<tr class="detail"><td colspan="7"><p>${p.Summary}${p.Peak ? `; at its peak ${p.Peak}` : ""}</p><${Faults} faults=${p.Faults} />
      ${(p.Requests ?? []).map((r) => html`<h3>${r.Operation}</h3><pre class="request" tabindex="0" aria-label=${r.Operation}>${r.Body}</pre>`)}</td></tr>`}`;
}

function Hot({ found }) {
  const bars = found.Page.Heat ?? [];
  return html`<section class="card" aria-labelledby="model-heat"><h2 id="model-heat">Busiest partition keys at the peak</h2>
    ${bars.length === 0 ? html`<p class="hint">No pattern has a rate.</p>` : html`<div class="scroll"><table class="list bars"><thead><tr><th scope="col">Key</th><th scope="col" class="number">Reads/s</th><th scope="col" class="number">Writes/s</th><th scope="col">of what a partition serves</th></tr></thead>
      <tbody>${bars.map((b) => html`<tr><td class="mono" title=${(b.Patterns ?? []).join(", ")}>${b.Key}<br /><span class="hint">${b.Place}${b.Shards > 1 ? `: shard it by ${b.Shards}` : ""}</span></td><td class="number">${b.Reads}</td><td class="number">${b.Writes}</td>
        <td><span class="meter-bar"><span class=${"tone-" + b.Tone} style=${{ width: Math.min(100, Math.max(0.5, b.Share * 100)) + "%" }}></span></span> ${percent(b.Share)}</td></tr>`)}</tbody></table></div>`}</section>`;
}

function Forecast({ d }) {
  const [minutes, setMinutes] = useState(5);
  const [peak, setPeak] = useState(1);
  const [found, setFound] = useState(null);
  const [run, busy] = useAction(async (event) => {
    event.preventDefault();
    setFound({ of: d, forecast: await call("Workbench.GetForecast", { ...designInput(d), Seconds: minutes * 60, Peak: peak, Seed: 1 }) });
  });
  const f = found?.forecast;
  return html`<section class="card" aria-labelledby="forecast"><h2 id="forecast">Would it be throttled?</h2>
    <form class="row" onSubmit=${run}><label>Play <input type="number" min="1" max="30" value=${minutes} aria-label="Minutes" onInput=${(e) => setMinutes(Number(e.target.value))} /> minutes</label>
      <label>of <input type="number" min="0.1" max="1000" step="any" value=${peak} aria-label="Multiple of the peak" onInput=${(e) => setPeak(Number(e.target.value))} /> × the peak</label>
      <button class="primary" disabled=${busy}>${busy ? "Playing …" : "Play"}</button></form>
    ${f && html`${found.of !== d && html`<p class="hint">This is of the traffic before your last change.</p>`}
      <p role="status">${f.throttled === 0 ? html`<span class="badge query">Nothing is throttled</span>` : html`<span class="badge scan">${count(Math.round(f.throttled))} requests are throttled</span>`} of ${figure(f.perSecond)} runs a second for ${f.seconds / 60} minutes${f.weight > 1.5 ? html`, each simulated run standing for ${figure(f.weight)}` : ""}.</p>
      <div class="scroll"><table class="list"><thead><tr><th scope="col">Table or index</th><th scope="col">Units</th><th scope="col" class="number">Asked/s</th><th scope="col" class="number">Served/s</th><th scope="col" class="number">Throttled</th><th scope="col" class="number">Busiest partition</th></tr></thead>
      <tbody>${f.resources.slice(0, 12).map((r) => html`<tr><td>${r.table}${r.index ? "." + r.index : ""}</td><td>${r.units}</td><td class="number">${figure(r.asked)}</td><td class="number">${figure(r.served)}</td><td class="number">${count(Math.round(r.throttled))}</td><td class=${"number tone-" + tone(r.busiest.share)}>${percent(r.busiest.share)}</td></tr>
        ${r.advice?.length > 0 && html`<tr class="detail"><td colspan="6"><ul class="hint-list">${r.advice.map((a) => html`<li>${a.text}</li>`)}</ul></td></tr>`}`)}</tbody></table></div>`}
    ${!f && html`<p class="hint">The traffic at its peak is played against the limits of tables, indexes and partitions, in virtual time.</p>`}</section>`;
}

/** The number of the colour of an entity. There are eight; later ones begin again. */
const colorOf = (entities, name) => "e" + (entities.indexOf(name) % 8);

function SingleTable({ table, entities, cost }) {
  const grids = [{ name: "", title: "the table", grid: table.Grid, facts: table.Facts, patterns: table.Patterns }, ...(table.Indexes ?? []).map((x) => ({ name: x.Name, title: x.Name, grid: x.Grid, facts: x.Facts, patterns: x.Patterns }))];
  const [shown, setShown] = useState("");
  const [only, setOnly] = useState("");
  const of = grids.find((g) => g.name === shown) ?? grids[0];
  const rows = (of.grid.Rows ?? []).filter((r) => !only || r.Entity === only);
  const names = [...new Set(grids.flatMap((g) => (g.grid.Rows ?? []).map((r) => r.Entity)))];
  return html`<section class="card" aria-label=${"Table " + table.Name}><div class="bar"><h2>${table.Name}</h2><span class="hint">${(of.facts ?? []).map((f) => `${f.Name}: ${f.Value}`).join("; ")}; ${dollars(cost.dollars)} a month</span><span class="push"></span>
      ${grids.length > 1 && html`<div class="segments" role="group" aria-label=${"View of " + table.Name}>${grids.map((g) => html`<button type="button" aria-pressed=${g === of} onClick=${() => setShown(g.name)}>${g.title}</button>`)}</div>`}</div>
    <div class="entities" role="group" aria-label=${"Kinds of items of " + table.Name}>${names.map((n) => html`<button type="button" class=${"entity " + colorOf(entities, n)} aria-pressed=${only === n} onClick=${() => setOnly(only === n ? "" : n)}>${n}</button>`)}</div>
    <div class="scroll"><table class="list single"><thead><tr><th scope="col">Item</th>${(of.grid.Keys ?? []).map((k) => html`<th scope="col">${k}</th>`)}<th scope="col">Attributes</th></tr></thead>
      <tbody>${rows.map((r) => html`<tr class=${colorOf(entities, r.Entity)}><th scope="row" class="entity-cell">${r.Entity}</th>
        ${(r.Keys ?? []).map((c) => html`<td class=${"mono " + (c.Partition ? "partition" : "")} title=${c.Whole}>${c.Text}</td>`)}
        <td class="attributes">${(r.Cells ?? []).map((c) => html`<span class="attribute" title=${c.Whole}><span class="hint">${c.Name}</span> <span class="mono">${c.Text}</span></span>`)}</td></tr>`)}</tbody></table></div>
    ${rows.length === 0 && html`<p class="hint">No example is there.</p>`}
    ${of.patterns?.length > 0 && html`<p class="hint">Serves ${of.patterns.map((p) => p.Name).join(", ")}.</p>`}</section>`;
}

const statusTone = { ok: "good", never: "", shared: "good", unmeasured: "warm", wasteful: "bad", expensive: "bad" };

function Drift({ d }) {
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [hour, setHour] = useState(false);
  const read = async () => {
    try {
      const traffic = await call("Stator.GetShapes", hour ? { LastHour: true } : {});
      setFound(await call("Workbench.GetDrift", { Name: d.name, Text: d.text, Traffic: traffic }));
      setError(null);
    } catch (err) {
      setError(err);
    }
  };
  useEffect(() => {
    const timer = setTimeout(read, settle);
    return () => clearTimeout(timer);
  }, [d.text, hour]);
  if (error?.code === "UnknownOperationException") return html`<section class="card"><h2>Drift</h2><p class="hint">This endpoint does not count requests by shape: only a stator can be compared with a model.</p></section>`;
  return html`<section class="card" aria-labelledby="drift"><div class="bar"><h2 id="drift">Drift: real requests and the model</h2><span class="push"></span>
      <div class="segments" role="group" aria-label="Requests"><button type="button" aria-pressed=${!hour} onClick=${() => setHour(false)}>since the start</button><button type="button" aria-pressed=${hour} onClick=${() => setHour(true)}>the last hour</button></div><button type="button" onClick=${read}>Compare again</button></div>
    <${Problem} error=${error} />
    ${found && html`<p class="hint">Requests since ${clockTime(Date.parse(found.since) / 1000)}.${found.elsewhere > 0 ? ` ${count(found.elsewhere)} went to tables that the model does not have.` : ""}${found.uncounted > 0 ? ` ${count(found.uncounted)} had more shapes than are counted.` : ""}</p>
      ${found.strays.length > 0 ? html`<h3>No pattern matches these</h3><div class="scroll"><table class="list strays"><thead><tr><th scope="col">Request</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Units</th><th scope="col">Closest pattern</th></tr></thead>
        <tbody>${found.strays.slice(0, 50).map((s) => html`<tr><td class="mono">${shapeText(s)}</td><td class="number">${count(s.requests)}</td><td class="number">${figure(s.units)}</td><td>${s.near ? html`${s.near}<br /><span class="hint">${s.differs}</span>` : "none"}</td></tr>`)}</tbody></table></div>
        ${found.strays.length > 50 && html`<p class="hint">${count(found.strays.length - 50)} more.</p>`}`
      : html`<p><span class="badge query">Every request to these tables matches a pattern</span></p>`}
      <h3>Patterns</h3><div class="scroll"><table class="list drift-patterns"><thead><tr><th scope="col">Pattern</th><th scope="col">Status</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Returned</th><th scope="col" class="number">Read</th><th scope="col" class="number">Units a run</th><th scope="col" class="number">Predicted</th></tr></thead>
        <tbody>${found.patterns.map((p) => html`<tr><td>${p.name}</td><td><span class=${"tone-" + statusTone[p.status]}>${p.status === "never" ? "never requested" : p.status}</span>${p.shared?.length > 0 && html` <span class="hint">or ${p.shared.join(", ")}</span>`}</td>
          <td class="number">${count(p.requests)}</td><td class="number">${count(p.returned)}</td><td class="number">${count(p.scanned)}</td><td class="number">${p.units === null ? "–" : figure(p.units)}</td><td class="number">${figure(p.predicted)}</td></tr>`)}</tbody></table></div>`}</section>`;
}

/** A shape in one line. */
export function shapeText(s) {
  const parts = [s.statement ? s.operation + " (PartiQL)" : s.operation, s.table + (s.index ? "." + s.index : "")];
  if (s.form) parts.push(s.form);
  if (s.partition || s.sort) parts.push("key " + [s.partition || "…", s.sort].filter(Boolean).join(" / "));
  if (s.filterText) parts.push("filter " + s.filterText);
  if (s.conditionText) parts.push("if " + s.conditionText);
  if (s.changes) parts.push("changes " + s.changes);
  if (s.consistent) parts.push("consistent");
  return parts.join(" · ");
}
