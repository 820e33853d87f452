// What the last hour has cost, by table, index and access pattern.
import { html, useEffect, useState } from "./html.js";
import { link, session } from "./state.js";
import { endpointNow } from "./clock.js";
import { call, describe, loadTables } from "./api.js";
import { Problem, count } from "./ui.js";
import { design, loadDesign, ChooseModel, ModelProblem } from "./design.js";
import { each } from "./poll.js";
import { dollars, figure, metricData } from "./watch.js";

const maxTables = 200;

/** Tables and global indexes, with what they have consumed between two times; and how many tables are missing because of a problem. */
async function consumption(from, to) {
  const tables = [];
  let missing = 0, problem = null;
  await each((await loadTables()).slice(0, maxTables), async (name) => {
    try {
      tables.push(await describe(name, true));
    } catch (err) {
      if (err.code === "ResourceNotFoundException") return; // it was deleted meanwhile
      missing++;
      problem = err;
    }
  });
  const resources = tables.flatMap((t) => {
    const onDemand = t.BillingModeSummary?.BillingMode === "PAY_PER_REQUEST";
    const one = (Index, throughput, size) => ({ Table: t.TableName, Index, OnDemand: onDemand, provisioned: onDemand ? null : throughput, Bytes: size ?? 0 });
    return [one("", t.ProvisionedThroughput, t.TableSizeBytes), ...(t.GlobalSecondaryIndexes ?? []).map((i) => one(i.IndexName, i.ProvisionedThroughput, i.IndexSizeBytes))];
  });
  const metrics = ["ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits", "ProvisionedReadCapacityUnits", "ProvisionedWriteCapacityUnits"];
  const points = await metricData(resources.flatMap((r) => metrics.map((name, i) => ({ name, table: r.Table, index: r.Index, stat: i < 2 ? "Sum" : "Average" }))), from, to, 60);
  const sum = (p) => p.reduce((all, one) => all + one.value, 0);
  const average = (p, now) => (p.length > 0 ? sum(p) / p.length : now ?? 0);
  const Resources = resources.map(({ provisioned, ...r }, i) => ({
    ...r, Read: sum(points[4 * i]), Write: sum(points[4 * i + 1]),
    ProvisionedRead: provisioned ? average(points[4 * i + 2], provisioned.ReadCapacityUnits) : 0, ProvisionedWrite: provisioned ? average(points[4 * i + 3], provisioned.WriteCapacityUnits) : 0,
  }));
  return { Resources, missing, problem };
}

