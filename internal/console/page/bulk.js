// Changes and deletes of many items: first a preview with a count, then the work with its progress.
import { html, useEffect, useRef, useState } from "./html.js";
import { callPatiently, allPages, unitsOf } from "./api.js";
import { Dialog, Problem, count, itemsText, units } from "./ui.js";
import { keyNames, keyOf, keysOf } from "./schema.js";
import { summary, attribute, valueFault } from "./values.js";
import { Placeholders, scalar } from "./request.js";
import { Scalar } from "./builder.js";
import { CopyAs } from "./copyas.js";

const atOnce = 8;
const examples = 10;

/** Deletes the selected items, or all that match a request. */
export const BulkDelete = (props) => html`<${Bulk} ...${props} title="Delete items" verb="Delete" />`;

/** Changes an attribute of the selected items, or of all that match a request. */
export const BulkEdit = (props) => html`<${Bulk} ...${props} title="Edit items" verb="Change" edits />`;

function Bulk({ table, request, items, title, verb, edits, onClose }) {
  const [found, setFound] = useState({ matching: 0, units: 0, sample: [], whole: false });
  const [change, setChange] = useState({ action: "set", path: "", type: "S", text: "" });
  const [typed, setTyped] = useState("");
  const [work, setWork] = useState(null);
  const [error, setError] = useState(null);
  const abort = useRef(new AbortController());
  const selection = items.length > 0;

  const preview = async () => {
    if (selection) return setFound({ matching: items.length, units: 0, sample: items.slice(0, examples), whole: true });
    const seen = { matching: 0, units: 0, sample: [], whole: false };
    for await (const page of allPages(request.operation, request.input, abort.current.signal)) {
      seen.matching += page.Count;
      seen.units += unitsOf(page);
      seen.sample.push(...page.Items.slice(0, examples - seen.sample.length));
      setFound({ ...seen, sample: [...seen.sample] });
    }
    return setFound({ ...seen, whole: true });
  };
  useEffect(() => {
    preview().catch((err) => err.name !== "AbortError" && setError(err));
    return () => abort.current.abort();
  }, []);

  let make, fault = "";
  try {
    make = writer(table, selection ? null : request.input, edits ? change : null);
  } catch (err) {
    fault = err.message;
  }

  const start = async () => {
    const done = { changed: 0, skipped: 0, units: 0, over: false };
    const show = () => setWork({ ...done });
    show();
    const signal = abort.current.signal;
    const one = async (item) => {
      const { operation, input } = make(item);
      try {
        const reply = await callPatiently(operation, { ...input, ReturnConsumedCapacity: "TOTAL" }, signal);
        done.units += unitsOf(reply); // not in one expression with await: other workers add to it, too
        done.changed++;
      } catch (err) {
        if (err.code !== "ConditionalCheckFailedException") throw err;
        done.skipped++;
      }
    };
    const many = async (list) => {
      const waiting = [...list];
      const worker = async () => {
        for (let item; (item = waiting.shift()); ) {
          await one(item);
          if ((done.changed + done.skipped) % 20 === 0) show();
        }
      };
      await Promise.all(Array.from({ length: atOnce }, worker));
      show();
    };
    try {
      if (selection) await many(items);
      else
        for await (const page of allPages(request.operation, request.input, signal)) {
          done.units += unitsOf(page);
          await many(page.Items);
        }
    } catch (err) {
      abort.current.abort(); // the other workers stop, too
      if (err.name !== "AbortError") setError(err);
    }
    done.over = true;
    show();
  };

  const confirmed = found.matching <= 1 || typed === String(found.matching);
  const first = make && found.sample.length > 0 ? make(found.sample[0]) : null;
  return html`<${Dialog} wide title=${title} onClose=${() => onClose(!!work)}>
    <div class="form bulk">
      <${Problem} error=${error} />
      ${edits && !work && html`<${ChangeForm} change=${change} onChange=${setChange} />`}
      <p class="counted" role="status"><strong>${count(found.matching)}</strong> ${selection ? "selected" : "matching"} ${found.matching === 1 ? "item" : "items"}${!found.whole ? ", still counting …" : ""}
        ${!selection && html`<span class="hint"> counted with ${units(found.units)}</span>`}</p>
      ${found.sample.length > 0 && !work && html`<div class="scroll"><table class="list"><caption class="hint">The first ${found.sample.length}</caption>
        <tbody>${found.sample.map((item) => html`<tr>${keyNames(table).map((k) => html`<td class="mono">${summary(attribute(item, k), 60)}</td>`)}<td class="mono hint">${others(table, item)}</td></tr>`)}</tbody></table></div>`}
      ${first && !work && html`<details><summary>Request for the first item</summary><${CopyAs} request=${first} table=${table} /></details>`}
      ${!work && html`<p class="hint">${selection ? "Each item is written only if it still exists." : "Each item is written only if it still matches when it is written."} Items are written one by one, not in one transaction.</p>`}
      ${work && html`<p role="status" class="result"><strong>${count(work.changed)}</strong> ${edits ? "changed" : "deleted"}, <strong>${count(work.skipped)}</strong> skipped because they did not match any more, ${units(work.units)}${work.over ? "." : " …"}</p>
        <progress max=${Math.max(1, found.matching)} value=${work.over ? Math.max(1, found.matching) : work.changed + work.skipped} aria-label="Progress"></progress>`}
      <div class="dialog-foot">
        ${!work && fault && change.path && html`<span class="invalid">${fault}</span>`}
        ${!work && found.matching > 1 && html`<label>Type ${found.matching} to confirm <input class="confirm" value=${typed} inputmode="numeric" onInput=${(e) => setTyped(e.target.value.trim())} /></label>`}
        ${work && !work.over ? html`<button type="button" onClick=${() => abort.current.abort()}>Stop</button>` : html`<button type="button" onClick=${() => onClose(!!work)}>${work ? "Close" : "Cancel"}</button>`}
        ${!work && html`<button type="button" class="danger start" disabled=${!found.whole || !make || found.matching === 0 || !confirmed} onClick=${start}>${verb} ${itemsText(found.matching)}</button>`}
      </div>
    </div>
  <//>`;
}

