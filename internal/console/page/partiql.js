// Statements of PartiQL, with completion of names and keywords.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { draft, tableNames } from "./state.js";
import { call, describe, loadTables, unitsOf } from "./api.js";
import { Grid, Problem, count, units } from "./ui.js";
import { indexesOf, keysOf } from "./schema.js";
import { attribute, summary, typeOf } from "./values.js";
import { CopyAs } from "./copyas.js";

const keywords = ["SELECT", "FROM", "WHERE", "AND", "OR", "NOT", "IN", "BETWEEN", "IS MISSING", "IS NOT MISSING", "ORDER BY", "ASC", "DESC", "INSERT INTO", "VALUE", "UPDATE", "SET", "REMOVE", "DELETE FROM", "RETURNING ALL OLD *", "begins_with(", "contains(", "attribute_type(", "size(", "EXISTS("];
const maxHistory = 20;

export default function PartiQL() {
  const text = draft.value;
  const setText = (t) => (draft.value = t);
  const [page, setPage] = useState(null);
  const [tokens, setTokens] = useState([undefined]);
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const [showsRequest, setShowsRequest] = useState(false);
  const [history, setHistory] = useState([]);
  const words = useWords(text, page);
  const request = { operation: "ExecuteStatement", input: { Statement: text.trim(), Limit: 100 } };
  const isSelect = /^\s*select\b/i.test(text);
  const read = async (newTokens) => {
    if (!text.trim()) return;
    setBusy(true);
    setError(null);
    const began = performance.now();
    const input = { Statement: text.trim(), ...(isSelect && { Limit: 100 }), ...(newTokens.at(-1) && { NextToken: newTokens.at(-1) }), ReturnConsumedCapacity: "TOTAL" };
    try {
      const reply = await call("ExecuteStatement", input);
      setPage({ items: reply.Items ?? [], units: unitsOf(reply), next: reply.NextToken, ms: performance.now() - began, wrote: !isSelect });
      setTokens(newTokens);
      setHistory((before) => [text, ...before.filter((t) => t !== text)].slice(0, maxHistory));
    } catch (err) {
      setError(err);
      setPage(null);
    } finally {
      setBusy(false);
    }
  };
  const columns = useMemo(() => {
    const names = [...new Set((page?.items ?? []).flatMap((i) => Object.keys(i)))].slice(0, 30);
    return names.map((name) => ({ name, cell: (item) => {
      const value = attribute(item, name);
      return value === undefined ? "" : ["S", "N"].includes(typeOf(value)) ? summary(value) : html`<span class="type">${typeOf(value)}</span> ${summary(value)}`;
    } }));
  }, [page]);
  const scans = isSelect && words.table && !usesKey(text, words.table);
  return html`<div class="bar"><h1>PartiQL</h1></div>
    <div class="card form">
      <${Completing} value=${text} words=${words.list} onInput=${setText} onRun=${() => read([undefined])} />
      <div class="row middle">
        <button type="button" class="primary" data-key="r" disabled=${busy || !text.trim()} onClick=${() => read([undefined])}>Run</button>
        ${isSelect && words.table && html`<span class=${"badge " + (scans ? "scan" : "query")}>${scans ? "Scan" : "Query"}</span>`}
        ${scans && html`<span class="hint">the partition key is not in the WHERE clause: the whole ${words.index ? "index" : "table"} is read</span>`}
        <span class="push"></span>
        ${history.length > 0 && html`<select aria-label="Earlier statements" value="" onChange=${(e) => setText(e.target.value)}><option value="">Earlier …</option>${history.map((h) => html`<option value=${h}>${h.slice(0, 80)}</option>`)}</select>`}
        <button type="button" data-key="e" aria-expanded=${showsRequest} disabled=${!text.trim()} onClick=${() => setShowsRequest(!showsRequest)}>Request</button>
      </div>
      ${showsRequest && html`<${CopyAs} request=${request} />`}
    </div>
    <${Problem} error=${error} />
    ${page && html`<div class="meter" role="status"><span><strong>${count(page.items.length)}</strong> items</span><span class="units"><strong>${units(page.units)}</strong></span><span><strong>${Math.round(page.ms)}</strong> ms</span>${page.wrote && html`<span>done</span>`}</div>
      <${Grid} label="Items" columns=${columns} rows=${page.items} empty=${page.next ? "No item of this page matches." : "No items."} />
      <div class="bar pager">
        <button type="button" data-key="[" disabled=${tokens.length < 2 || busy} onClick=${() => read(tokens.slice(0, -1))}>Previous</button><span class="hint">page ${tokens.length}</span>
        <button type="button" data-key="]" disabled=${!page.next || busy} onClick=${() => read([...tokens, page.next])}>Next</button></div>`}`;
}

