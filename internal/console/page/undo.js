// Undoes a change of an item, or the changes of a window. First a plan is shown; it is executed by its number, so that what is written
// is what was shown.
import { html, useEffect, useRef, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { link, mayWrite, writing } from "./state.js";
import { callPatiently, knows, unitsOf } from "./api.js";
import { Dialog, count, itemsText, toast, units, useAction } from "./ui.js";
import { CopyAs } from "./copyas.js";
import { Diff, diffOf } from "./diff.js";
import { KeyFields, NoPast, PastProblem, PastProgress, TimeField, keyOfTexts, keyText, pastLink, shownOfAddress, textsOf, timeOf, timeText } from "./past.js";

const operation = "Stator.UndoChanges";

const planOf = (input, abort, onPast) => callPatiently(operation, { ...input, ReturnConsumedCapacity: "TOTAL" }, abort, onPast);

/**
 * Executes a plan. If the items were written in the meantime, nothing is, and the reply is the plan of now, with changed.
 */
async function execute(input, planID, abort, onPast) {
  try {
    return await callPatiently(operation, { ...input, Confirm: planID, ReturnConsumedCapacity: "TOTAL" }, abort, onPast);
  } catch (err) {
    if (err.code !== "ValidationException" && err.code !== "TransactionCanceledException") throw err;
    const plan = await planOf(input, abort, onPast);
    if (plan.PlanId === planID) throw err;
    return { ...plan, changed: true };
  }
}

/** What a write of a plan does. */
const actionOf = (write) => (write.Action === "Delete" ? "delete" : write.CurrentItem ? "put back" : "create again");

/** A dialog that undoes one change of an item. */
export function UndoChange({ table, itemKey, change, onClose }) {
  const input = { TableName: table.TableName, Key: itemKey, SequenceNumber: change.SequenceNumber };
  const [plan, setPlan] = useState(null);
  const [error, setError] = useState(null);
  const [progress, setProgress] = useState(null);
  const abort = useRef(new AbortController());
  useEffect(() => {
    planOf(input, abort.current.signal, setProgress).then(setPlan, (err) => err.name !== "AbortError" && setError(err));
    return () => abort.current.abort();
  }, []);
  const [undo, busy] = useAction(async () => {
    const done = await execute(input, plan.PlanId, abort.current.signal, setProgress);
    if (!done.Executed) return setPlan(done);
    toast(`Undone, ${units(unitsOf(done))}.`);
    return onClose(true);
  });
  const write = plan?.Writes[0], conflict = plan?.Conflicts[0];
  const now = Math.floor(endpointNow() / 1000) - 1;
  return html`<${Dialog} wide title="Undo a change" onClose=${() => onClose(false)}><div class="form">
    <p class="mono">${keyText(table, itemKey)} <span class="hint">as changed at ${timeText(change.At, true)}</span></p>
    <${PastProblem} error=${error} table=${table} operation=${operation} />
    ${!plan && !error && html`<p class="loading" role="status">Planning …</p>`}
    ${!plan && html`<${PastProgress} progress=${progress} />`}
    ${plan?.changed && html`<p class="warning" role="alert">The item was written in the meantime, and nothing was undone. This is the plan of now.</p>`}
    ${write && html`<p>${{ delete: "The item will be deleted, as this change has created it.", "put back": "The item will be as it was before this change.", "create again": "The item will be created again, as it was before it was deleted." }[actionOf(write)]}
        It is written only if it still is as this change has left it.</p>
      ${write.Expired && html`<p class="warning">The time to live of the item is over: it will be deleted again soon.</p>`}
      <${Diff} before=${write.CurrentItem} after=${write.Item} titles=${["Now", "After the undo"]} />`}
    ${conflict && html`<p class="warning">The item was changed again after this change, so that this change alone cannot be undone. ${change.At < now && html`<a href=${pastLink(table, "undo", { key: itemKey, from: Math.floor(change.At), to: now })}>Undo all of its changes from this one on</a>`}</p>
      <h3>What has changed since</h3><${Diff} before=${conflict.NewImage} after=${conflict.CurrentItem} titles=${["After this change", "Now"]} />`}
    ${plan && !write && !conflict && html`<p class="notice">The item is as it was before this change: there is nothing to undo.</p>`}
    <details><summary>Request</summary><${CopyAs} request=${{ operation, input }} table=${table} /></details>
    <div class="dialog-foot">${!writing.value && html`<span class="hint">Changes are switched off.</span>`}
      <button type="button" onClick=${() => onClose(false)}>${write ? "Cancel" : "Close"}</button>
      ${write && html`<button type="button" class="danger start" disabled=${!writing.value || busy} onClick=${undo}>Undo this change</button>`}</div>
  </div><//>`;
}

/** The view that undoes the changes of a window. */
export default function Undo({ table, refresh }) {
  const asked = shownOfAddress();
  const [from, setFrom] = useState(asked.from ? timeText(asked.from) : "5m");
  const [to, setTo] = useState(asked.to ? timeText(asked.to) : "now");
  const [one, setOne] = useState(!!asked.key);
  const [texts, setTexts] = useState(textsOf(table, asked.key));
  const [input, setInput] = useState(null); // of the previewed window
  const [pages, setPages] = useState([]); // of the plan: {start, id, writes, conflicts, already}
  const [whole, setWhole] = useState(false);
  const [shown, setShown] = useState(null); // the plan of one page, and its number
  const [units_, setUnits] = useState(0);
  const [typed, setTyped] = useState("");
  const [notice, setNotice] = useState("");
  const [work, setWork] = useState(null);
  const [error, setError] = useState(null);
  const [progress, setProgress] = useState(null);
  const [busy, setBusy] = useState(false);
  const [showsRequest, setShowsRequest] = useState(false);
  const running = useRef(null);

  const [first, last] = [timeOf(from), timeOf(to)];
  const given = one ? keyOfTexts(table, texts) : {};
  const fault = first.fault || last.fault || given.fault || (first.second > last.second ? "The window ends before it begins." : "");
  const ready = !fault && first.second !== undefined && last.second !== undefined;
  const asInput = () => ({ TableName: table.TableName, From: first.second, To: last.second, ...(one && { Key: given.key }) });

  const stop = () => running.current?.abort();
  useEffect(() => stop, []);

  /** Runs something that can be stopped. */
  const run = async (act) => {
    stop();
    const abort = (running.current = new AbortController());
    setBusy(true);
    setError(null);
    try {
      await act(abort.signal);
    } catch (err) {
      if (running.current === abort && err.name !== "AbortError") setError(err);
    } finally {
      if (running.current === abort) {
        setBusy(false);
        setProgress(null);
      }
    }
  };

  /** Reads the plans of all pages, and keeps that of the first. */
  const plan = async (window_, signal) => {
    const found = [];
    let start, used = 0;
    setInput(window_);
    setWhole(false);
    setPages([]);
    setShown(null);
    setTyped("");
    do {
      const reply = await planOf({ ...window_, ...(start && { ExclusiveStartKey: start }) }, signal, setProgress);
      const page = pageOf(start, reply);
      used += unitsOf(reply);
      if (hasContent(page) && !found.some(hasContent)) setShown({ page: found.length, plan: reply });
      found.push(page);
      setPages([...found]);
      setUnits(used);
      start = reply.LastEvaluatedKey;
    } while (start);
    setWhole(true);
  };
  const preview = (event) => {
    event?.preventDefault();
    if (!ready) return;
    setWork(null);
    setNotice("");
    run((signal) => plan(asInput(), signal));
  };
  const showPage = (n) => run(async (signal) => {
    const reply = await planOf(inputOf(input, pages[n]), signal, setProgress);
    setShown({ page: n, plan: reply });
    if (reply.PlanId === pages[n].id) return;
    setPages(pages.map((p, i) => (i === n ? pageOf(p.start, reply) : p)));
    setTyped("");
    setNotice("Items of this page were written in the meantime: this is the plan of now.");
  });

  const undo = () => run(async (signal) => {
    const done = { written: 0, transactions: 0, units: 0, over: false };
    setNotice("");
    setWork({ ...done });
    for (const p of pages.filter((q) => q.writes > 0)) {
      const reply = await execute(inputOf(input, p), p.id, signal, setProgress).catch((err) => {
        setWork({ ...done, over: true });
        throw err;
      });
      if (reply.changed) {
        setWork({ ...done, over: true });
        setNotice(`Items were written in the meantime. ${done.written ? `${itemsText(done.written)} of the pages before ${done.written === 1 ? "is" : "are"} undone; the rest is not.` : "Nothing was undone."} This is the plan of now.`);
        return plan(input, signal);
      }
      done.written += p.writes;
      done.transactions++;
      done.units += unitsOf(reply);
      setWork({ ...done });
    }
    setWork({ ...done, over: true, all: true });
    refresh();
    return undefined;
  });

  if (!knows(operation)) return html`<${NoPast} operation=${operation} />`;
  const sum = (member) => pages.reduce((n, p) => n + p[member], 0);
  const total = sum("writes");
  const finished = work?.all;
  return html`<form class="card form builder" onSubmit=${preview}>
      <div class="row"><${TimeField} label="First second" value=${from} onInput=${setFrom} search /><${TimeField} label="Last second" value=${to} onInput=${setTo} /></div>
      <div class="row middle"><label><input type="checkbox" checked=${one} onChange=${(e) => setOne(e.target.checked)} /> one item only</label>
        ${one && html`<${KeyFields} table=${table} texts=${texts} onChange=${setTexts} />`}</div>
      <div class="row middle"><button class="primary" data-key="r" disabled=${!ready || !writing.value || (busy && !!work)} title=${writing.value ? "" : "Switch changes on first"}>Preview</button>
        ${busy && html`<button type="button" onClick=${stop}>Stop</button>`}
        ${fault ? html`<span class="invalid" role="alert">${fault}</span>` : html`<span class="hint">${!mayWrite.value ? "This console only reads, and cannot undo." : writing.value ? "A preview writes nothing." : "Switch changes on first. A preview writes nothing."}</span>`}
        <span class="push"></span>
        <button type="button" data-key="e" aria-expanded=${showsRequest} disabled=${!ready} onClick=${() => setShowsRequest(!showsRequest)}>Request</button></div>
    </form>
    ${showsRequest && ready && html`<div class="card"><${CopyAs} request=${{ operation, input: asInput() }} table=${table} /></div>`}
    <${PastProblem} error=${error} table=${table} operation=${operation} onKept=${() => { setError(null); refresh(); }} />
    <${PastProgress} progress=${progress} />
    ${notice && html`<p class="warning" role="alert">${notice}</p>`}
    ${work && html`<div class="card form"><p role="status" class="result"><strong>${itemsText(work.written)}</strong> undone in ${count(work.transactions)} ${work.transactions === 1 ? "transaction" : "transactions"}, ${units(work.units)}${work.over ? "." : " …"}</p>
      ${!work.over && html`<progress max=${Math.max(1, total)} value=${work.written} aria-label="Progress"></progress>`}
      ${finished && html`<p>${sum("conflicts") > 0 ? `${itemsText(sum("conflicts"))} ${sum("conflicts") === 1 ? "was" : "were"} changed again later, and stay as they are. ` : ""}The undo is a change like any other: it is in the history of each item, and can be undone. <a href=${link("table", table.TableName, "items")}>Items</a></p>`}</div>`}
    ${input && !finished && pages.length > 0 && html`<div class="meter" role="status">
        <span class="planned"><strong>${count(total)}</strong> to write: ${count(sum("puts"))} as before the window, ${count(sum("deletes"))} to delete</span>
        <span><strong>${count(sum("conflicts"))}</strong> ${sum("conflicts") === 1 ? "conflict" : "conflicts"}</span><span><strong>${count(sum("already"))}</strong> as before already</span>
        ${sum("expired") > 0 && html`<span><strong>${count(sum("expired"))}</strong> expired</span>`}
        <span>planned with <strong>${units(units_)}</strong>${whole ? "" : ", still counting …"}</span></div>
      ${shown ? html`<${Plan} table=${table} plan=${shown.plan} />` : whole && html`<p class="empty">No item is different because of changes of this window.</p>`}
      ${pages.filter(hasContent).length > 1 && html`<${Pager} pages=${pages} at=${shown?.page ?? 0} disabled=${!whole || busy} onShow=${showPage} />`}
      ${total > 0 && html`<div class="card row middle confirming"><span>Each ${pages.length > 1 ? "page" : "plan"} is one transaction. An item is written only if it still is as the window has left it.</span><span class="push"></span>
        ${total > 1 && html`<label>Type ${total} to confirm <input class="confirm" value=${typed} inputmode="numeric" autocomplete="off" onInput=${(e) => setTyped(e.target.value.trim())} /></label>`}
        <button type="button" class="danger start" disabled=${!whole || busy || !writing.value || (total > 1 && typed !== String(total))} onClick=${undo}>Undo the changes of ${itemsText(total)}</button></div>`}`}`;
}

const inputOf = (input, page) => ({ ...input, ...(page.start && { ExclusiveStartKey: page.start }) });

/** What is kept of a page that is not shown. */
function pageOf(start, plan) {
  const deletes = plan.Writes.filter((w) => w.Action === "Delete").length;
  return { start, id: plan.PlanId, writes: plan.Writes.length, deletes, puts: plan.Writes.length - deletes, conflicts: plan.Conflicts.length, already: plan.AlreadyUndone, expired: plan.Writes.filter((w) => w.Expired).length };
}

const hasContent = (page) => page.writes + page.conflicts > 0;

/** Goes through the pages that have something. */
function Pager({ pages, at, disabled, onShow }) {
  const places = pages.map((p, i) => (hasContent(p) ? i : -1)).filter((i) => i >= 0);
  const place = places.indexOf(at);
  return html`<div class="bar pager"><button type="button" data-key="[" disabled=${disabled || place < 1} onClick=${() => onShow(places[place - 1])}>Previous</button>
    <span class="hint">page ${place + 1} of ${places.length}</span>
    <button type="button" data-key="]" disabled=${disabled || place + 1 >= places.length} onClick=${() => onShow(places[place + 1])}>Next</button></div>`;
}

/** The writes and conflicts of one page of a plan. */
function Plan({ table, plan }) {
  return html`<ul class="plan" aria-label="Plan">
    ${plan.Writes.map((w) => html`<${Planned} key=${JSON.stringify(w.Key)} table=${table} itemKey=${w.Key} at=${w.ChangedAt} action=${actionOf(w)} expired=${w.Expired} before=${w.CurrentItem} after=${w.Item} titles=${["Now", "After the undo"]} />`)}
    ${plan.Conflicts.map((c) => html`<${Planned} key=${JSON.stringify(c.Key)} table=${table} itemKey=${c.Key} at=${c.ChangedAt} action="conflict" before=${c.NewImage} after=${c.CurrentItem} titles=${["After the window", "Now"]} />`)}
  </ul>`;
}

const maxNames = 6;

/** One item of a plan. What differs is shown when it is opened. */
function Planned({ table, itemKey, at, action, expired, before, after, titles }) {
  const [open, setOpen] = useState(false);
  const names = action === "delete" ? [] : [...new Set(diffOf(before, after).map((p) => p.path))];
  return html`<li><details open=${open} onToggle=${(e) => setOpen(e.target.open)}>
    <summary><span class=${"badge " + action.replace(" ", "-")}>${action}</span> <span class="mono key">${keyText(table, itemKey)}</span>
      <span class="hint">changed at ${timeText(at, true)}</span>
      ${expired && html`<span class="badge scan" title="Its time to live is over: it will be deleted again">expired</span>`}
      <span class="hint names">${names.slice(0, maxNames).join(", ")}${names.length > maxNames ? `, ${names.length - maxNames} more` : ""}</span></summary>
    ${open && html`<div class="form">${action === "conflict" && html`<p>This item was changed again after the window, and stays as it is. What has changed since:</p>`}
      <${Diff} before=${before} after=${after} titles=${titles} />
      <div><a href=${pastLink(table, "history", { key: itemKey })}>History of this item</a></div></div>`}
  </details></li>`;
}