function others(table, item) {
  const keys = keyNames(table);
  return Object.keys(item).filter((n) => !keys.includes(n)).slice(0, 4).map((n) => `${n}: ${summary(item[n], 24)}`).join(", ");
}

function ChangeForm({ change, onChange }) {
  const set = (c) => onChange({ ...change, ...c });
  return html`<div class="row">
    <label class="stack">Change <select value=${change.action} onChange=${(e) => set({ action: e.target.value, ...(e.target.value === "add" && { type: "N" }) })}>
      <option value="set">set</option><option value="add">add a number to</option><option value="remove">remove</option></select></label>
    <label class="stack grow">Attribute <input class="mono path" value=${change.path} placeholder="attribute or a.b[0]" spellcheck="false" onInput=${(e) => set({ path: e.target.value })} /></label>
    ${change.action === "set" && html`<label class="stack">Type <select value=${change.type} onChange=${(e) => set({ type: e.target.value, text: e.target.value === "BOOL" ? "true" : "" })}>
      ${["S", "N", "B", "BOOL", "NULL"].map((t) => html`<option>${t}</option>`)}<option value="JSON">DynamoDB JSON</option></select></label>`}
    ${change.action !== "remove" && change.type !== "NULL" && html`<label class="stack grow">Value ${change.type === "BOOL"
      ? html`<select value=${change.text} onChange=${(e) => set({ text: e.target.value })}><option>true</option><option>false</option></select>`
      : html`<${Scalar} type=${change.type === "JSON" ? "S" : change.type} value=${change.text} placeholder=${change.type === "JSON" ? '{"SS": ["a"]}' : undefined} onInput=${(text) => set({ text })} />`}</label>`}
  </div>`;
}

function changedValue(change) {
  if (change.type !== "JSON") return scalar(change.type, change.text);
  let value;
  try {
    value = JSON.parse(change.text);
  } catch {
    throw new Error('The value is not JSON such as {"SS": ["a"]}.');
  }
  const fault = valueFault(value, "The value");
  if (fault) throw new Error(fault);
  return value;
}

/**
 * Returns what makes the request for an item. Its condition is that the item exists and, if read is given, still matches
 * that request.
 */
export function writer(table, read, change) {
  const used = new Placeholders();
  const keys = keyNames(table);
  let update;
  if (change) {
    const path = used.path(change.path);
    if (keys.includes(used.names.keys().next().value)) throw new Error("A key cannot be changed.");
    const value = change.action !== "remove" && used.value(changedValue(change));
    update = { set: `SET ${path} = ${value}`, add: `ADD ${path} ${value}`, remove: `REMOVE ${path}` }[change.action];
  }
  const tests = [`attribute_exists(${used.name(keys[0])})`];
  const rename = (text) => text.replace(/[#:]\w+/g, (p) => (p[0] === "#" ? used.name(read.ExpressionAttributeNames[p]) : used.value(read.ExpressionAttributeValues[p])));
  // The key of an index is made of attributes that can change; that of the table cannot. An item without one of them is not in the index.
  if (read?.IndexName) {
    const { hash, range } = keysOf(table, read.IndexName);
    tests.push(...[...hash, ...range].filter((k) => !keys.includes(k.name)).map((k) => `attribute_exists(${used.name(k.name)})`));
  }
  if (read?.IndexName && read.KeyConditionExpression) tests.push(rename(read.KeyConditionExpression));
  if (read?.FilterExpression) tests.push(`(${rename(read.FilterExpression)})`);
  const common = used.addTo({ TableName: table.TableName, ConditionExpression: tests.join(" AND ") });
  return (item) => {
    const { TableName, ...rest } = common;
    return { operation: update ? "UpdateItem" : "DeleteItem", input: { TableName, Key: keyOf(table, item), ...(update && { UpdateExpression: update }), ...rest } };
  };
}