export default function Cost() {
  const [bill, setBill] = useState(null);
  const [error, setError] = useState(null);
  const [patterns, setPatterns] = useState(null);
  const [patternError, setPatternError] = useState(null);
  const [busy, setBusy] = useState(false);
  const readBill = async () => {
    setBusy(true);
    try {
      const to = Math.floor(endpointNow() / 60_000) * 60 + 60, from = to - 3600;
      const { Resources, missing, problem } = await consumption(from, to);
      setBill({ ...(await call("Workbench.GetBill", { Seconds: 3600, Resources })), missing, problem });
      setError(null);
    } catch (err) {
      setError(err);
    }
    setBusy(false);
  };
  // The patterns are an addition: without the model, or the counts of requests, there is a bill all the same.
  const readPatterns = async () => {
    const { name: Name, text: Text } = design.value ?? {};
    let found = null, problem = null;
    try {
      if (Text) found = (await call("Workbench.GetPatternBill", { Name, Text, Traffic: await call("Stator.GetShapes", { LastHour: true }), Seconds: 3600 })).Patterns;
    } catch (err) {
      problem = err;
    }
    if (Text !== design.value?.text) return; // another model was opened meanwhile
    setPatterns(found);
    setPatternError(problem);
  };
  useEffect(() => {
    readBill();
    loadDesign();
  }, []);
  useEffect(() => { readPatterns(); }, [design.value?.text]); // without the bill: its metrics cost money on AWS
  const refresh = () => {
    readBill();
    loadDesign().then(readPatterns);
  };
  const lines = [...(bill?.Lines ?? [])].sort((a, b) => b.Month + b.Storage - a.Month - a.Storage);
  const modelError = design.value?.error ?? patternError;
  const most = Math.max(1e-12, ...lines.map((l) => l.Month + l.Storage));
  return html`<div class="bar"><h1>Cost</h1><span class="hint">the last 60 minutes${bill ? `, at the prices of ${bill.Prices.region}, ${bill.Prices.date}` : ""}</span><span class="push"></span>
      <button type="button" data-key="r" disabled=${busy} onClick=${refresh}>Refresh</button></div>
    ${error && (error.code === "UnknownOperationException" || error.code === "Unreadable" ? html`<p class="notice">This endpoint has no metrics of CloudWatch, from which the bill is made.</p>` : html`<${Problem} error=${error} />`)}
    ${!bill && !error && html`<p class="loading" role="status">Reading metrics …</p>`}
    ${bill?.problem && html`<${Problem} error=${bill.problem} title=${`${count(bill.missing)} ${bill.missing === 1 ? "table is" : "tables are"} not in the bill.`} />`}
    ${bill && html`<div class="tiles"><div class="tile card"><span class="tile-value">${dollars(bill.Dollars)}</span> <span class="tile-label">the last hour, without storage</span></div>
        <div class="tile card"><span class="tile-value">${dollars(bill.Month)}</span> <span class="tile-label">a month, if each hour were like it, with storage</span></div>
        ${!session.value.endpoint.aws && html`<div class="tile card"><span class="tile-value">$0</span> <span class="tile-label">is what AWS charges for it here: this is what it would</span></div>`}</div>
      <section class="card" aria-labelledby="by-table"><h2 id="by-table">By table and index</h2><div class="scroll"><table class="list bill"><thead><tr><th scope="col">Table</th><th scope="col">Index</th><th scope="col">Billing</th><th scope="col" class="number">Read units</th><th scope="col" class="number">Write units</th><th scope="col" class="number">The hour</th><th scope="col" class="number">a month</th><th scope="col" class="number">Storage a month</th><th scope="col"><span class="hidden">Share</span></th></tr></thead>
        <tbody>${lines.map((l) => html`<tr><td><a href=${link("heat", ...[l.Table, l.Index].filter(Boolean))} title="Heat">${l.Table}</a></td><td>${l.Index}</td><td>${l.OnDemand ? "on demand" : "provisioned"}</td><td class="number">${figure(l.Read)}</td><td class="number">${figure(l.Write)}</td>
          <td class="number">${dollars(l.Dollars)}</td><td class="number">${dollars(l.Month)}</td><td class="number">${dollars(l.Storage)}</td><td class="share-cell"><span class="share-bar" style=${{ width: Math.round(((l.Month + l.Storage) / most) * 80) + "px" }} aria-hidden="true"></span></td></tr>`)}</tbody></table></div>
        ${lines.length === 0 && !bill.problem && html`<p class="hint">There are no tables.</p>`}</section>`}
    <section class="card" aria-labelledby="by-pattern"><div class="bar"><h2 id="by-pattern">By access pattern</h2>${design.value?.name && html`<span class="hint mono">${design.value.name}</span>`}<span class="push"></span><${ChooseModel} label=${design.value?.text ? "Open another model" : "Open a model file"} /></div>
      ${patternError?.code === "UnknownOperationException" ? html`<p class="hint">This endpoint does not count requests by shape: only a stator knows which belong to which access pattern.</p>`
        : modelError ? html`<${ModelProblem} error=${modelError} />`
        : !design.value?.text ? html`<p class="hint">A model says which requests belong to which access pattern.</p>`
        : patterns && html`<div class="scroll"><table class="list bill-patterns"><thead><tr><th scope="col">Pattern</th><th scope="col" class="number">Requests</th><th scope="col" class="number">Read units</th><th scope="col" class="number">Write units</th><th scope="col" class="number">The hour</th><th scope="col" class="number">a month</th></tr></thead>
        <tbody>${patterns.map((p) => html`<tr><td>${p.Name ? html`${p.Name}${p.Others?.length > 0 ? html` <span class="hint">or ${p.Others.join(", ")}</span>` : ""}` : html`<a href="#/model" class="tone-bad">no pattern: see drift</a>`}</td><td class="number">${count(p.Requests)}</td><td class="number">${figure(p.Read)}</td><td class="number">${figure(p.Write)}</td><td class="number">${dollars(p.Dollars)}</td><td class="number">${dollars(p.Month)}</td></tr>`)}</tbody></table></div>
        ${patterns.length === 0 && html`<p class="hint">No requests in this time went to the tables of the model.</p>`}
        <p class="hint">Units with the price of on-demand, also for provisioned tables. Those of small reads are estimated from a sample.</p>`}</section>`;
}
