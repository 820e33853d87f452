// Parts that views are made of: dialogs, messages, a grid that draws only visible rows.
import { html, useEffect, useLayoutEffect, useRef, useState, signal } from "./html.js";

/** A modal dialog. The browser keeps the focus in it and closes it with Esc. */
export function Dialog({ title, onClose, wide, children }) {
  const ref = useRef(null);
  useEffect(() => {
    const back = document.activeElement;
    ref.current.showModal();
    return () => back?.focus?.();
  }, []);
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-label=${title} onCancel=${(e) => { e.preventDefault(); onClose(); }}>
    <div class="dialog-head"><h2>${title}</h2><button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button></div>
    ${children}
  </dialog>`;
}

const toasts = signal([]);
let toastNumber = 0;

/** Shows a message for some seconds; errors stay until they are closed. */
export function toast(text, kind = "done") {
  const id = ++toastNumber;
  toasts.value = [...toasts.value.slice(-4), { id, text, kind }];
  if (kind !== "error") setTimeout(() => closeToast(id), 5000);
}

const closeToast = (id) => (toasts.value = toasts.value.filter((t) => t.id !== id));

/** Shows an error. */
export function failed(err) {
  if (err.name === "AbortError") return;
  toast(err.code ? `${err.code}: ${err.message}` : err.message, "error");
}

export function Toasts() {
  return html`<div class="toasts" role="status" aria-live="polite">
    ${toasts.value.map((t) => html`<div key=${t.id} class=${"toast " + t.kind}><span>${t.text}</span>
      <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => closeToast(t.id)}>✕</button></div>`)}
  </div>`;
}

/** An error within a view, with what to do about it. title is what it means, in place of its code. */
export function Problem({ error, title }) {
  if (!error) return null;
  return html`<div class="problem" role="alert"><strong>${title || (error.code ?? "Error")}</strong> <span>${error.message}</span></div>`;
}

/** Calls a function that may fail, and keeps whether it runs. */
export function useAction(action) {
  const [busy, setBusy] = useState(false);
  const run = async (...args) => {
    setBusy(true);
    try {
      return await action(...args);
    } catch (err) {
      failed(err);
      return undefined;
    } finally {
      setBusy(false);
    }
  };
  return [run, busy];
}

const rowHeight = 33;
const overscan = 8;

/**
 * A grid of items. It draws only the rows that are visible.
 * columns: {name, title, cell(row), width}; rows: any; selected: Set of row numbers, or null without selection;
 * action: {title, sign, key, run(row)} is a button in each row, and a key.
 */
export function Grid({ label, columns, rows, selected, onSelect, onOpen, action, empty }) {
  const box = useRef(null);
  const [window_, setWindow] = useState({ top: 0, height: 600 });
  const [cursor, setCursor] = useState(0);
  useLayoutEffect(() => {
    const measure = () => box.current && setWindow({ top: box.current.scrollTop, height: box.current.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(box.current);
    return () => watch.disconnect();
  }, []);
  useLayoutEffect(() => { // before it is painted: the rows of the old place may not exist
    setCursor(0);
    box.current.scrollTop = 0;
    setWindow((old) => ({ ...old, top: 0 }));
  }, [rows]);
  const first = Math.max(0, Math.floor(window_.top / rowHeight) - overscan);
  const last = Math.min(rows.length, Math.ceil((window_.top + window_.height) / rowHeight) + overscan);
  const shown = [];
  for (let i = first; i < last; i++) shown.push(i);
  const move = (to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setCursor(next);
    const at = next * rowHeight, view = box.current, head = rowHeight;
    if (at < view.scrollTop) view.scrollTop = at;
    else if (at + head * 2 > view.scrollTop + view.clientHeight) view.scrollTop = at + head * 2 - view.clientHeight;
  };
  const onKey = (event) => {
    if (event.target !== box.current) return;
    const page = Math.max(1, Math.floor(window_.height / rowHeight) - 2);
    const steps = { ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + page, PageUp: cursor - page, Home: 0, End: rows.length - 1 };
    if (event.key in steps) move(steps[event.key]);
    else if (event.key === "Enter" && rows[cursor] !== undefined && onOpen) onOpen(rows[cursor], cursor);
    else if (action && event.key === action.key && rows[cursor] !== undefined && !event.ctrlKey && !event.metaKey && !event.altKey) action.run(rows[cursor]);
    else if (event.key === " " && selected && rows[cursor] !== undefined) onSelect(toggled(selected, cursor));
    else return;
    event.preventDefault();
  };
  const all = selected && rows.length > 0 && selected.size === rows.length;
  return html`<div class="grid" ref=${box} tabindex="0" role="group" aria-label=${label} onKeyDown=${onKey}
      onScroll=${() => setWindow({ top: box.current.scrollTop, height: box.current.clientHeight })}>
    <table aria-rowcount=${rows.length + 1}>
      <thead><tr>
        ${selected && html`<th class="check"><input type="checkbox" aria-label="Select all rows" checked=${all}
          onChange=${(e) => onSelect(e.target.checked ? new Set(rows.keys()) : new Set())} /></th>`}
        ${action && html`<th class="check"><span class="hidden">${action.title}</span></th>`}
        ${columns.map((c) => html`<th scope="col" title=${c.title ?? c.name} class=${c.number ? "number" : ""}>${c.title ?? c.name}${c.badge && html` <span class="badge">${c.badge}</span>`}</th>`)}
      </tr></thead>
      <tbody>
        ${first > 0 && html`<tr aria-hidden="true"><td class="space" style=${{ height: first * rowHeight + "px" }}></td></tr>`}
        ${shown.map((i) => html`<tr key=${i} aria-rowindex=${i + 2} class=${(i === cursor ? "cursor " : "") + (selected?.has(i) ? "selected" : "")}
            onClick=${() => setCursor(i)} onDblClick=${() => onOpen?.(rows[i], i)}>
          ${selected && html`<td class="check"><input type="checkbox" aria-label=${"Select row " + (i + 1)} checked=${selected.has(i)} onChange=${() => onSelect(toggled(selected, i))} /></td>`}
          ${action && html`<td class="check"><button type="button" class="quiet sign" title=${`${action.title} (${action.key})`} aria-label=${`${action.title} of row ${i + 1}`} onClick=${() => action.run(rows[i])}>${action.sign}</button></td>`}
          ${columns.map((c, n) => html`<td class=${c.number ? "number" : ""}>${n === 0 && onOpen
            ? html`<button type="button" class="link" onClick=${() => onOpen(rows[i], i)}>${c.cell(rows[i])}</button>`
            : c.cell(rows[i])}</td>`)}
        </tr>`)}
        ${last < rows.length && html`<tr aria-hidden="true"><td class="space" style=${{ height: (rows.length - last) * rowHeight + "px" }}></td></tr>`}
      </tbody>
    </table>
    ${rows.length === 0 && html`<p class="empty">${empty ?? "Nothing here."}</p>`}
  </div>`;
}

function toggled(set, member) {
  const next = new Set(set);
  if (!next.delete(member)) next.add(member);
  return next;
}

/** Copies text, and says so. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied.");
  } catch (err) {
    failed(err);
  }
}

/** Bytes with a unit. */
export function bytes(n) {
  if (n === undefined || n === null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) {
    n /= 1000;
    i++;
  }
  return (i === 0 ? n : n.toFixed(1)) + " " + units[i];
}

/** A number with separators of thousands. toLocaleString would take 30 ms when it is first called, a tenth of the first view. */
function separated(n) {
  const [whole, ...rest] = String(n).split(".");
  return [whole.replace(/\B(?=(\d{3})+$)/g, ","), ...rest].join(".");
}

/** A count with separators. */
export const count = (n) => (n === undefined || n === null ? "–" : separated(n));

/** A count of items. */
export const itemsText = (n) => `${count(n)} ${n === 1 ? "item" : "items"}`;

/** Capacity units, with at most one digit after the point. */
export const units = (n) => separated(Math.round(n * 10) / 10) + (n === 1 ? " unit" : " units");
