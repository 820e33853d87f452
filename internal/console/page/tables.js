// The list of tables.
import { html, useLayoutEffect, useState } from "./html.js";
import { link, route, tableNames, mayWrite, writing, session } from "./state.js";
import { describe, listTables, loadTables } from "./api.js";
import { Problem, bytes, count } from "./ui.js";
import { keysOf } from "./schema.js";
import { attribute } from "./values.js";

const maxDescribed = 100; // descriptions that are read for one view of the list
const atOnce = 4;

/** What prepare reads: for whom and where, the names, and the first descriptions by name. */
let prepared = null;

/** Reads what the list shows first, so that it is drawn once: each frame takes a tenth of the first view. */
export async function prepare() {
  const described = new Map();
  const names = listTables().then((found) => {
    for (const name of found.slice(0, atOnce)) described.set(name, describe(name, true));
    tableNames.value = found;
  });
  prepared = { session: session.value, route: route.value, names, described };
  await names;
  await Promise.allSettled(described.values());
}

/** Takes what was prepared, unless somebody else has signed in, or another view was opened since. */
function takePrepared() {
  const found = prepared;
  prepared = null;
  return found?.session === session.value && found?.route === route.value ? found : { described: new Map() };
}

export default function Tables() {
  const [error, setError] = useState(null);
  const [search, setSearch] = useState("");
  const [described, setDescribed] = useState({});
  const [creating, setCreating] = useState(null);
  const [first] = useState(takePrepared);
  const [times, setTimes] = useState(0); // that the names were read
  const read = () => setTimes((before) => before + 1);
  // Layout effects, since others wait for the next frame.
  useLayoutEffect(() => {
    (first.names ?? loadTables()).then(read, setError);
  }, []);
  const names = (tableNames.value ?? []).filter((n) => n.toLowerCase().includes(search.toLowerCase()));
  const shown = names.slice(0, maxDescribed);
  useLayoutEffect(() => {
    if (times === 0) return; // the names are those of an earlier visit
    let over = false;
    const waiting = shown.filter((n) => !Object.hasOwn(described, n));
    const next = async () => {
      for (let name; !over && (name = waiting.shift()); ) {
        const asked = first.described.get(name) ?? describe(name, true);
        first.described.delete(name);
        const table = await asked.catch((err) => ({ problem: err.code ?? err.message }));
        if (!over) setDescribed((before) => ({ ...before, [name]: table }));
      }
    };
    for (let i = 0; i < atOnce; i++) next();
    return () => (over = true);
  }, [times, search]);
  const create = async () => {
    const { CreateTable } = await import("./create.js");
    setCreating(() => CreateTable);
  };
  const reload = () => {
    first.described.clear();
    setDescribed({});
    setError(null);
    loadTables().then(read, setError);
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
