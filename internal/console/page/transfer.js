// Export and import of items as files.
import { html, useRef, useState } from "./html.js";
import { allPages, callPatiently, unitsOf } from "./api.js";
import { Dialog, Problem, count, itemsText, units } from "./ui.js";
import { keyNames } from "./schema.js";
import { attribute, summary } from "./values.js";
import { Placeholders } from "./request.js";
import { formats, guessFormat, keyFault, parseItems, plainLine, toCSV, typedLine } from "./formats.js";

const maxCSV = 100000; // items of a CSV file, whose columns are known after the last one only
const maxFile = 100 << 20;
const exportBytes = 8 << 20; // text of an export that is in the memory of the page; the browser keeps the rest, on disk if it is long
const batchItems = 25;
const batchBytes = 1 << 20;

/** Exports the selected items, or all that match a request. */
export function Export({ table, request, items, onClose }) {
  const [format, setFormat] = useState("dynamodb");
  const [work, setWork] = useState(null);
  const [error, setError] = useState(null);
  const abort = useRef(null);
  const start = async () => {
    abort.current = new AbortController();
    const done = { items: 0, units: 0, over: false };
    const kept = [];
    let parts = format === "json" ? ["[\n"] : [], length = 0;
    const add = (text) => {
      parts.push(text);
      if ((length += text.length) < exportBytes) return;
      parts = [new Blob(parts)];
      length = 0;
    };
    const take = (list) => {
      if (format === "csv") {
        for (const item of list) kept.push(item);
        if (kept.length > maxCSV) throw new Error(`CSV is limited to ${count(maxCSV)} items: choose another format.`);
      } else if (format === "dynamodb") add(list.map(typedLine).join(""));
      else add(list.map((item, i) => (done.items + i ? ",\n" : "") + plainLine(item)).join(""));
      done.items += list.length;
      setWork({ ...done });
    };
    try {
      if (items) take(items);
      else
        for await (const page of allPages(request.operation, request.input, abort.current.signal)) {
          done.units += unitsOf(page);
          take(page.Items);
        }
      if (format === "csv") parts.push(toCSV(table, kept));
      if (format === "json") parts.push("\n]\n");
      save(`${table.TableName}.${formats[format].extension}`, formats[format].type, parts);
      setWork({ ...done, over: true });
    } catch (err) {
      setWork(null);
      if (err.name !== "AbortError") setError(err);
    }
  };
  const close = () => {
    abort.current?.abort();
    onClose(false);
  };
  return html`<${Dialog} title=${items ? `Export ${items.length} items` : "Export all matching items"} onClose=${close}>
    <div class="form">
      <${Problem} error=${error} />
      <${FormatChoice} value=${format} onChange=${setFormat} />
      ${!items && html`<p class="hint">Reads all pages of the ${request.operation}, in the order of the endpoint.</p>`}
      ${work && html`<p role="status" class="result"><strong>${count(work.items)}</strong> items, ${units(work.units)}${work.over ? ": saved." : " …"}</p>`}
      <div class="dialog-foot"><button type="button" onClick=${close}>${work?.over ? "Close" : "Cancel"}</button>
        <button type="button" class="primary start" disabled=${work && !work.over} onClick=${start}>Export</button></div>
    </div>
  <//>`;
}

function save(name, type, parts) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60000);
}

function FormatChoice({ value, onChange }) {
  return html`<fieldset><legend>Format</legend>
    ${Object.keys(formats).map((f) => html`<div><label><input type="radio" name="format" value=${f} checked=${f === value} onChange=${() => onChange(f)} /> ${formats[f].title} <span class="hint">${formats[f].hint}</span></label></div>`)}
  </fieldset>`;
}

