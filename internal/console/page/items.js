// Items of a table: the query builder, the grid, pages.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { route, replaceQuery, writing, mayWrite } from "./state.js";
import { call, callPatiently, unitsOf } from "./api.js";
import { Grid, Problem, count, units } from "./ui.js";
import { keysOf, keyOf, keyNames, indexOf } from "./schema.js";
import { summary, attribute, typeOf } from "./values.js";
import { build, emptyQuery } from "./request.js";
import { QueryBuilder } from "./builder.js";
import { CopyAs } from "./copyas.js";
import { AsOf, atSecond } from "./asof.js";
import { PastProblem, PastProgress, pastLink } from "./past.js";

const maxEmptyPages = 10; // requests for one page whose items are all filtered out
const maxKeys = 1000; // keys of earlier pages that are kept, to go back
const maxColumns = 24;

/** The query in the address, or an empty one, the second of the past (0 is now), and whether to choose one. */
function queryOfAddress() {
  try {
    const { at, choose, ...query } = JSON.parse(route.value.query || "{}");
    return { query: { ...emptyQuery(), ...query }, at: Number.isSafeInteger(at) ? at : 0, choose: !!choose };
  } catch {
    return { query: emptyQuery(), at: 0 };
  }
}

export default function Items({ table, refresh }) {
  const [query, setQuery] = useState(() => queryOfAddress().query);
  const [at, setAt] = useState(() => queryOfAddress().at);
  const [choosing, setChoosing] = useState(() => !!queryOfAddress().choose);
  const [progress, setProgress] = useState(null);
  const [page, setPage] = useState(null);
  const [starts, setStarts] = useState([undefined]); // the keys after which the pages up to this one start; of the last ones only
  const [number, setNumber] = useState(1); // of the page
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [selected, setSelected] = useState(new Set());
  const [showsRequest, setShowsRequest] = useState(false);
  const [dialog, setDialog] = useState(null);
  const running = useRef(null);

  const built = useMemo(() => {
    try {
      return { request: atSecond(build(table, query), at) };
    } catch (err) {
      return { fault: err.message };
    }
  }, [table, query, at]);

  const stop = () => running.current?.abort();

  /** Reads a page. Pages without items are skipped, up to a limit. */
  const read = async (newStarts, newNumber = 1) => {
    if (built.fault) return;
    stop();
    const abort = (running.current = new AbortController());
    setBusy(true);
    setError(null);
    const began = performance.now();
    const { operation, input } = built.request;
    const found = { operation, input, items: [], units: 0, scanned: 0, requests: 0, ms: 0, next: newStarts.at(-1) };
    try {
      do {
        const from = found.next ? { ExclusiveStartKey: found.next } : {};
        const asked = { ...input, ...from, ReturnConsumedCapacity: "TOTAL" };
        const reply = await (at ? callPatiently(operation, asked, abort.signal, setProgress) : call(operation, asked, abort.signal));
        found.items = reply.Items;
        found.units += unitsOf(reply);
        found.scanned += reply.ScannedCount;
        found.next = reply.LastEvaluatedKey;
        found.requests++;
      } while (found.items.length === 0 && found.next && found.requests < maxEmptyPages);
      found.ms = performance.now() - began;
      setPage(found);
      setStarts(newStarts.slice(-maxKeys));
      setNumber(newNumber);
      setSelected(new Set());
    } catch (err) {
      if (err.name !== "AbortError") setError(err);
    } finally {
      if (running.current === abort) {
        setBusy(false);
        setProgress(null);
      }
    }
  };

  const run = () => {
    replaceQuery(JSON.stringify({ ...onlyGiven(query), ...(at && { at }) }));
    read([undefined]);
  };
  useEffect(() => {
    run();
    return stop;
  }, [at]);

  const again = () => {
    refresh();
    read(starts, number);
  };
  const open = async (what) => {
    const { default: loaded } = await (at ? import("./pastitem.js") : import("./editor.js"));
    setDialog({ View: loaded, props: { ...what, at } });
  };
  const travel = (second) => {
    setChoosing(false);
    if (second === at) return;
    setPage(null);
    setAt(second);
  };
  const openBulk = async (kind) => {
    const module = await import("./bulk.js");
    setDialog({ View: module[kind], props: { request: page, items: [...selected].map((i) => page.items[i]) } });
  };
  const openTransfer = async (kind) => {
    const module = await import("./transfer.js");
    setDialog({ View: module[kind], props: { request: page, items: selected.size ? [...selected].map((i) => page.items[i]) : null } });
  };
  const close = (changed) => {
    setDialog(null);
    if (changed) again();
  };

  const columns = useMemo(() => columnsOf(table, query.index, page?.items ?? []), [table, page]);
  const isQuery = !!built.request?.operation.includes("Query");
  const Open = dialog?.View;
  return html`<${AsOf} table=${table} at=${at} choosing=${choosing} onChoosing=${setChoosing} onChange=${travel} />
    <${QueryBuilder} table=${table} query=${query} onChange=${setQuery} onRun=${run} />
    <div class="bar">
      <button type="button" class="primary" data-key="r" disabled=${!!built.fault} onClick=${run}>Run</button>
      ${busy && html`<button type="button" onClick=${stop}>Stop</button>`}
      ${built.fault ? html`<span class="invalid" role="alert">${built.fault}</span>` : html`<span class=${"badge " + (isQuery ? "query" : "scan")}>${isQuery ? "Query" : "Scan"}</span>
        <span class="hint">${isQuery ? `reads the items of one partition key${query.index ? " in " + query.index : ""}` : scanHint(table, query)}</span>`}
      <span class="push"></span>
      <button type="button" data-key="e" aria-expanded=${showsRequest} disabled=${!built.request} onClick=${() => setShowsRequest(!showsRequest)}>Request</button>
      <${Menu} label="Actions" entries=${[
        { title: selected.size ? `Edit ${selected.size} selected` : "Edit all matching", needs: "write", run: () => openBulk("BulkEdit") },
        { title: selected.size ? `Delete ${selected.size} selected` : "Delete all matching", needs: "write", run: () => openBulk("BulkDelete") },
        { title: selected.size ? `Export ${selected.size} selected` : "Export all matching", run: () => openTransfer("Export") },
        { title: "Import", needs: "write", run: () => openTransfer("Import") },
        ...(at ? [{ title: "Undo all changes since then …", run: () => (location.hash = pastLink(table, "undo", { from: at + 1 })) }, { title: "Restore the table to this second …", run: () => (location.hash = pastLink(table, "restore", { at })) }] : []),
      ].filter((e) => e.needs !== "write" || (mayWrite.value && !at))} disabled=${!page} />
      ${!at && html`<button type="button" data-key="t" aria-expanded=${choosing} onClick=${() => setChoosing(!choosing)}>As of …</button>`}
      ${mayWrite.value && !at && html`<button type="button" data-key="n" disabled=${!writing.value} title=${writing.value ? "" : "Switch changes on first"} onClick=${() => open({ item: null })}>New item</button>`}
    </div>
    ${showsRequest && built.request && html`<div class="card"><${CopyAs} request=${built.request} table=${table} /></div>`}
    ${at ? html`<${PastProblem} error=${error} table=${table} operation=${built.request?.operation ?? "Stator.ScanAt"} onKept=${again} />` : html`<${Problem} error=${error} />`}
    <${PastProgress} progress=${progress} />
    ${page && html`<${Meter} page=${page} />`}
    <${Grid} label="Items" columns=${columns} rows=${page?.items ?? []} selected=${selected} onSelect=${setSelected}
      onOpen=${(item) => open({ itemKey: keyOf(table, item) })}
      action=${{ title: "History", sign: "◷", key: "h", run: (item) => (location.hash = pastLink(table, "history", { key: keyOf(table, item) })) }}
      empty=${busy ? "Reading …" : !page ? "Not run yet." : page.next ? `No item matches within ${count(page.scanned)} items that were read so far.` : "No items match."} />
    <div class="bar pager">
      <button type="button" onClick=${() => read([undefined])} disabled=${number === 1 || busy}>First page</button>
      <button type="button" data-key="[" onClick=${() => read(starts.slice(0, -1), number - 1)} disabled=${starts.length < 2 || busy}>Previous</button>
      <span class="hint">page ${count(number)}</span>
      <button type="button" data-key="]" onClick=${() => read([...starts, page.next], number + 1)} disabled=${!page?.next || busy}>Next</button>
    </div>
    ${Open && html`<${Open} table=${table} ...${dialog.props} onClose=${close} />`}`;
}

