// Items that have expired and are not removed yet, and those that expire next.
import { html } from "./html.js";
import { endpointNow } from "./clock.js";
import { link } from "./state.js";
import { knows, loadTables } from "./api.js";
import { Problem, count } from "./ui.js";
import { callOften, clockTime, duration, each, useReply } from "./poll.js";
import { lacks } from "./now.js";
import { Feed } from "./feed.js";
import { keyText } from "./images.js";

const maxTables = 200; // that are looked at
const maxShown = 25; // that are read again and again
const operation = "Stator.DescribeExpiry";

/** The tables that have a time to live. */
async function expiringTables(signal) {
  const names = (await loadTables()).slice(0, maxTables);
  const found = [];
  let problem = null;
  await each(names, async (name) => {
    try {
      const { TimeToLiveDescription: ttl } = await callOften("DescribeTimeToLive", { TableName: name }, signal);
      if (ttl.TimeToLiveStatus !== "DISABLED") found.push({ id: name, status: ttl.TimeToLiveStatus, attribute: ttl.AttributeName });
    } catch (err) {
      if (lacks(err)) throw err;
      if (err.code !== "ResourceNotFoundException") problem = err;
    }
  });
  return { tables: found.sort((a, b) => (a.id < b.id ? -1 : 1)), looked: names.length, problem };
}

export default function Expiry() {
  const [list, error] = useReply(expiringTables, 15000);
  const tables = list?.tables ?? [];
  const names = tables.slice(0, maxShown).map((t) => t.id);
  const [due, dueError] = useReply(async (signal) => {
    const found = {};
    let problem = null;
    await each(names, async (name) => {
      if (!knows(operation)) return;
      await callOften(operation, { TableName: name, Limit: 10 }, signal).then((reply) => (found[name] = reply), (err) => (problem = err));
    });
    if (problem && !lacks(problem) && problem.code !== "ResourceNotFoundException" && Object.keys(found).length === 0) throw problem;
    return found;
  }, 2000, [names.join()]);
  if (lacks(error)) return html`<div class="card"><h2>No time to live</h2><p>This endpoint does not have time to live.</p></div>`;
  const rows = tables.map((t) => ({ ...t, now: due?.[t.id] }));
  const sweep = rows.find((r) => r.now)?.now;
  const columns = [
    { title: "Table", cell: (r) => r.id },
    { title: "Attribute", cell: (r) => html`<span class="mono">${r.attribute ?? ""}</span>` },
    { title: "Status", cell: (r) => (r.now?.TimeToLiveStatus ?? r.status).toLowerCase() },
    { title: "Due, not removed", class: "number", cell: (r) => (r.now ? `${count(r.now.Due)}${r.now.DueIsMore ? "+" : ""}` : "–") },
    { title: "Next", cell: (r) => next(r.now) },
  ];
  return html`<${Problem} error=${error ?? list?.problem ?? dueError} />
    ${list && rows.length === 0 && html`<div class="card"><h2>No table has a time to live</h2><p>Switch it on in the settings of a table, with an attribute that holds seconds since 1970.</p></div>`}
    ${rows.length > 0 && !knows(operation) && html`<p class="notice">This endpoint shows which tables have a time to live, and not what is due: AWS removes expired items within a few days, without saying when.</p>`}
    ${sweep && html`<div class="meter"><${Sweep} of=${sweep} /></div>`}
    ${rows.length > 0 && html`<${Feed} label="Tables with a time to live" columns=${columns} rows=${rows} detail=${(r) => html`<${Items} r=${r} />`} empty="" />`}
    ${list?.looked === maxTables && html`<p class="hint">The first ${maxTables} tables were looked at.</p>`}`;
}

function next(now) {
  const first = now?.NextItems[0];
  return first ? `in ${duration(first.ExpiresAt - endpointNow() / 1000)}` : now ? "none" : "–";
}

/** The removal of expired items on this server. */
function Sweep({ of }) {
  if (!of.SweepsHere && !of.LastSweepAt) return html`<span>Expired items are removed by another server, or not at all: this one does no work in the background.</span>`;
  return html`<span>last sweep <strong>${of.LastSweepAt ? clockTime(of.LastSweepAt) : "not yet"}</strong></span><span>every ${duration(Math.max(1, of.SweepInterval))}</span>
    ${of.SweepError && html`<span class="invalid">${of.SweepError}</span>`}`;
}

function Items({ r }) {
  if (!r.now) return html`<p class="hint">What is due is not known.</p>`;
  const list = (title, items, when, none) => html`<section><h3>${title}</h3>${items.length === 0 ? html`<p class="hint">${none}</p>` : html`<div class="scroll"><table class="list"><thead><tr><th scope="col">Key</th><th scope="col">Expires</th></tr></thead>
    <tbody>${items.map((i) => html`<tr><td class="mono wrap">${keyText(i.Key)}</td><td>${clockTime(i.ExpiresAt)} <span class="hint">${when(i)}</span></td></tr>`)}</tbody></table></div>`}</section>`;
  const now = endpointNow() / 1000;
  return html`${r.now.FarValue !== undefined && html`<p class="warning">An item has ${count(r.now.FarValue)} in ${r.attribute}, which is thousands of years from now. The time is in seconds, not in milliseconds, so such items do not expire.</p>`}
    <div class="columns">${list("Due, the oldest first", r.now.DueItems, (i) => `${duration(now - i.ExpiresAt)} ago`, "Nothing is due.")}${list("Next", r.now.NextItems, (i) => `in ${duration(i.ExpiresAt - now)}`, "Nothing expires later.")}</div>
    <p class="hint"><a href=${link("table", r.id, "items")}>Items of ${r.id}</a></p>`;
}
