// An item as it was at a second, read-only.
import { html, useEffect, useRef, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { mayWrite } from "./state.js";
import { call, callPatiently, unitsOf } from "./api.js";
import { Dialog, units } from "./ui.js";
import { attribute, typeNames, typeOf, typedText } from "./values.js";
import { keyNames } from "./schema.js";
import { CopyAs } from "./copyas.js";
import { Diff, exactText } from "./diff.js";
import { PastProblem, PastProgress, agoText, keyText, pastLink, timeText } from "./past.js";

const operation = "Stator.GetItemAt";
const forms = ["Attributes", "DynamoDB JSON", "Compared with now"];

export default function PastItem({ table, itemKey, at, onClose }) {
  const [shown, setShown] = useState(null); // {item, units}
  const [now, setNow] = useState(null); // {item}
  const [form, setForm] = useState(forms[0]);
  const [error, setError] = useState(null);
  const [progress, setProgress] = useState(null);
  const [showsRequest, setShowsRequest] = useState(false);
  const abort = useRef(new AbortController());
  const input = { TableName: table.TableName, Key: itemKey, AsOf: at };
  const fail = (err) => err.name !== "AbortError" && setError(err);
  useEffect(() => {
    callPatiently(operation, { ...input, ReturnConsumedCapacity: "TOTAL" }, abort.current.signal, setProgress).then((reply) => setShown({ item: reply.Item ?? null, units: unitsOf(reply) }), fail);
    return () => abort.current.abort();
  }, []);
  const choose = (f) => {
    setForm(f);
    if (f === forms[2] && !now) call("GetItem", { TableName: table.TableName, Key: itemKey, ConsistentRead: true }, abort.current.signal).then((reply) => setNow({ item: reply.Item ?? null }), fail);
  };
  const latest = Math.floor(endpointNow() / 1000) - 1;
  return html`<${Dialog} wide title=${keyText(table, itemKey)} onClose=${() => onClose(false)}><div class="form">
    <p class="past-mark"><strong>As of ${timeText(at)}</strong> <span>${agoText(at)}, read-only</span></p>
    <${PastProblem} error=${error} table=${table} operation=${operation} />
    ${!shown && !error && html`<p class="loading" role="status">Reading …</p><${PastProgress} progress=${progress} />`}
    ${shown && html`<div class="row middle" role="group" aria-label="How the item is shown">${forms.map((f) => html`<button type="button" aria-pressed=${f === form} onClick=${() => choose(f)}>${f}</button>`)}
        <span class="hint">read with ${units(shown.units)}</span><span class="push"></span>
        <button type="button" aria-expanded=${showsRequest} onClick=${() => setShowsRequest(!showsRequest)}>Request</button></div>
      ${showsRequest && html`<${CopyAs} request=${{ operation, input }} table=${table} />`}
      ${!shown.item && html`<p class="notice">There was no item with this key.</p>`}
      ${shown.item && form === forms[0] && html`<${Attributes} table=${table} item=${shown.item} />`}
      ${shown.item && form === forms[1] && html`<pre class="wrap" tabindex="0" aria-label="Item as DynamoDB JSON">${typedText(shown.item)}</pre>`}
      ${form === forms[2] && now && (now.item || shown.item) && html`${!now.item && html`<p class="notice">The item does not exist any more.</p>`}<${Diff} before=${shown.item} after=${now.item} titles=${["Then", "Now"]} />`}`}
    <div class="dialog-foot">
      <a class="button" href=${pastLink(table, "history", { key: itemKey })}>History</a>
      ${mayWrite.value && at + 1 <= latest && html`<a class="button" href=${pastLink(table, "undo", { key: itemKey, from: at + 1, to: latest })}>Undo its changes since then …</a>`}
      <span class="push"></span><button type="button" onClick=${() => onClose(false)}>Close</button></div>
  </div><//>`;
}

/** All attributes, keys first. */
function Attributes({ table, item }) {
  const keys = keyNames(table);
  const names = [...keys, ...Object.keys(item).filter((n) => !keys.includes(n)).sort()].filter((n) => attribute(item, n) !== undefined);
  return html`<div class="scroll"><table class="diff plain"><thead><tr><th scope="col">Attribute</th><th scope="col">Type</th><th scope="col">Value</th></tr></thead>
    <tbody>${names.map((n) => html`<tr><th scope="row">${n}${keys.includes(n) && html` <span class="badge">key</span>`}</th><td class="kind">${typeNames[typeOf(item[n])]}</td><td><span class="text">${valueText(item[n])}</span></td></tr>`)}</tbody></table></div>`;
}

const valueText = (value) => (typeOf(value) === "S" ? value.S : typeOf(value) === "B" ? value.B : exactText(value));
