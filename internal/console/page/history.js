// The history of an item: who has changed what, and when, the newest change first.
import { html, useEffect, useRef, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { mayWrite, writing } from "./state.js";
import { callPatiently, unitsOf } from "./api.js";
import { count, units } from "./ui.js";
import { same, typedText } from "./values.js";
import { CopyAs } from "./copyas.js";
import { Diff } from "./diff.js";
import { KeyFields, PastProblem, PastProgress, Who, agoText, itemsLink, keyOfTexts, keyText, pastLink, shownOfAddress, textsOf, timeText, utcText } from "./past.js";
import { UndoChange } from "./undo.js";

const operation = "Stator.ItemHistory";
const pageSize = 25;
const kinds = { INSERT: "created", MODIFY: "changed", REMOVE: "deleted" };

export default function History({ table, refresh }) {
  const { key } = shownOfAddress();
  const [texts, setTexts] = useState(textsOf(table, key));
  const [page, setPage] = useState(null);
  const [tokens, setTokens] = useState([undefined]); // of the pages up to this one
  const [error, setError] = useState(null);
  const [looking, setLooking] = useState(null);
  const [progress, setProgress] = useState(null);
  const [showsRequest, setShowsRequest] = useState(false);
  const [undoing, setUndoing] = useState(null);
  const running = useRef(null);
  const given = keyOfTexts(table, texts);
  const input = { TableName: table.TableName, Key: key, Limit: pageSize };

  const stop = () => running.current?.abort();
  const read = async (newTokens) => {
    stop();
    const abort = (running.current = new AbortController());
    const found = { changes: [], next: newTokens.at(-1), looked: 0, units: 0 };
    setError(null);
    setLooking(found);
    try {
      do {
        const reply = await callPatiently(operation, { ...input, ...(found.next && { NextToken: found.next }), ReturnConsumedCapacity: "TOTAL" }, abort.signal, setProgress);
        Object.assign(found, { changes: reply.Changes, next: reply.NextToken || undefined, looked: found.looked + reply.LookedAt, units: found.units + unitsOf(reply), readTo: reply.ReadTo, keptFrom: reply.KeptFrom });
        setLooking({ ...found });
      } while (found.changes.length === 0 && found.next);
    } catch (err) {
      if (running.current === abort && err.name !== "AbortError") setError(err);
      if (err.name !== "AbortError" || found.looked === 0) return;
    } finally {
      if (running.current === abort) {
        setLooking(null);
        setProgress(null);
      }
    }
    if (running.current !== abort) return;
    setPage(found);
    setTokens(newTokens);
  };
  useEffect(() => {
    if (key) read([undefined]);
    return stop;
  }, []);

  const show = (event) => {
    event.preventDefault();
    if (!given.key) return;
    if (key && same({ M: key }, { M: given.key })) read([undefined]);
    else location.hash = pastLink(table, "history", { key: given.key });
  };
  const close = (changed) => {
    setUndoing(null);
    if (changed) read([undefined]);
  };
  return html`<form class="card row builder" onSubmit=${show}>
      <${KeyFields} table=${table} texts=${texts} onChange=${setTexts} search />
      <button class="primary" data-key="r" disabled=${!given.key}>Show history</button>
      <span class="push"></span>
      <button type="button" data-key="e" aria-expanded=${showsRequest} disabled=${!key} onClick=${() => setShowsRequest(!showsRequest)}>Request</button>
    </form>
    ${showsRequest && key && html`<div class="card"><${CopyAs} request=${{ operation, input }} table=${table} /></div>`}
    ${!key && html`<p class="empty">Give a key to see who has changed the item, when and how. It need not exist any more. In a list of items, <kbd>h</kbd> shows the history of one.</p>`}
    <${PastProblem} error=${error} table=${table} operation=${operation} onKept=${() => { refresh(); read([undefined]); }} />
    ${looking && html`<div class="bar meter"><span role="status">${looking.looked ? `Looked at ${count(looking.looked)} changes of the table, back to ${timeText(looking.readTo)} …` : "Reading …"}</span>
      <button type="button" onClick=${stop}>Stop</button></div>`}
    <${PastProgress} progress=${progress} />
    ${page && html`<div class="meter" role="status">
        <strong class="mono">${keyText(table, key)}</strong>
        <span><strong>${count(page.changes.length)}</strong> ${page.changes.length === 1 ? "change" : "changes"}${tokens.length > 1 || page.next ? ` on page ${tokens.length}` : ""}</span>
        <span><strong>${units(page.units)}</strong></span>
        <span title=${utcText(page.keptFrom)}>${page.next ? `looked back to ${timeText(page.readTo)}` : `changes before ${timeText(page.keptFrom)} are not kept`}</span></div>
      ${page.changes.length === 0 && html`<p class="empty">${page.next ? "No change of this item was found so far." : tokens.length > 1 ? "There are no older changes." : "The item has no recorded change: it does not exist, or has not changed since the past is kept."}</p>`}
      <ol class="changes" aria-label="Changes">${page.changes.map((c) => html`<li key=${c.SequenceNumber}><${Change} table=${table} itemKey=${key} change=${c} onUndo=${() => setUndoing(c)} /></li>`)}</ol>
      <div class="bar pager">
        <button type="button" data-key="[" onClick=${() => read(tokens.slice(0, -1))} disabled=${tokens.length < 2 || !!looking}>Newer</button>
        <span class="hint">page ${tokens.length}</span>
        <button type="button" data-key="]" onClick=${() => read([...tokens, page.next])} disabled=${!page.next || !!looking}>Older</button>
      </div>`}
    ${undoing && html`<${UndoChange} table=${table} itemKey=${key} change=${undoing} onClose=${close} />`}`;
}

/** One change of the item. */
function Change({ table, itemKey, change, onUndo }) {
  const [whole, setWhole] = useState(false);
  const kind = kinds[change.EventName] ?? change.EventName;
  const second = Math.floor(change.At);
  return html`<article class=${"card form change " + kind} aria-label=${`${kind} ${timeText(change.At, true)}`}>
    <div class="row middle"><span class=${"badge " + kind}>${kind}</span>
      <time datetime=${utcText(change.At)} title=${utcText(change.At)}><strong>${timeText(change.At, true)}</strong></time>
      <span class="hint">${agoText(change.At)}</span><${Who} change=${change} />
      <span class="push"></span>
      <button type="button" class="quiet" aria-pressed=${whole} onClick=${() => setWhole(!whole)}>Whole item</button>
      ${second < Math.floor(endpointNow() / 1000) && html`<a class="button" href=${itemsLink(table, second, itemKey)}>Items as of then</a>`}
      ${mayWrite.value && html`<button type="button" class="danger" disabled=${!writing.value} title=${writing.value ? "" : "Switch changes on first"} onClick=${onUndo}>Undo …</button>`}
    </div>
    ${whole
      ? html`<div class="columns">${[["Before", change.OldImage], ["After", change.NewImage]].map(([title, image]) => image && html`<div><h3>${title}</h3><pre class="wrap" tabindex="0" aria-label=${title}>${typedText(image)}</pre></div>`)}</div>`
      : html`<${Diff} before=${change.OldImage} after=${change.NewImage} />`}
  </article>`;
}
