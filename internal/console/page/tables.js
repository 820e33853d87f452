// The list of tables.
import { html, useLayoutEffect, useState } from "./html.js";
import { link, route, tableNames, mayWrite, writing, session } from "./state.js";
import { describe, loadTables } from "./api.js";
import { Problem, bytes, count } from "./ui.js";
import { keysOf } from "./schema.js";
import { attribute } from "./values.js";

const maxDescribed = 100; // descriptions that are read for one view of the list
const atOnce = 4;

/** Asks for a description, once for each visit. */
function ask(asked, name) {
  if (!asked.has(name)) asked.set(name, describe(name, true));
  return asked.get(name);
}

/** What prepare reads: for whom and where, the names, and the descriptions that it asks for. */
let prepared = null;

/** Reads what the list shows first, so that it is drawn once: each frame takes a tenth of the first view. */
export async function prepare() {
  const asked = new Map(), names = loadTables(), who = session.value;
  prepared = { session: who, route: route.value, names, asked };
  const first = (await names).slice(0, atOnce);
  if (session.value === who) await Promise.allSettled(first.map((name) => ask(asked, name)));
}

/** Takes what was prepared, unless somebody else has signed in, or another view was opened since. */
function takePrepared() {
  const found = prepared;
  prepared = null;
  return found?.session === session.value && found?.route === route.value ? found : { asked: new Map() };
}

export default function Tables() {
  const [error, setError] = useState(null);
  const [search, setSearch] = useState("");
  const [described, setDescribed] = useState({});
  const [creating, setCreating] = useState(null);
  const [first] = useState(takePrepared);
  const [refreshed, setRefreshed] = useState(0); // how many times
  // Layout effects, since others wait for the next frame.
  useLayoutEffect(() => {
    (first.names ?? loadTables()).catch(setError);
  }, []);
  const names = (tableNames.value ?? []).filter((n) => n.toLowerCase().includes(search.toLowerCase()));
  const shown = names.slice(0, maxDescribed);
  useLayoutEffect(() => {
    let over = false;
    const waiting = shown.filter((n) => !Object.hasOwn(described, n));
    const next = async () => {
      for (let name; !over && (name = waiting.shift()); ) {
        const table = await ask(first.asked, name).catch((err) => ({ problem: err.code ?? err.message }));
        if (!over) setDescribed((before) => ({ ...before, [name]: table }));
      }
    };
    for (let i = 0; i < atOnce; i++) next();
    return () => (over = true);
  }, [tableNames.value, search, refreshed]);
  const create = async () => {
    const { CreateTable } = await import("./create.js");
    setCreating(() => CreateTable);
  };
  const reload = () => {
    first.asked.clear();
    setDescribed({});
    setError(null);
    setRefreshed(refreshed + 1);
    loadTables().catch(setError);
  };
  const Creating = creating;
  return html`<div class="bar">
      <h1>Tables</h1>
      <label class="search"><span class="hidden">Search tables</span><input data-search type="search" placeholder="Search tables  ( / )" value=${search} onInput=${(e) => setSearch(e.target.value)} /></label>
      <span class="push"></span>
      <button type="button" data-key="r" onClick=${reload}>Refresh</button>
      ${mayWrite.value && html`<button type="button" class="primary" data-key="n" disabled=${!writing.value} title=${writing.value ? "" : "Switch changes on first"} onClick=${create}>Create table</button>`}
    </div>
    <${Problem} error=${error} />
    ${session.value.endpoint.notice && html`<p class="notice">${session.value.endpoint.notice}</p>`}
    ${tableNames.value && names.length === 0 && !error && html`<div class="card"><h2>${search ? "No table has this name" : "No tables yet"}</h2>
      <p>${search ? "Clear the search to see all of them." : session.value.endpoint.url ? "This account has no tables in this region." : "All tables of this server are shown, whatever region or key a program signs its requests with."}</p></div>`}
    ${names.length > 0 && html`<div class="scroll"><table class="list">
      <thead><tr><th scope="col">Name</th><th scope="col">Partition key</th><th scope="col">Sort key</th><th scope="col">Indexes</th>
        <th scope="col">Capacity</th><th scope="col" class="number">Items</th><th scope="col" class="number">Size</th><th scope="col">Status</th></tr></thead>
      <tbody>${shown.map((name) => html`<${Row} key=${name} name=${name} table=${attribute(described, name)} />`)}</tbody>
    </table></div>`}
    ${names.length > shown.length && html`<p class="hint">${count(names.length - shown.length)} more tables: search for a part of their name.</p>`}
    ${Creating && html`<${Creating} onClose=${(made) => { setCreating(null); if (made) reload(); }} />`}`;
}

function Row({ name, table }) {
  const keys = table && !table.problem ? keysOf(table) : null;
  const indexes = [...(table?.GlobalSecondaryIndexes ?? []), ...(table?.LocalSecondaryIndexes ?? [])];
  return html`<tr>
    <td><a href=${link("table", name, "items")}>${name}</a></td>
    <td>${keys?.hash.map((k) => html`<span class="key">${k.name} <span class="type">${k.type}</span></span>`)}</td>
    <td>${keys?.range.map((k) => html`<span class="key">${k.name} <span class="type">${k.type}</span></span>`)}</td>
    <td>${indexes.length > 0 && html`<span title=${indexes.map((i) => i.IndexName).join(", ")}>${indexes.length}</span>`}</td>
    <td>${table && !table.problem && capacity(table)}</td>
    <td class="number">${count(table?.ItemCount)}</td>
    <td class="number">${bytes(table?.TableSizeBytes)}</td>
    <td>${table?.problem ?? html`<span class=${"status " + (table?.TableStatus ?? "").toLowerCase()}>${table?.TableStatus ?? "…"}</span>`}</td>
  </tr>`;
}

function capacity(table) {
  if (table.BillingModeSummary?.BillingMode === "PAY_PER_REQUEST") return "on demand";
  const p = table.ProvisionedThroughput;
  return `${count(p.ReadCapacityUnits)} R, ${count(p.WriteCapacityUnits)} W`;
}
