// Triggers: how far each is, and the records that it has given up.
import { html, useRef, useState } from "./html.js";
import { link, mayWrite, writing } from "./state.js";
import { call } from "./api.js";
import { Dialog, Problem, copy, count, toast, useAction } from "./ui.js";
import { callOften, clockTime, duration, since, useReply } from "./poll.js";
import { lacks } from "./now.js";
import { Feed } from "./feed.js";
import { Images, keyText } from "./images.js";

const every = 2000;

export default function Triggers({ steps: [name] }) {
  return name === undefined ? html`<${List} />` : html`<${DeadLetters} name=${name} key=${name} />`;
}

async function allTriggers(signal) {
  const found = [];
  let token;
  do {
    const page = await callOften("Stator.ListTriggers", token ? { NextToken: token } : {}, signal);
    found.push(...page.Triggers);
    token = page.NextToken;
  } while (token);
  return found;
}

const states = {
  ACTIVE: ["active", "active", "It delivers records as they are written."],
  RETRYING: ["retrying", "retrying", "The endpoint rejects a batch, which is sent again."],
  NO_STREAM: ["waiting", "no stream", "The table does not exist, or has no stream that is enabled."],
  NOT_LEADER: ["", "not the leader", "Another server delivers. It knows of retries and errors; the positions are those of all servers."],
};

function List() {
  const [triggers, error] = useReply(allTriggers, every);
  if (lacks(error)) return html`<div class="card"><h2>No triggers</h2><p>This endpoint does not have triggers: they are a feature of stator. With AWS, event source mappings of Lambda do this.</p></div>`;
  return html`<${Problem} error=${error} />
    ${triggers?.length === 0 && html`<div class="card"><h2>No triggers</h2><p>This server runs without triggers. A trigger posts the changes of a table to an HTTP endpoint; it is configured in the file of <code>stator serve --config</code>.</p></div>`}
    <div class="stacked">${triggers?.map((t) => html`<${Trigger} key=${t.TriggerName} t=${t} />`)}</div>`;
}

function Trigger({ t }) {
  const sum = (member) => t.Parts.reduce((total, p) => total + (p[member] ?? 0), 0);
  const behind = sum("RecordsBehind");
  const oldest = Math.min(...t.Parts.map((p) => p.OldestRecordAt ?? Infinity));
  const retries = Math.max(0, ...t.Parts.map((p) => p.ConsecutiveErrors));
  const failed = t.Parts.filter((p) => p.LastError).sort((a, b) => b.LastErrorAt - a.LastErrorAt)[0];
  const delivered = Math.max(0, ...t.Parts.map((p) => p.LastDeliveryAt ?? 0));
  const [kind, text, title] = states[t.State] ?? ["", t.State.toLowerCase(), ""];
  return html`<section class="card"><div class="bar"><h2>${t.TriggerName}</h2><span class=${"badge state " + kind} title=${title}>${text}</span>
      <span class="hint">table <a href=${link("table", t.TableName, "items")}>${t.TableName}</a> to <span class="mono">${t.Endpoint}</span></span><span class="push"></span>
      ${t.DeadLetterFile && html`<a href=${link("now", "triggers", t.TriggerName)}>Dead letters</a>`}</div>
    <dl class="figures">
      <div><dt>records behind</dt><dd class=${behind ? "warn" : ""}>${count(behind)}${t.Parts.some((p) => p.RecordsBehindIsMore) ? "+" : ""}</dd></div>
      <div><dt>age of the oldest</dt><dd class=${oldest < Infinity ? "warn" : ""}>${oldest < Infinity ? since(oldest) : "–"}</dd></div>
      <div><dt>failed attempts in a row</dt><dd class=${retries ? "bad" : ""}>${count(retries)}</dd></div>
      <div><dt>delivered since the start</dt><dd>${count(sum("RecordsDelivered"))}</dd></div>
      <div><dt>last delivery</dt><dd>${delivered ? clockTime(delivered) : "–"}</dd></div>
      ${t.DeadLetterFile && html`<div><dt>dead letters</dt><dd class=${t.DeadLetters ? "bad" : ""}>${count(t.DeadLetters)}${t.DeadLettersCounted ? "" : "+"}</dd></div>`}
    </dl>
    ${failed && html`<p class=${retries ? "problem" : "hint"}>Last error, at ${clockTime(failed.LastErrorAt)}: ${failed.LastError}</p>`}
    <details><summary>Positions and settings</summary>
      <div class="scroll"><table class="list"><thead><tr><th scope="col">Part</th><th scope="col">Next change</th><th scope="col" class="number">Behind</th><th scope="col" class="number">Age</th><th scope="col" class="number">Failed in a row</th><th scope="col" class="number">Delivered</th><th scope="col" class="number">Given up</th></tr></thead>
        <tbody>${t.Parts.map((p) => html`<tr><td>${p.Part + 1} of ${t.Parts.length}</td><td class="mono">${p.SequenceNumber ?? "–"}</td><td class="number">${count(p.RecordsBehind)}${p.RecordsBehindIsMore ? "+" : ""}</td>
          <td class="number">${p.OldestRecordAt ? since(p.OldestRecordAt) : "–"}</td><td class="number">${count(p.ConsecutiveErrors)}</td><td class="number">${count(p.RecordsDelivered)}</td><td class="number">${count(p.RecordsGivenUp)}</td></tr>`)}</tbody></table></div>
      <p class="hint">batches of ${count(t.BatchSize)}${t.Parallelism > 1 ? `, ${t.Parallelism} at a time for each part` : ""}${t.MaximumRetries === undefined ? "" : `, at most ${count(t.MaximumRetries)} retries`}${t.MaximumRecordAge ? `, records of at most ${duration(t.MaximumRecordAge)}` : ""}${t.DeadLetterFile ? html`; dead letters are in <code>${t.DeadLetterFile}</code>` : "; retried until they are delivered"}</p>
      ${t.Filters?.map((f) => html`<pre class="wrap">${f}</pre>`)}
    </details></section>`;
}

