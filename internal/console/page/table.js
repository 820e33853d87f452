// One table: its items and its settings.
import { html, useEffect, useState } from "./html.js";
import { link, route } from "./state.js";
import { describe } from "./api.js";
import { Problem, bytes, count } from "./ui.js";
import Items from "./items.js";

/** Tabs of a table. A tab with load is loaded when it is opened. */
export const tabs = [
  { step: "items", title: "Items", view: Items },
  { step: "past", title: "Past", load: () => import("./pasttab.js") },
  { step: "stream", title: "Stream", load: () => import("./stream.js") },
  { step: "settings", title: "Settings", load: () => import("./settings.js") },
];

export default function Table({ steps: [name, step = "items"] }) {
  const [table, setTable] = useState(null);
  const [error, setError] = useState(null);
  const [loaded, setLoaded] = useState({});
  const read = (refresh) => describe(name, refresh).then((found) => { setTable(found); setError(null); }, setError);
  useEffect(() => {
    setTable(null);
    read(true);
  }, [name]);
  const tab = tabs.find((t) => t.step === step) ?? tabs[0];
  useEffect(() => {
    if (tab.load && !loaded[tab.step]) tab.load().then((m) => setLoaded((before) => ({ ...before, [tab.step]: m.default })), setError);
  }, [tab]);
  const View = tab.view ?? loaded[tab.step];
  return html`<div class="bar">
      <a href="#/tables" aria-label="All tables">Tables</a> <span aria-hidden="true">/</span> <h1>${name}</h1>
      ${table && html`<span class="hint">${count(table.ItemCount)} items, ${bytes(table.TableSizeBytes)}${table.TableStatus !== "ACTIVE" ? ", " + table.TableStatus : ""}</span>`}
      <span class="push"></span>
      <nav class="tabs" aria-label="Parts of the table">${tabs.map((t) => html`<a href=${link("table", name, t.step)} aria-current=${t === tab ? "page" : undefined}>${t.title}</a>`)}<a href=${link("heat", name)}>Heat</a></nav>
    </div>
    <${Problem} error=${error} />
    ${table && table.TableName === name && View && html`<${View} table=${table} key=${name + tab.step + route.value.query} refresh=${() => read(true)} />`}`;
}
