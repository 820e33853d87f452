// The query builder: source, keys, filters, options.
import { html } from "./html.js";
import { keysOf, indexesOf } from "./schema.js";
import { tests, rangeTests, emptyQuery } from "./request.js";
import { types, textFault } from "./values.js";

const placeholders = { S: "text", N: "number", B: "base64" };

export function QueryBuilder({ table, query, onChange, onRun }) {
  const set = (change) => onChange({ ...query, ...change });
  const keys = keysOf(table, query.index);
  const indexes = indexesOf(table);
  const global = indexes.find((i) => i.IndexName === query.index)?.global;
  const submit = (event) => {
    event.preventDefault();
    onRun();
  };
  const setAt = (list, at, value) => Object.assign([...list], { [at]: value });
  return html`<form class="card builder form" onSubmit=${submit} onKeyDown=${(e) => { if (e.key === "Enter" && e.ctrlKey) submit(e); }}>
    <div class="row">
      <label class="stack">Source
        <select data-search value=${query.index} onChange=${(e) => set({ index: e.target.value, hash: [], range: [] })}>
          <option value="">table ${table.TableName}</option>
          ${indexes.map((i) => html`<option value=${i.IndexName}>${i.global ? "global" : "local"} index ${i.IndexName}</option>`)}
        </select></label>
      ${keys.hash.map((k, i) => html`<label class="stack">${k.name} <${Scalar} type=${k.type} value=${query.hash[i] ?? ""} onInput=${(v) => set({ hash: setAt(query.hash, i, v) })}
        placeholder=${i ? placeholders[k.type] : "any: scans"} /></label>`)}
      ${keys.range.map((k, i) => {
        const r = query.range[i] ?? { op: "=", a: "", b: "" };
        const change = (c) => set({ range: setAt(query.range, i, { ...r, ...c }) });
        return html`<div class="row">
          <label class="stack">${k.name} <select aria-label=${"Test of " + k.name} value=${r.op} onChange=${(e) => change({ op: e.target.value })}>
            ${rangeTests.filter((t) => t !== "begins with" || k.type !== "N").map((t) => html`<option>${t}</option>`)}</select></label>
          <label class="stack"><span class="hint">value</span><${Scalar} type=${k.type} value=${r.a} onInput=${(v) => change({ a: v })} placeholder="any" /></label>
          ${r.op === "between" && html`<label class="stack"><span class="hint">and</span><${Scalar} type=${k.type} value=${r.b} onInput=${(v) => change({ b: v })} placeholder=${placeholders[k.type]} /></label>`}
        </div>`;
      })}
    </div>
    ${query.filters.map((f, i) => html`<${Filter} key=${i} filter=${f} first=${i === 0} any=${query.any} onAny=${(any) => set({ any })}
      onChange=${(v) => set({ filters: setAt(query.filters, i, v) })} onRemove=${() => set({ filters: query.filters.filter((_, n) => n !== i) })} />`)}
    <div class="row middle">
      <button type="button" onClick=${() => set({ filters: [...query.filters, { path: "", op: "=", type: "S", a: "", b: "" }] })}>Add filter</button>
      <details class="options"><summary>Options${optionsText(query, global)}</summary>
        <div class="row middle">
          <label>Only attributes <input value=${query.project} placeholder="all" onInput=${(e) => set({ project: e.target.value })} /></label>
          <label><input type="checkbox" checked=${query.reverse} onChange=${(e) => set({ reverse: e.target.checked })} /> last first</label>
          <label><input type="checkbox" checked=${query.consistent && !global} disabled=${global} onChange=${(e) => set({ consistent: e.target.checked })} /> consistent read</label>
          <label>Page <select value=${String(query.limit)} onChange=${(e) => set({ limit: Number(e.target.value) })}>${[25, 100, 500, 1000].map((n) => html`<option value=${String(n)}>${n}</option>`)}</select></label>
        </div></details>
      <span class="push"></span>
      <button type="button" class="quiet" onClick=${() => onChange({ ...emptyQuery(), limit: query.limit })}>Clear</button>
      <button class="hidden" tabindex="-1">Run</button>
    </div>
  </form>`;
}

function optionsText(q, global) {
  const chosen = [q.project && "some attributes", q.reverse && "last first", q.consistent && !global && "consistent", q.limit !== 100 && `${q.limit} a page`].filter(Boolean);
  return chosen.length ? ": " + chosen.join(", ") : "";
}

/** An input for a string, a number or base64. */
export function Scalar({ type, value, onInput, placeholder, label, search }) {
  const fault = value === "" ? "" : textFault(type, value);
  return html`<input class="scalar mono" data-search=${search || undefined} value=${value} aria-label=${label} aria-invalid=${fault ? "true" : undefined} title=${fault} placeholder=${placeholder ?? placeholders[type]} spellcheck="false" autocomplete="off"
    inputmode=${type === "N" ? "decimal" : undefined} onInput=${(e) => onInput(e.target.value)} />`;
}

const filterTypes = ["S", "N", "B", "BOOL", "NULL"];

function Filter({ filter, first, any, onAny, onChange, onRemove }) {
  const set = (change) => onChange({ ...filter, ...change });
  const test = tests.find((t) => t.op === filter.op);
  return html`<div class="row middle filter">
    ${first ? html`<span class="joint">Filter</span>` : html`<select class="joint" aria-label="How filters are joined" value=${any ? "or" : "and"} onChange=${(e) => onAny(e.target.value === "or")}><option>and</option><option>or</option></select>`}
    <input class="mono" aria-label="Attribute" placeholder="attribute or a.b[0]" value=${filter.path} spellcheck="false" onInput=${(e) => set({ path: e.target.value })} />
    <select aria-label="Test" value=${filter.op} onChange=${(e) => set({ op: e.target.value, a: "", b: "" })}>${tests.map((t) => html`<option>${t.op}</option>`)}</select>
    ${test.typed && html`<select aria-label="Type" value=${filter.a || "S"} onChange=${(e) => set({ a: e.target.value })}>${types.map((t) => html`<option>${t}</option>`)}</select>`}
    ${test.size && html`<${Scalar} label="Size" type="N" value=${filter.a} onInput=${(a) => set({ a })} />`}
    ${!test.typed && !test.size && test.inputs > 0 && html`
      <select aria-label="Type of the value" value=${filter.type} onChange=${(e) => set({ type: e.target.value, a: e.target.value === "BOOL" ? "true" : "" })}>${filterTypes.map((t) => html`<option>${t}</option>`)}</select>
      ${filter.type === "BOOL" ? html`<select aria-label="Value" value=${filter.a} onChange=${(e) => set({ a: e.target.value })}><option>true</option><option>false</option></select>`
        : filter.type !== "NULL" && html`<${Scalar} label="Value" type=${test.list ? "S" : filter.type} value=${filter.a} placeholder=${test.list ? "a, b, c" : undefined} onInput=${(a) => set({ a })} />`}
      ${test.inputs === 2 && html`<span>and</span><${Scalar} label="Second value" type=${filter.type} value=${filter.b ?? ""} onInput=${(b) => set({ b })} />`}`}
    <button type="button" class="quiet" aria-label="Remove filter" onClick=${onRemove}>✕</button>
  </div>`;
}
