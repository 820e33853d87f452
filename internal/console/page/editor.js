// The editor of one item. It saves the attributes that were changed, on the condition that they still are as they were shown.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { writing } from "./state.js";
import { call, unitsOf } from "./api.js";
import { Dialog, Problem, toast, units, useAction } from "./ui.js";
import { keyNames, keyOf, keysOf } from "./schema.js";
import { attribute, itemFault, same, summary, types, typeNames, typedText, base64Fault, base64Length } from "./values.js";
import { hasFault, isNested, isSet, newNode, newPart, nodeFault, nodeOf, partType, valueOf } from "./node.js";
import { Placeholders } from "./request.js";
import { CopyAs } from "./copyas.js";
import { pastLink } from "./past.js";

/** Edits the item with a key, or a new item: a copy of item, or one with a key only. */
export default function Editor({ table, itemKey, item = null, onClose }) {
  const [shown, setShown] = useState(itemKey ? null : { before: null, item: item ?? emptyItem(table), units: 0 });
  const [error, setError] = useState(null);
  const read = () => call("GetItem", { TableName: table.TableName, Key: itemKey, ConsistentRead: true, ReturnConsumedCapacity: "TOTAL" }).then((reply) => {
    if (!reply.Item) throw new Error("This item does not exist any more.");
    setShown({ before: reply.Item, item: reply.Item, units: unitsOf(reply) });
  }).catch(setError);
  useEffect(() => {
    if (itemKey) read();
  }, []);
  const title = shown && !shown.before ? "New item" : keyNames(table).map((k) => summary(attribute(itemKey ?? {}, k) ?? { S: "" }, 60)).join(" · ");
  return html`<${Dialog} wide title=${title} onClose=${() => onClose(false)}>
    <${Problem} error=${error} />
    ${!shown && !error && html`<p class="loading" role="status">Reading …</p>`}
    ${shown && html`<${Form} key=${shown.number ?? 0} table=${table} shown=${shown} onClose=${onClose} onShow=${(s) => setShown({ ...s, number: (shown.number ?? 0) + 1 })} />`}
  <//>`;
}

/** An item with its key only. */
const emptyItem = (table) => {
  const { hash, range } = keysOf(table);
  return Object.fromEntries([...hash, ...range].map((k) => [k.name, { [k.type]: "" }]));
};

