// The dialog that creates a table.
import { html, useState } from "./html.js";
import { go } from "./state.js";
import { call } from "./api.js";
import { Dialog, Problem } from "./ui.js";
import { IndexFields, KeyField, definitions, emptyIndex, indexInput } from "./indexform.js";
import { CopyAs } from "./copyas.js";

export function CreateTable({ onClose }) {
  const [t, setTable] = useState({ name: "", hash: { name: "", type: "S" }, range: { name: "", type: "S" }, mode: "PAY_PER_REQUEST", read: 5, write: 5, protect: false, indexes: [] });
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const set = (change) => setTable({ ...t, ...change });
  const request = { operation: "CreateTable", input: input(t) };
  const create = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await call(request.operation, request.input);
      onClose(true);
      go("table", t.name, "items");
    } catch (err) {
      setError(err);
      setBusy(false);
    }
  };
  const setIndex = (i, index) => set({ indexes: t.indexes.map((x, n) => (n === i ? index : x)) });
  return html`<${Dialog} wide title="Create table" onClose=${() => onClose(false)}>
    <form class="form" onSubmit=${create}>
      <${Problem} error=${error} />
      <label class="stack">Name<input class="mono" name="tableName" value=${t.name} required minlength="3" maxlength="255" pattern="[a-zA-Z0-9_.\\-]+" title="letters, digits, _ . -" spellcheck="false" onInput=${(e) => set({ name: e.target.value })} /></label>
      <div class="columns">
        <${KeyField} label="Partition key" value=${t.hash} onChange=${(hash) => set({ hash })} />
        <${KeyField} label="Sort key" value=${t.range} optional onChange=${(range) => set({ range })} />
      </div>
      <div class="row">
        <label class="stack">Capacity<select value=${t.mode} onChange=${(e) => set({ mode: e.target.value })}><option value="PAY_PER_REQUEST">on demand</option><option value="PROVISIONED">provisioned</option></select></label>
        ${t.mode === "PROVISIONED" && html`<label class="stack">Read units<input type="number" min="1" value=${t.read} onInput=${(e) => set({ read: Number(e.target.value) })} /></label>
          <label class="stack">Write units<input type="number" min="1" value=${t.write} onInput=${(e) => set({ write: Number(e.target.value) })} /></label>`}
        <label><input type="checkbox" checked=${t.protect} onChange=${(e) => set({ protect: e.target.checked })} /> protect from deletion</label>
      </div>
      ${t.indexes.map((index, i) => html`<fieldset key=${i}><legend>Index ${i + 1}</legend><${IndexFields} index=${index} onChange=${(x) => setIndex(i, x)} />
        <button type="button" class="quiet" onClick=${() => set({ indexes: t.indexes.filter((_, n) => n !== i) })}>Remove index</button></fieldset>`)}
      <div><button type="button" onClick=${() => set({ indexes: [...t.indexes, emptyIndex()] })}>Add index</button></div>
      <details><summary>Request</summary><${CopyAs} request=${request} /></details>
      <div class="dialog-foot"><button type="button" onClick=${() => onClose(false)}>Cancel</button><button class="primary" disabled=${busy}>Create table</button></div>
    </form>
  <//>`;
}

function input(t) {
  const units = t.mode === "PROVISIONED" ? { ReadCapacityUnits: t.read, WriteCapacityUnits: t.write } : null;
  const keys = [{ AttributeName: t.hash.name, KeyType: "HASH" }];
  if (t.range.name) keys.push({ AttributeName: t.range.name, KeyType: "RANGE" });
  const global = t.indexes.filter((i) => i.global), local = t.indexes.filter((i) => !i.global);
  return {
    TableName: t.name,
    KeySchema: keys,
    AttributeDefinitions: definitions(t.hash, t.range, ...t.indexes.flatMap((i) => [i.global ? i.hash : null, i.range])),
    BillingMode: t.mode,
    ...(units && { ProvisionedThroughput: units }),
    ...(global.length && { GlobalSecondaryIndexes: global.map((i) => indexInput(i, t.hash, units)) }),
    ...(local.length && { LocalSecondaryIndexes: local.map((i) => indexInput(i, t.hash)) }),
    ...(t.protect && { DeletionProtectionEnabled: true }),
  };
}