/** What may follow in a statement: keywords, tables, indexes and attributes of the table that it names. */
function useWords(text, page) {
  const [table, setTable] = useState(null);
  const [, name, index] = /\b(?:from|into|update)\s+"?([\w.-]+?)"?(?:\."([\w.-]+)")?(?:\s|$)/i.exec(text) ?? [];
  useEffect(() => {
    if (!tableNames.value) loadTables().catch(() => {});
  }, []);
  useEffect(() => {
    setTable(null);
    if (name && tableNames.value?.includes(name)) describe(name).then(setTable, () => {});
  }, [name, tableNames.value]);
  const attributes = new Set(table?.AttributeDefinitions.map((d) => d.AttributeName) ?? []);
  for (const item of page?.items.slice(0, 50) ?? []) for (const n of Object.keys(item)) attributes.add(n);
  const quoted = (n) => `"${n.replaceAll('"', '""')}"`;
  const list = [
    ...[...attributes].map((n) => ({ text: quoted(n), kind: "attribute" })),
    ...(tableNames.value ?? []).map((n) => ({ text: quoted(n), kind: "table" })),
    ...(table ? indexesOf(table).map((i) => ({ text: `${quoted(table.TableName)}.${quoted(i.IndexName)}`, kind: "index" })) : []),
    ...keywords.map((k) => ({ text: k, kind: "keyword" })),
  ];
  return { list, table: table && { table, index }, index };
}

/** Whether a statement tests the partition key for equality, so that it reads one partition. */
function usesKey(text, { table, index }) {
  const where = text.split(/\bwhere\b/i)[1] ?? "";
  if (/\bor\b/i.test(where.replace(/'(?:[^']|'')*'/g, ""))) return false;
  const known = !index || indexesOf(table).some((i) => i.IndexName === index);
  return known && keysOf(table, index ?? "").hash.every((k) => new RegExp(`(^|[^\\w."])"?${escaped(k.name)}"?\\s*(=|\\bin\\b)`, "i").test(where));
}

const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A field that completes the word before the cursor. */
function Completing({ value, words, onInput, onRun }) {
  const field = useRef(null);
  const [word, setWord] = useState(null); // {text, from}, the word before the cursor
  const [at, setAt] = useState(0);
  const found = word ? words.filter((w) => matches(w.text, word.text)).slice(0, 8) : [];
  const look = () => {
    const before = field.current.value.slice(0, field.current.selectionStart);
    const text = /["\w.()-]+$/.exec(before)?.[0] ?? "";
    setWord(text.length > 0 ? { text, from: before.length - text.length } : null);
    setAt(0);
  };
  const choose = (chosen) => {
    const { selectionStart: to } = field.current;
    const next = value.slice(0, word.from) + chosen.text + (chosen.text.endsWith("(") ? "" : " ");
    onInput(next + value.slice(to).replace(/^"/, ""));
    setWord(null);
    setTimeout(() => {
      field.current.focus();
      field.current.setSelectionRange(next.length, next.length);
    });
  };
  const onKey = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) onRun();
    else if (found.length && event.key === "ArrowDown") setAt((at + 1) % found.length);
    else if (found.length && event.key === "ArrowUp") setAt((at + found.length - 1) % found.length);
    else if (found.length && (event.key === "Tab" || event.key === "Enter")) choose(found[at]);
    else if (found.length && event.key === "Escape") setWord(null);
    else return;
    event.preventDefault();
  };
  return html`<div class="completing">
    <textarea ref=${field} data-search class="code" rows="4" spellcheck="false" aria-label="Statement" role="combobox" aria-expanded=${found.length > 0} aria-controls="completions" aria-autocomplete="list" aria-activedescendant=${found.length ? "completion" + at : undefined}
      placeholder=${'SELECT * FROM "Orders" WHERE "customer" = \'c-001\''} value=${value} onInput=${(e) => { onInput(e.target.value); look(); }} onKeyDown=${onKey} onBlur=${() => setTimeout(() => setWord(null), 200)}></textarea>
    <ul id="completions" role="listbox" aria-label="Completions" hidden=${found.length === 0}>${found.map((w, i) => html`<li id=${"completion" + i} role="option" aria-selected=${i === at} onMouseDown=${(e) => { e.preventDefault(); choose(w); }}>${w.text} <span class="type">${w.kind}</span></li>`)}</ul>
  </div>`;
}

const bare = (text) => text.replaceAll('"', "").toLowerCase();
const matches = (candidate, typed) => bare(typed) !== "" && bare(candidate).startsWith(bare(typed)) && candidate !== typed;
