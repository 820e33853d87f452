// The stream of a table, live: what changes, and how.
import { html, useEffect, useMemo, useRef, useState } from "./html.js";
import { mayWrite, writing } from "./state.js";
import { call } from "./api.js";
import { Problem, copy, count, toast, useAction } from "./ui.js";
import { keyNames } from "./schema.js";
import { plainText } from "./values.js";
import { clockTime } from "./poll.js";
import { Feed } from "./feed.js";
import { Images, changeText, keyText } from "./images.js";
import { Tail } from "./tail.js";
import "./nowstyle.js";

const maxKept = 1000;
const maxKeptBytes = 20e6;
const kinds = ["INSERT", "MODIFY", "REMOVE"];

export default function Stream({ table, refresh }) {
  if (!table.LatestStreamArn || !table.StreamSpecification?.StreamEnabled) return html`<${NoStream} table=${table} refresh=${refresh} />`;
  return html`<${Live} table=${table} key=${table.LatestStreamArn} />`;
}

function NoStream({ table, refresh }) {
  const [enable, busy] = useAction(async () => {
    await call("UpdateTable", { TableName: table.TableName, StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" } });
    toast("The stream is on.");
    await refresh();
  });
  return html`<div class="card form"><h2>This table has no stream</h2>
    <p>A stream keeps the changes of the last 24 hours. Switch it on to see changes here from then on${table.LatestStreamArn ? "" : ", and to run triggers"}.</p>
    ${mayWrite.value && html`<div><button type="button" class="primary" disabled=${!writing.value || busy} title=${writing.value ? "" : "Switch changes on first"} onClick=${enable}>Switch the stream on</button></div>`}
  </div>`;
}

/** What a record of GetRecords is in the list. */
function rowOf(record, arrived) {
  const d = record.dynamodb;
  return {
    id: record.eventID, arrived, kind: record.eventName, at: d.ApproximateCreationDateTime, key: keyText(d.Keys), before: d.OldImage, after: d.NewImage, keys: d.Keys,
    expired: record.userIdentity?.Type === "Service", bytes: d.SizeBytes ?? 1000, record,
  };
}

/** All text of a record in which one searches. */
const textOf = (row) => (row.text ??= plainText({ M: { ...row.keys, ...(row.before && { before: { M: row.before } }), ...(row.after && { after: { M: row.after } }) } }).toLowerCase());

/** Whether a record has a text, or, as in status=paid, the text in an attribute. */
export function matches(row, search) {
  const [, name, value] = /^([^=\s]+)=(.*)$/.exec(search) ?? [];
  if (name === undefined) return textOf(row).includes(search.toLowerCase());
  const wanted = value.trim().toLowerCase();
  return [row.before, row.after, row.keys].some((image) => image && Object.hasOwn(image, name) && plainText(image[name]).toLowerCase().includes(wanted));
}

/** The newest records that are kept. */
function keep(rows) {
  let bytes = 0, n = 0;
  while (n < rows.length && n < maxKept && (bytes += rows[n].bytes) <= maxKeptBytes) n++;
  return n === rows.length ? rows : rows.slice(0, Math.max(1, n));
}

function Live({ table }) {
  const view = table.StreamSpecification.StreamViewType;
  const has = { before: view.includes("OLD"), after: view.includes("NEW") };
  const names = keyNames(table);
  const [start, setStart] = useState("LATEST");
  const [time, setTime] = useState("");
  const [rows, setRows] = useState([]);
  const [state, setState] = useState({ phase: "starting" });
  const [shown, setShown] = useState(new Set(kinds));
  const [key, setKey] = useState("");
  const [search, setSearch] = useState("");
  const [attempt, setAttempt] = useState(0);
  const tail = useRef(null);
  const from = start === "TIME" ? Date.parse(time) : start;
  useEffect(() => {
    setRows([]);
    if (Number.isNaN(from)) {
      setState({ phase: "waiting" });
      return undefined;
    }
    let arrived = 0;
    // Records that arrive together are drawn together.
    let waiting = [], timer;
    const draw = () => {
      timer = undefined;
      const added = waiting;
      waiting = [];
      setRows((before) => keep([...added, ...before].sort((a, b) => b.at - a.at || b.arrived - a.arrived)));
    };
    tail.current = new Tail({
      arn: table.LatestStreamArn, start: from, onState: setState,
      onRecords: (records) => {
        waiting.push(...records.map((r) => rowOf(r, ++arrived)));
        if (waiting.length > 4 * maxKept) waiting = waiting.slice(-2 * maxKept);
        timer ??= setTimeout(draw, 100);
      },
    });
    return () => {
      clearTimeout(timer);
      tail.current.stop();
    };
  }, [from, attempt]);
  const paused = state.phase === "paused";
  const matching = useMemo(() => rows.filter((r) => shown.has(r.kind) && (!key || r.key.toLowerCase().includes(key.toLowerCase())) && (!search || matches(r, search))), [rows, shown, key, search]);
  const toggle = (kind) => {
    const next = new Set(shown);
    if (!next.delete(kind)) next.add(kind);
    setShown(next);
  };
  const columns = [
    { title: "Time", cell: (r) => clockTime(r.at), class: "time" },
    { title: "Event", cell: (r) => html`<span class=${"badge event " + r.kind.toLowerCase()}>${r.kind.toLowerCase()}</span>${r.expired && html` <span class="badge" title="Removed by time to live">expired</span>`}`, class: "time" },
    { title: names.join(" / "), cell: (r) => html`<span class="mono">${r.key}</span>`, class: "keycell" },
    { title: "Changes", class: "changes",
      cell: (r) => html`<span class="mono">${r.kind !== "MODIFY" || (has.before && has.after) ? changeText(names, r.before, r.after) : ""}</span>` },
  ];
  const detail = (r) => html`${has.before || has.after ? html`<${Images} keys=${names} before=${r.before} after=${r.after} has=${has} />` : html`<${Images} keys=${names} after=${r.keys} has=${{ after: true }} />`}
    <div class="bar"><span class="hint">sequence number ${r.record.dynamodb.SequenceNumber}${view === "NEW_AND_OLD_IMAGES" ? "" : `; the stream has ${view.toLowerCase().replaceAll("_", " ")} only`}</span><span class="push"></span>
      <button type="button" onClick=${() => copy(JSON.stringify(r.record, null, 2))}>Copy record</button></div>`;
  return html`<div class="bar tailbar">
      <button type="button" class=${paused ? "primary" : ""} data-key="p" disabled=${!["live", "paused"].includes(state.phase)} onClick=${() => (paused ? tail.current.resume() : tail.current.pause())}>${paused ? "Continue" : "Pause"}</button>
      <button type="button" data-key="c" disabled=${rows.length === 0} onClick=${() => setRows([])}>Clear</button>
      <label>From <select value=${start} onChange=${(e) => setStart(e.target.value)}><option value="LATEST">now on</option><option value="TRIM_HORIZON">the oldest (24 h)</option><option value="TIME">a time</option></select></label>
      ${start === "TIME" && html`<label><span class="hidden">Time to start at</span><input type="datetime-local" step="1" value=${time} onChange=${(e) => setTime(e.target.value)} /></label>`}
      <fieldset class="kinds"><legend class="hidden">Events</legend>${kinds.map((kind) => html`<label><input type="checkbox" checked=${shown.has(kind)} onChange=${() => toggle(kind)} /> ${kind.toLowerCase()}</label>`)}</fieldset>
      <label class="grow"><span class="hidden">Filter by key</span><input placeholder="Key contains" value=${key} onInput=${(e) => setKey(e.target.value)} /></label>
      <label class="grow"><span class="hidden">Filter by text of attributes</span><input data-search type="search" placeholder="Text, or status=paid  ( / )" value=${search} onInput=${(e) => setSearch(e.target.value)} /></label>
    </div>
    <${Problem} error=${state.error} />
    <div class="meter"><${Phase} state=${state} />
      ${state.shards !== undefined && html`<span>${count(state.shards)} ${state.shards === 1 ? "shard" : "shards"}</span>`}
      <span><strong>${count(state.read ?? 0)}</strong> records read</span>
      ${matching.length !== rows.length && html`<span><strong>${count(matching.length)}</strong> match</span>`}
      ${rows.length < (state.read ?? 0) && rows.length > 0 && html`<span>the newest ${count(rows.length)} are kept</span>`}
      ${state.left > 0 && html`<span>${count(state.left)} older ones were read and left out</span>`}
      ${state.lost && html`<span class="invalid">records older than 24 hours were lost</span>`}
      ${state.phase === "ended" && html`<button type="button" onClick=${() => setAttempt(attempt + 1)}>Start again</button>`}
    </div>
    <${Feed} wide label="Changes" columns=${columns} rows=${matching} detail=${detail}
      empty=${state.phase === "waiting" ? "Choose a time." : rows.length ? "No record matches the filters." : start === "LATEST" ? "Waiting for changes. Write to the table, and they appear here." : "The stream has no records from then on."} />`;
}

/** What the reader does. It is announced when it changes. */
function Phase({ state }) {
  const text = state.phase === "live" ? (state.catchingUp ? `catching up, at ${clockTime(state.reached)}` : "live") : { starting: "starting …", paused: "paused", ended: "ended", waiting: "not started" }[state.phase];
  return html`<span class=${"phase " + (state.phase === "live" && state.catchingUp ? "catching" : state.phase)} role="status">${text}</span>`;
}