/** A query without the members that have their defaults, for a short address. */
function onlyGiven(query) {
  const plain = emptyQuery();
  return Object.fromEntries(Object.entries(query).filter(([k, v]) => JSON.stringify(v) !== JSON.stringify(plain[k])));
}

function scanHint(table, query) {
  const size = query.index ? indexOf(table, query.index) : table;
  const bytes = size.IndexSizeBytes ?? size.TableSizeBytes ?? 0;
  const all = Math.ceil(bytes / 4096) * (query.consistent ? 1 : 0.5);
  return `reads ${query.index ? "the whole index" : "the whole table"}, ${query.limit} items at a time: about ${units(Math.max(all, 0.5))} for all of it`;
}

/** What a page has cost. */
function Meter({ page }) {
  const wasted = page.scanned - page.items.length;
  return html`<div class="meter" role="status">
    <span><strong>${count(page.items.length)}</strong> ${page.items.length === 1 ? "item" : "items"}</span>
    <span><strong>${count(page.scanned)}</strong> read</span>
    <span class="units"><strong>${units(page.units)}</strong></span>
    <span><strong>${Math.round(page.ms)}</strong> ms</span>
    ${page.requests > 1 && html`<span>${page.requests} requests</span>`}
    ${wasted > 0 && html`<span>${count(wasted)} read and paid for, but filtered out</span>`}
  </div>`;
}

