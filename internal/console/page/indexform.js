// The fields of an index, for new tables and for new indexes of a table.
import { html } from "./html.js";

export const keyTypes = [["S", "String"], ["N", "Number"], ["B", "Binary"]];

export const emptyIndex = () => ({ name: "", global: true, hash: { name: "", type: "S" }, range: { name: "", type: "S" }, projection: "ALL", include: "" });

/** An attribute of a key: its name and type. */
export function KeyField({ label, value, onChange, optional }) {
  return html`<div class="row">
    <label class="stack grow">${label}<input class="mono" value=${value.name} required=${!optional} placeholder=${optional ? "none" : ""} spellcheck="false" onInput=${(e) => onChange({ ...value, name: e.target.value })} /></label>
    <label class="stack">Type<select value=${value.type} onChange=${(e) => onChange({ ...value, type: e.target.value })}>${keyTypes.map(([t, name]) => html`<option value=${t}>${name}</option>`)}</select></label>
  </div>`;
}

export function IndexFields({ index, onChange, onlyGlobal }) {
  const set = (change) => onChange({ ...index, ...change });
  return html`<div class="form">
    <div class="row">
      <label class="stack grow">Index name<input class="mono" value=${index.name} required spellcheck="false" onInput=${(e) => set({ name: e.target.value })} /></label>
      ${!onlyGlobal && html`<label class="stack">Kind<select value=${index.global ? "global" : "local"} onChange=${(e) => set({ global: e.target.value === "global" })}><option value="global">global</option><option value="local">local: other sort key</option></select></label>`}
      <label class="stack">Attributes in the index<select value=${index.projection} onChange=${(e) => set({ projection: e.target.value })}><option value="ALL">all</option><option value="KEYS_ONLY">keys only</option><option value="INCLUDE">some</option></select></label>
    </div>
    ${index.global && html`<${KeyField} label="Partition key of the index" value=${index.hash} onChange=${(hash) => set({ hash })} />`}
    <${KeyField} label="Sort key of the index" value=${index.range} optional=${index.global} onChange=${(range) => set({ range })} />
    ${index.projection === "INCLUDE" && html`<label class="stack">Attributes, separated by commas<input class="mono" value=${index.include} onInput=${(e) => set({ include: e.target.value })} /></label>`}
  </div>`;
}

/** The members of the API for an index. */
export function indexInput(index, tableHash, units) {
  const hash = index.global ? index.hash : tableHash;
  const keys = [{ AttributeName: hash.name, KeyType: "HASH" }];
  if (index.range.name) keys.push({ AttributeName: index.range.name, KeyType: "RANGE" });
  const projection = { ProjectionType: index.projection };
  if (index.projection === "INCLUDE") projection.NonKeyAttributes = index.include.split(",").map((n) => n.trim()).filter(Boolean);
  return { IndexName: index.name, KeySchema: keys, Projection: projection, ...(index.global && units && { ProvisionedThroughput: units }) };
}

/** The definitions of attributes of keys, each once. */
export function definitions(...keys) {
  const named = keys.filter((k) => k?.name);
  return [...new Map(named.map((k) => [k.name, { AttributeName: k.name, AttributeType: k.type }])).values()];
}