/** Imports items from a file or from text. */
export function Import({ table, onClose }) {
  const [source, setSource] = useState(null); // {name, text}
  const [format, setFormat] = useState("dynamodb");
  const [replace, setReplace] = useState(false);
  const [work, setWork] = useState(null);
  const [error, setError] = useState(null);
  const abort = useRef(new AbortController());

  const choose = (name, text) => {
    setError(null);
    setSource({ name, text });
    setFormat(guessFormat(name, text));
  };
  const chooseFile = async (event) => {
    const [file] = event.target.files;
    if (!file) return;
    if (file.size > maxFile) setError(new Error("The file is larger than 100 MB: use ImportTable, or several files."));
    else choose(file.name, await file.text());
  };
  const read = source?.text ? parsed(table, format, source.text) : null;

  const start = async () => {
    const done = { written: 0, skipped: 0, units: 0, over: false };
    const show = () => setWork({ ...done });
    show();
    try {
      if (replace) await replaceAll(table, read.items, done, show, abort.current.signal);
      else await addMissing(table, read.items, done, show, abort.current.signal);
    } catch (err) {
      abort.current.abort(); // the other workers stop, too
      if (err.name !== "AbortError") setError(err);
    }
    done.over = true;
    show();
  };
  const close = () => {
    abort.current.abort();
    onClose(!!work);
  };
  return html`<${Dialog} wide title=${"Import into " + table.TableName} onClose=${close}>
    <div class="form">
      <${Problem} error=${error} />
      ${!work && html`<label class="stack">File <input type="file" accept=".json,.jsonl,.ndjson,.csv,.txt" onChange=${chooseFile} /></label>
        <label class="stack">or text <textarea class="code" rows="5" spellcheck="false" placeholder=${'{"Item": {"id": {"S": "1"}}}'} value=${source?.name ? "" : source?.text ?? ""} onInput=${(e) => choose("", e.target.value)}></textarea></label>
        <${FormatChoice} value=${format} onChange=${setFormat} />
        <label><input type="checkbox" checked=${replace} onChange=${(e) => setReplace(e.target.checked)} /> replace items that exist</label>`}
      ${read?.fault && html`<p class="invalid" role="alert">${read.fault}</p>`}
      ${read?.items && !work && html`<p class="counted" role="status"><strong>${itemsText(read.items.length)}</strong> in ${source.name || "the text"}</p>
        <div class="scroll"><table class="list"><caption class="hint">The first ${Math.min(10, read.items.length)}</caption><tbody>${read.items.slice(0, 10).map((item) => html`<tr>
          ${keyNames(table).map((k) => html`<td class="mono">${summary(attribute(item, k), 60)}</td>`)}<td class="hint">${Object.keys(item).length} attributes</td></tr>`)}</tbody></table></div>`}
      ${work && html`<p role="status" class="result"><strong>${count(work.written)}</strong> written, <strong>${count(work.skipped)}</strong> skipped because they exist, ${units(work.units)}${work.over ? "." : " …"}</p>
        <progress max=${read?.items?.length || 1} value=${work.written + work.skipped} aria-label="Progress"></progress>`}
      <div class="dialog-foot">
        ${work && !work.over ? html`<button type="button" onClick=${() => abort.current.abort()}>Stop</button>` : html`<button type="button" onClick=${close}>${work ? "Close" : "Cancel"}</button>`}
        ${!work && html`<button type="button" class="primary start" disabled=${!read?.items?.length} onClick=${start}>Import${read?.items ? ` ${itemsText(read.items.length)}` : ""}</button>`}
      </div>
    </div>
  <//>`;
}

let lastParsed = {};

/** The items of a text, or what is wrong with it. */
function parsed(table, format, text) {
  if (lastParsed.text === text && lastParsed.format === format && lastParsed.table === table) return lastParsed.result;
  let result;
  try {
    const items = parseItems(table, format, text);
    const wrong = items.map((item, i) => keyFault(table, item) && `Item ${i + 1}: ${keyFault(table, item)}`).find(Boolean);
    result = wrong ? { fault: wrong } : { items };
  } catch (err) {
    result = { fault: err.message };
  }
  lastParsed = { table, format, text, result };
  return result;
}

async function replaceAll(table, items, done, show, abort) {
  for (let at = 0; at < items.length; ) {
    const batch = [];
    for (let size = 0; at < items.length && batch.length < batchItems && size < batchBytes; at++) {
      batch.push({ PutRequest: { Item: items[at] } });
      size += JSON.stringify(items[at]).length;
    }
    let rest = { [table.TableName]: batch };
    while (Object.keys(rest).length) {
      const reply = await callPatiently("BatchWriteItem", { RequestItems: rest, ReturnConsumedCapacity: "TOTAL" }, abort);
      const left = reply.UnprocessedItems?.[table.TableName]?.length ?? 0;
      done.units += unitsOf(reply);
      done.written += rest[table.TableName].length - left;
      rest = left ? reply.UnprocessedItems : {};
      show();
    }
  }
}

async function addMissing(table, items, done, show, abort) {
  const used = new Placeholders();
  const condition = used.addTo({ ConditionExpression: `attribute_not_exists(${used.name(keyNames(table)[0])})` });
  let next = 0; // not a queue: to take the first of a million elements moves the others
  const worker = async () => {
    while (next < items.length) {
      const item = items[next++];
      try {
        const reply = await callPatiently("PutItem", { TableName: table.TableName, Item: item, ...condition, ReturnConsumedCapacity: "TOTAL" }, abort);
        done.units += unitsOf(reply); // not in one expression with await: other workers add to it, too
        done.written++;
      } catch (err) {
        if (err.code !== "ConditionalCheckFailedException") throw err;
        done.skipped++;
      }
      if ((done.written + done.skipped) % 20 === 0) show();
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}