function Form({ table, shown, onClose, onShow }) {
  const { before, item } = shown;
  const [root, setRoot] = useState(() => inOrder(table, nodeOf({ M: item })));
  const [text, setText] = useState(null); // of the JSON editor; null in the form
  const [conflict, setConflict] = useState(null);
  const [showsRequest, setShowsRequest] = useState(false);
  const keys = keyNames(table);

  const edited = useMemo(() => {
    if (text === null) return hasFault(root) ? { fault: nodeFault(root) || "A value is not valid." } : { item: valueOf(root).M };
    try {
      const parsed = JSON.parse(text);
      const fault = itemFault(parsed);
      return fault ? { fault } : { item: parsed };
    } catch (err) {
      return { fault: "This is not JSON: " + err.message };
    }
  }, [root, text]);
  const request = useMemo(() => (edited.item ? saveRequest(table, before, edited.item) : null), [edited]);
  const missing = edited.item && keys.find((k) => attribute(edited.item, k) === undefined);
  const moved = before && edited.item && keys.find((k) => !same(attribute(edited.item, k), before[k]));
  const fault = edited.fault || (missing && `The key ${missing} is missing.`) || (moved && `The key ${moved} cannot change: duplicate the item instead.`) || "";

  const [save, saving] = useAction(async () => {
    if (fault || !request) return;
    try {
      const reply = await call(request.operation, { ...request.input, ReturnConsumedCapacity: "TOTAL" });
      toast(`Saved, ${units(unitsOf(reply))}.`);
      onClose(true);
    } catch (err) {
      if (err.code !== "ConditionalCheckFailedException") throw err;
      setConflict({ theirs: err.reply.Item ?? null });
    }
  });
  const [remove, removing] = useAction(async () => {
    try {
      const reply = await call("DeleteItem", { ...deleteRequest(table, before).input, ReturnConsumedCapacity: "TOTAL" });
      toast(`Deleted, ${units(unitsOf(reply))}.`);
      onClose(true);
    } catch (err) {
      if (err.code !== "ConditionalCheckFailedException") throw err;
      setConflict({ theirs: err.reply.Item ?? null });
    }
  });
  const [sure, setSure] = useState(false);

  const toText = () => {
    if (text === null) setText(typedText(edited.item ?? item));
    else if (edited.item) {
      setRoot(inOrder(table, nodeOf({ M: edited.item })));
      setText(null);
    }
  };
  if (conflict) return html`<${Conflict} table=${table} before=${before} mine=${edited.item ?? before} theirs=${conflict.theirs} onBack=${() => setConflict(null)}
    onTheirs=${() => onShow({ before: conflict.theirs, item: conflict.theirs, units: 0 })}
    onMerge=${() => onShow({ before: conflict.theirs, item: merged(before, edited.item ?? before, conflict.theirs), units: 0 })} onClose=${onClose} />`;
  return html`<div class="form" onKeyDown=${(e) => { if (e.key === "Enter" && e.ctrlKey && writing.value) { e.preventDefault(); save(); } }}>
    <div class="row middle">
      <button type="button" aria-pressed=${text === null} disabled=${text !== null && !edited.item} onClick=${() => text !== null && toText()}>Form</button>
      <button type="button" aria-pressed=${text !== null} disabled=${text === null && !edited.item} onClick=${() => text === null && toText()}>DynamoDB JSON</button>
      <span class="hint">${before ? `read with ${units(shown.units)}` : "saved only if no item has its key"}</span>
      <span class="push"></span>
      <button type="button" aria-expanded=${showsRequest} disabled=${!request} onClick=${() => setShowsRequest(!showsRequest)}>Request</button>
    </div>
    ${text === null
      ? html`<${Parts} node=${root} depth=${0} fixed=${before ? keys : []} keys=${keys} onChange=${setRoot} />`
      : html`<textarea class="code" rows="20" aria-label="Item as DynamoDB JSON" aria-invalid=${edited.fault ? "true" : undefined} spellcheck="false" value=${text} onInput=${(e) => setText(e.target.value)}></textarea>`}
    ${fault && html`<p class="invalid" role="alert">${fault}</p>`}
    ${showsRequest && request && html`<${CopyAs} request=${request} table=${table} />`}
    <div class="dialog-foot">
      ${before && html`${sure ? html`<span>Delete this item?</span><button type="button" class="danger" disabled=${removing} onClick=${remove}>Delete</button><button type="button" onClick=${() => setSure(false)}>Keep</button>`
        : html`<button type="button" class="danger" disabled=${!writing.value} onClick=${() => setSure(true)}>Delete</button>`}
        <a class="button" href=${pastLink(table, "history", { key: keyOf(table, before) })}>History</a>
        <button type="button" disabled=${!edited.item} onClick=${() => onShow({ before: null, item: edited.item, units: 0 })}>Duplicate</button><span class="push"></span>`}
      ${!writing.value && html`<span class="hint">Changes are switched off.</span>`}
      <button type="button" onClick=${() => onClose(false)}>Cancel</button>
      <button type="button" class="primary save" disabled=${!writing.value || !!fault || !request || saving} onClick=${save}>${before && !request && !fault ? "No changes" : "Save"}</button>
    </div>
  </div>`;
}

/** Keys first, then the attributes by name. */
function inOrder(table, root) {
  const keys = keyNames(table);
  const rank = (p) => (keys.includes(p.name) ? keys.indexOf(p.name) : keys.length);
  return { ...root, parts: [...root.parts].sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)) };
}

/** The most attributes that one condition can compare: each takes two of 300 operators. */
const maxCompared = 149;

/** The legacy parameter that tests that attributes are as they were. It has no limit. */
const expected = (item, names) => Object.fromEntries(names.map((n) => {
  const was = attribute(item, n);
  return [n, was === undefined ? { ComparisonOperator: "NULL" } : { ComparisonOperator: "EQ", AttributeValueList: [was] }];
}));

/** The request that saves an item, or null if nothing was changed. */
export function saveRequest(table, before, after) {
  const used = new Placeholders();
  const [hash] = keyNames(table);
  if (!before) {
    const input = { TableName: table.TableName, Item: after, ConditionExpression: `attribute_not_exists(${used.name(hash)})` };
    return { operation: "PutItem", input: used.addTo(input) };
  }
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  const changed = names.filter((n) => !same(attribute(before, n), attribute(after, n)));
  if (changed.length === 0) return null;
  const common = { TableName: table.TableName, Key: keyOf(table, before) };
  if (changed.length > maxCompared) {
    const updates = changed.map((n) => [n, attribute(after, n) === undefined ? { Action: "DELETE" } : { Action: "PUT", Value: after[n] }]);
    return { operation: "UpdateItem", input: { ...common, AttributeUpdates: Object.fromEntries(updates), Expected: expected(before, [hash, ...changed]), ReturnValuesOnConditionCheckFailure: "ALL_OLD" } };
  }
  const set = [], remove = [], tests = [`attribute_exists(${used.name(hash)})`];
  for (const n of changed) {
    const name = used.name(n), was = attribute(before, n), is = attribute(after, n);
    if (is === undefined) remove.push(name);
    else set.push(`${name} = ${used.value(is)}`);
    tests.push(was === undefined ? `attribute_not_exists(${name})` : `${name} = ${used.value(was)}`);
  }
  const input = {
    ...common,
    UpdateExpression: [set.length && "SET " + set.join(", "), remove.length && "REMOVE " + remove.join(", ")].filter(Boolean).join(" "),
    ConditionExpression: tests.join(" AND "),
    ReturnValuesOnConditionCheckFailure: "ALL_OLD",
  };
  return { operation: "UpdateItem", input: used.addTo(input) };
}