/** Columns of a page: keys first, then the attributes that most items have. */
function columnsOf(table, index, items) {
  const keys = [...keyNames(table)];
  if (index) {
    const { hash, range } = keysOf(table, index);
    for (const k of [...hash, ...range]) if (!keys.includes(k.name)) keys.push(k.name);
  }
  const seen = new Map();
  for (const item of items) for (const name of Object.keys(item)) if (!keys.includes(name)) seen.set(name, (seen.get(name) ?? 0) + 1);
  const others = [...seen.keys()].sort((a, b) => seen.get(b) - seen.get(a) || (a < b ? -1 : 1)).slice(0, maxColumns);
  const number = (name) => items.length > 0 && items.every((i) => !attribute(i, name) || typeOf(i[name]) === "N") && items.some((i) => attribute(i, name));
  return [...keys.map((name) => ({ name, badge: "key" })), ...others.map((name) => ({ name }))].map((c) => ({ ...c, number: number(c.name) && c.badge !== "key", cell: (item) => cell(attribute(item, c.name)) }));
}

function cell(value) {
  if (value === undefined) return "";
  const type = typeOf(value);
  if (type === "S") return value.S === "" ? html`<span class="type">empty</span>` : summary(value);
  if (type === "N") return value.N;
  return html`<span class="type">${type}</span> ${summary(value)}`;
}

/** A menu of actions. */
function Menu({ label, entries, disabled }) {
  const ref = useRef(null);
  const run = (entry) => {
    ref.current.open = false;
    entry.run();
  };
  return html`<details class="menu" ref=${ref} onKeyDown=${(e) => { if (e.key === "Escape") { ref.current.open = false; ref.current.firstElementChild.focus(); } }}>
    <summary class="button" aria-disabled=${disabled}>${label} ▾</summary>
    <div class="entries">${entries.map((e) => {
      const off = disabled || (e.needs === "write" && !writing.value);
      return html`<button type="button" disabled=${off} title=${off ? "Switch changes on first" : ""} onClick=${() => run(e)}>${e.title}</button>`;
    })}</div>
  </details>`;
}