const conditions = { RetryAttemptsExhausted: "retries exhausted", RecordAgeExceeded: "too old" };

/** What a dead letter is in the list. Its record is JSON, as it was posted. */
function rowOf(letter) {
  let record = null;
  try {
    record = JSON.parse(letter.Record);
  } catch {
    // shown as text
  }
  const d = record?.dynamodb ?? {};
  return { ...letter, id: letter.DeadLetterId, record, keys: d.Keys, before: d.OldImage, after: d.NewImage, view: d.StreamViewType ?? "" };
}

function DeadLetters({ name }) {
  const [starts, setStarts] = useState([undefined]); // tokens of the pages up to this one
  const [changed, setChanged] = useState(0);
  const [asks, setAsks] = useState(false);
  const [progress, setProgress] = useState("");
  const stopped = useRef(false);
  const token = starts.at(-1);
  const [page, error] = useReply((signal) => callOften("Stator.ListDeadLetters", { TriggerName: name, ...(token && { NextToken: token }) }, signal), every, [token, changed]);
  const done = () => {
    setStarts([undefined]); // what was replayed is gone, and with it the tokens
    setChanged(changed + 1);
  };
  const told = (replayed, rejected, why) => {
    toast(`${count(replayed)} ${replayed === 1 ? "record was" : "records were"} replayed.${rejected ? ` ${count(rejected)} ${rejected === 1 ? "was" : "were"} rejected: ${why}` : ""}`, rejected ? "error" : "done");
    done();
  };
  const [replayOne, busy] = useAction(async (row) => {
    const reply = await call("Stator.ReplayDeadLetters", { TriggerName: name, DeadLetterIds: [row.id] });
    if (reply.NotFound?.length) {
      toast("The record was replayed already.", "error");
      done();
    } else told(reply.Replayed, reply.Rejected, reply.Failed[0]?.Error);
  });
  const [replayAll, busyAll] = useAction(async () => {
    let replayed = 0, rejected = 0, why = "", next;
    stopped.current = false;
    try {
      do {
        const reply = await call("Stator.ReplayDeadLetters", { TriggerName: name, All: true, ...(next && { NextToken: next }) });
        replayed += reply.Replayed;
        rejected += reply.Rejected;
        why = reply.Failed[0]?.Error ?? why;
        next = reply.NextToken;
        setProgress(`${count(replayed)} replayed, ${count(rejected)} rejected`);
        if (!reply.Replayed && next) {
          why += ". The others were not tried";
          break;
        }
      } while (next && !stopped.current);
    } finally {
      setProgress("");
      setAsks(false);
    }
    told(replayed, rejected, why);
  });
  const rows = (page?.DeadLetters ?? []).map(rowOf);
  const off = !writing.value || busy || busyAll;
  const title = writing.value ? "" : "Switch changes on first";
  const columns = [
    { title: "Given up", cell: (r) => clockTime(r.GivenUpAt), class: "time" },
    { title: "Reason", cell: (r) => conditions[r.Condition] ?? r.Condition, class: "time" },
    { title: "Event", cell: (r) => (r.record?.eventName ? html`<span class=${"badge event " + r.record.eventName.toLowerCase()}>${r.record.eventName.toLowerCase()}</span>` : ""), class: "time" },
    { title: "Key", cell: (r) => html`<span class="mono">${keyText(r.keys)}</span>`, class: "keycell" },
    { title: "Error", cell: (r) => html`${r.Error ?? ""} <span class="hint">${r.Attempts === 1 ? "1 attempt" : `${count(r.Attempts)} attempts`}</span>`, class: "changes" },
  ];
  const has = (r) => ({ before: r.view.includes("OLD"), after: r.view.includes("NEW") });
  const detail = (r) => html`${r.record && r.keys ? html`<${Images} keys=${Object.keys(r.keys)} before=${r.before} after=${r.view === "KEYS_ONLY" ? r.keys : r.after} has=${r.view === "KEYS_ONLY" ? { after: true } : has(r)} />` : html`<pre class="wrap">${r.Record}</pre>`}
    <p class="hint">Written ${clockTime(r.record?.dynamodb?.ApproximateCreationDateTime)}, given up ${clockTime(r.GivenUpAt)}.</p>
    <div class="bar"><span class="push"></span><button type="button" onClick=${() => copy(r.Record)}>Copy record</button>
      ${mayWrite.value && html`<button type="button" class="primary" disabled=${off} title=${title} onClick=${() => replayOne(r)}>Replay</button>`}</div>`;
  return html`<div class="bar"><a href=${link("now", "triggers")}>Triggers</a> <span aria-hidden="true">/</span> <h2>Dead letters of ${name}</h2><span class="push"></span>
      <button type="button" data-key="[" disabled=${starts.length === 1} onClick=${() => setStarts(starts.slice(0, -1))}>Previous</button>
      <button type="button" data-key="]" disabled=${!page?.NextToken} onClick=${() => setStarts([...starts, page.NextToken])}>Next</button>
      ${mayWrite.value && html`<button type="button" class="primary" data-key="r" disabled=${off || rows.length === 0} title=${title} onClick=${() => setAsks(true)}>Replay all</button>`}</div>
    <p class="hint">These records were given up and are not delivered any more. A replay posts them to the endpoint again; those that it accepts leave the list. They arrive after later changes of the same items.</p>
    <${Problem} error=${error} />
    <${Feed} wide label="Dead letters" columns=${columns} rows=${rows} detail=${detail} empty=${page ? (page.NextToken ? "None on this page." : "No dead letters.") : "Loading …"} />
    ${asks && html`<${Dialog} title="Replay all dead letters" onClose=${() => { stopped.current = true; setAsks(false); }}>
      <p>Posts all dead letters of <strong>${name}</strong> to its endpoint, the oldest first, each by itself. If it rejects ten in a row, the others are not tried.</p>
      <p role="status">${progress}</p>
      <div class="dialog-foot"><button type="button" onClick=${() => { stopped.current = true; setAsks(false); }}>${busyAll ? "Stop" : "Cancel"}</button><button type="button" class="primary" disabled=${off} onClick=${replayAll}>Replay all</button></div>
    <//>`}`;
}
