// The past of a table: the history of an item, the undo of changes, the restore to a second.
import { html, useEffect, useState } from "./html.js";
import { route } from "./state.js";
import { failed } from "./ui.js";
import { KeptText, itemsLink, pastLink, useKept } from "./past.js";

const views = [
  { step: "history", title: "History of an item", load: () => import("./history.js") },
  { step: "undo", title: "Undo changes", load: () => import("./undo.js") },
  { step: "restore", title: "Restore to a second", load: () => import("./restore.js") },
];

export default function Past({ table, refresh }) {
  const [loaded, setLoaded] = useState({});
  const kept = useKept(table);
  const { steps, query } = route.value;
  const view = views.find((v) => v.step === steps[3]) ?? views[0];
  useEffect(() => {
    if (!loaded[view.step]) view.load().then((m) => setLoaded((before) => ({ ...before, [view.step]: m.default })), failed);
  }, [view]);
  const View = loaded[view.step];
  return html`<div class="bar"><nav class="tabs" aria-label="Parts of the past">
      ${views.map((v) => html`<a href=${pastLink(table, v.step)} aria-current=${v === view ? "page" : undefined}>${v.title}</a>`)}
      <a href=${itemsLink(table, 0)}>Table as of a second</a></nav>
      <span class="push"></span><${KeptText} table=${table} kept=${kept} /></div>
    ${View && html`<${View} key=${view.step + query} table=${table} kept=${kept} refresh=${refresh} />`}`;
}
