// A list whose rows can be opened, for rows that come and go.
import { html, useRef, useState } from "./html.js";

const drawn = 200; // rows at first; more are drawn when asked for

/**
 * A list of rows with an id each. Arrows move between rows, Enter opens one.
 * columns: {title, cell(row), class}; detail(row) is what an open row shows.
 */
export function Feed({ label, columns, rows, detail, empty, wide }) {
  const box = useRef(null);
  const [cursor, setCursor] = useState(null);
  const [open, setOpen] = useState(new Set());
  const [most, setMost] = useState(drawn);
  const shown = rows.slice(0, most);
  const at = shown.findIndex((r) => r.id === cursor);
  const toggle = (id) => {
    const next = new Set([...open].filter((o) => rows.some((r) => r.id === o)));
    if (!next.delete(id)) next.add(id);
    setOpen(next);
    setCursor(id);
  };
  const move = (to) => {
    const row = shown[Math.max(0, Math.min(shown.length - 1, to))];
    if (!row) return;
    setCursor(row.id);
    box.current.querySelector(`tr[data-row="${CSS.escape(row.id)}"]`)?.scrollIntoView({ block: "nearest" });
  };
  const onKey = (event) => {
    if (event.target !== box.current) return;
    const steps = { ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: shown.length - 1 };
    if (event.key in steps) move(steps[event.key]);
    else if (event.key === "Enter" && at >= 0) toggle(cursor);
    else return;
    event.preventDefault();
  };
  return html`<div class=${"feed " + (wide ? "wide" : "")} ref=${box} tabindex="0" role="group" aria-label=${label} onKeyDown=${onKey}>
    <table><thead><tr>${columns.map((c) => html`<th scope="col" class=${c.class ?? ""}>${c.title}</th>`)}</tr></thead>
    <tbody>${shown.map((row) => html`
      <tr key=${row.id} data-row=${row.id} class=${(row.id === cursor ? "cursor " : "") + (open.has(row.id) ? "open" : "")} onClick=${() => setCursor(row.id)}>
        ${columns.map((c, i) => html`<td class=${c.class ?? ""}>${i === 0
          ? html`<button type="button" class="opener" aria-expanded=${open.has(row.id)} onClick=${() => toggle(row.id)}><span aria-hidden="true">${open.has(row.id) ? "▾" : "▸"}</span> ${c.cell(row)}</button>`
          : c.cell(row)}</td>`)}
      </tr>
      ${open.has(row.id) && html`<tr key=${row.id + " open"} class="detail"><td colspan=${columns.length}>${detail(row)}</td></tr>`}`)}
    </tbody></table>
    ${rows.length === 0 && html`<p class="empty">${empty}</p>`}
    ${rows.length > shown.length && html`<p class="empty"><button type="button" onClick=${() => setMost(most + drawn)}>Show ${Math.min(drawn, rows.length - shown.length)} more of ${rows.length.toLocaleString("en")}</button></p>`}
  </div>`;
}