/** The request that deletes an item if it is as it was shown. */
function deleteRequest(table, before) {
  const used = new Placeholders();
  const keys = keyNames(table), common = { TableName: table.TableName, Key: keyOf(table, before), ReturnValuesOnConditionCheckFailure: "ALL_OLD" };
  const others = Object.keys(before).filter((n) => !keys.includes(n));
  if (others.length > maxCompared) return { operation: "DeleteItem", input: { ...common, Expected: expected(before, [keys[0], ...others]) } };
  const tests = others.map((n) => `${used.name(n)} = ${used.value(before[n])}`);
  const input = { ...common, ConditionExpression: [`attribute_exists(${used.name(keys[0])})`, ...tests].join(" AND ") };
  return { operation: "DeleteItem", input: used.addTo(input) };
}

/** Their item with my changes of the one before. */
export function merged(before, mine, theirs) {
  const names = [...new Set([...Object.keys(mine), ...Object.keys(theirs ?? {})])];
  return Object.fromEntries(names.map((n) => {
    const changed = !same(attribute(before ?? {}, n), attribute(mine, n));
    return [n, changed ? attribute(mine, n) : attribute(theirs ?? {}, n)];
  }).filter(([, v]) => v !== undefined));
}

/** Shows what somebody else has changed since the item was shown. */
function Conflict({ before, mine, theirs, onBack, onTheirs, onMerge, onClose }) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(mine), ...Object.keys(theirs ?? {})])];
  const rows = names.filter((n) => !same(attribute(before ?? {}, n), attribute(mine, n)) || !same(attribute(before ?? {}, n), attribute(theirs ?? {}, n)));
  return html`<div class="form conflict">
    <p class="warning">${before ? (theirs ? "Somebody has changed this item since you opened it. Nothing was written." : "Somebody has deleted this item since you opened it. Nothing was written.") : "An item with this key exists already. Nothing was written."}</p>
    ${before && html`<div class="scroll"><table class="list"><thead><tr><th scope="col">Attribute</th><th scope="col">As you opened it</th><th scope="col">Now</th><th scope="col">Yours</th></tr></thead>
      <tbody>${rows.map((n) => html`<tr><td>${n}</td>${[before, theirs ?? {}, mine].map((i) => html`<td class="mono">${summary(attribute(i, n), 80)}</td>`)}</tr>`)}</tbody></table></div>`}
    <div class="dialog-foot">
      <button type="button" onClick=${onBack}>Back to editing</button>
      ${before && theirs && html`<button type="button" onClick=${onTheirs}>Discard mine</button><button type="button" class="primary" onClick=${onMerge}>Put my changes on theirs</button>`}
      ${!(before && theirs) && html`<button type="button" onClick=${() => onClose(true)}>Close</button>`}
    </div>
  </div>`;
}

/** The attributes of a map, the elements of a list or the members of a set. */
function Parts({ node, depth, fixed = [], keys = [], onChange }) {
  const set = (part, change) => onChange({ ...node, parts: node.parts.map((p) => (p === part ? { ...p, ...change } : p)) });
  const removePart = (part) => onChange({ ...node, parts: node.parts.filter((p) => p !== part) });
  const last = useRef(null);
  const add = () => {
    onChange({ ...node, parts: [...node.parts, newPart("", newNode(partType(node.type)))] });
    setTimeout(() => last.current?.querySelector(".part:last-of-type input")?.focus());
  };
  const fault = nodeFault(node);
  return html`<div class=${"parts depth" + Math.min(depth, 4)} ref=${last}>
    ${node.parts.map((p, i) => html`<${Part} key=${p.id} part=${p} within=${node.type} place=${i} depth=${depth} locked=${fixed.includes(p.name)} isKey=${keys.includes(p.name)}
      onChange=${(change) => set(p, change)} onRemove=${() => removePart(p)} />`)}
    ${depth > 0 && fault && html`<p class="invalid">${fault}</p>`}
    <button type="button" class="add" onClick=${add}>${node.type === "M" ? "Add attribute" : isSet(node.type) ? "Add member" : "Add element"}</button>
  </div>`;
}

function Part({ part, within, place, depth, locked, isKey, onChange, onRemove }) {
  const { node } = part;
  const named = within === "M" ? part.name || "attribute" : `${place}`;
  const setNode = (change) => onChange({ node: { ...node, ...change } });
  return html`<div class="part">
    <div class="line">
      ${within === "M"
        ? html`<input class="name mono" aria-label="Name" value=${part.name} readonly=${locked || isKey} spellcheck="false" placeholder="name" onInput=${(e) => onChange({ name: e.target.value })} />`
        : html`<span class="place">${isSet(within) ? "•" : place}</span>`}
      ${!isSet(within) && html`<select aria-label=${"Type of " + named} value=${node.type} disabled=${locked || isKey} onChange=${(e) => onChange({ node: converted(node, e.target.value) })}>
        ${types.map((t) => html`<option value=${t}>${typeNames[t]}</option>`)}</select>`}
      <${Leaf} node=${node} label=${"Value of " + named} locked=${locked} onText=${(text) => setNode({ text })} />
      ${!locked && !isKey && html`<button type="button" class="quiet" aria-label=${"Remove " + named} onClick=${onRemove}>✕</button>`}
      ${isKey && html`<span class="badge">key</span>`}
    </div>
    ${isNested(node.type) && html`<${Parts} node=${node} depth=${depth + 1} onChange=${(n) => onChange({ node: n })} />`}
  </div>`;
}

/** A node of another type, with the text if it fits. */
function converted(node, type) {
  const next = newNode(type);
  if (["S", "N", "B"].includes(type) && ["S", "N", "B", "BOOL"].includes(node.type)) next.text = node.text;
  if ((type === "L" || isSet(type)) && (node.type === "L" || isSet(node.type))) next.parts = node.parts.filter((p) => !isSet(type) || p.node.type === partType(type));
  return next;
}

function Leaf({ node, label, locked, onText }) {
  if (isNested(node.type)) return html`<span class="hint grow">${node.parts.length} ${node.type === "M" ? "attributes" : isSet(node.type) ? "members" : "elements"}</span>`;
  if (node.type === "NULL") return html`<span class="hint grow">null</span>`;
  if (node.type === "BOOL") return html`<select class="grow" aria-label=${label} value=${node.text} onChange=${(e) => onText(e.target.value)}><option>true</option><option>false</option></select>`;
  const fault = locked ? "" : nodeFault(node);
  const ends = node.type === "S" ? lineEnds(node.text) : "";
  const given = (text) => onText(ends === "dos" ? text.replaceAll("\n", "\r\n") : text);
  const props = { "aria-label": label, "aria-invalid": fault ? "true" : undefined, readonly: locked || ends === "mixed", spellcheck: false, value: node.text, onInput: (e) => given(e.target.value),
    placeholder: { S: "empty text", N: "number, up to 38 digits", B: "base64" }[node.type] };
  // A field for text is the same whatever it has: another one would not have the focus. An input would remove line ends.
  return html`<div class="grow">
    ${node.type === "N" ? html`<input class="mono value" inputmode="decimal" ...${props} />` : html`<textarea class="code value" rows=${rowsOf(node.text)} ...${props}></textarea>`}
    ${fault && html`<span class="invalid">${fault}</span>`}
    ${ends === "mixed" && !locked && html`<span class="hint">The text has several kinds of line ends, which a field would make the same: edit it as DynamoDB JSON.</span>`}
    ${node.type === "B" && !base64Fault(node.text) && node.text && html`<span class="hint">${base64Length(node.text)} bytes${readable(node.text)}</span>`}
  </div>`;
}

/** The line ends of a text: "dos" if all are \r\n, "mixed" if \r is elsewhere. A field has \n for all of them. */
function lineEnds(text) {
  if (!text.includes("\r")) return "";
  return /\r(?!\n)|(?<!\r)\n/.test(text) ? "mixed" : "dos";
}

const lineLength = 80;

const rowsOf = (text) => Math.min(10, text.split("\n", 10).reduce((n, line) => n + Math.max(1, Math.ceil(line.length / lineLength)), 0));

/** The text in binary data, if it is text. */
function readable(base64) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(Uint8Array.from(atob(base64), (c) => c.charCodeAt(0)));
    return /^[\x20-\x7e\u00a0-\uffff\s]+$/.test(text) ? `: “${text.slice(0, 80)}”` : "";
  } catch {
    return "";
  }
}
