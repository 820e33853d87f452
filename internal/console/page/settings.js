// Settings of a table: capacity, indexes, time to live, stream, recovery, deletion.
import { html, useEffect, useState } from "./html.js";
import { go, writing } from "./state.js";
import { call } from "./api.js";
import { Dialog, Problem, bytes, count, toast, useAction } from "./ui.js";
import { timeText } from "./past.js";
import { indexesOf, keysOf } from "./schema.js";
import { IndexFields, definitions, emptyIndex, indexInput } from "./indexform.js";
import { CopyAs } from "./copyas.js";

const pollTime = 1000;

/** The error of a setting that somebody may not read, which must not be shown as off. */
const denial = ({ reason }) => (reason?.code === "AccessDeniedException" ? reason : null);

export default function Settings({ table, refresh }) {
  const name = table.TableName;
  const [more, setMore] = useState({});
  const [dialog, setDialog] = useState(null);
  const readMore = async () => {
    const [ttl, backups] = await Promise.allSettled([call("DescribeTimeToLive", { TableName: name }), call("DescribeContinuousBackups", { TableName: name })]);
    setMore({ ttl: ttl.value?.TimeToLiveDescription, ttlError: denial(ttl), recovery: backups.value?.ContinuousBackupsDescription?.PointInTimeRecoveryDescription, recoveryError: denial(backups) });
  };
  useEffect(() => {
    readMore();
  }, [table]);
  const settling = table.TableStatus !== "ACTIVE" || indexesOf(table).some((i) => i.global && i.IndexStatus !== "ACTIVE");
  useEffect(() => {
    if (!settling) return undefined;
    const timer = setTimeout(refresh, pollTime);
    return () => clearTimeout(timer);
  }, [table]);
  const [change] = useAction(async (operation, input, done) => {
    await call(operation, { TableName: name, ...input });
    toast(done);
    await refresh();
    await readMore();
  });
  const off = !writing.value;
  const { hash, range } = keysOf(table);
  return html`<div class="columns narrow">
    <section class="card"><h2>Table</h2><dl class="fields">
      <dt>Status</dt><dd>${table.TableStatus}</dd>
      <dt>Partition key</dt><dd class="mono">${hash.map((k) => `${k.name} (${k.type})`).join(", ")}</dd>
      ${range.length > 0 && html`<dt>Sort key</dt><dd class="mono">${range.map((k) => `${k.name} (${k.type})`).join(", ")}</dd>`}
      <dt>Items</dt><dd>${count(table.ItemCount)}</dd><dt>Size</dt><dd>${bytes(table.TableSizeBytes)}</dd>
      <dt>Created</dt><dd>${timeText(table.CreationDateTime)}</dd>
      <dt>ARN</dt><dd class="mono">${table.TableArn}</dd>
    </dl></section>
    <${Capacity} table=${table} off=${off} onChange=${change} />
    <section class="card"><h2>Time to live</h2>
      ${more.ttlError ? html`<${Problem} error=${more.ttlError} />` : html`<${TimeToLive} ttl=${more.ttl} off=${off} onChange=${change} />`}</section>
    <section class="card form"><h2>Stream and recovery</h2>
      <label><input type="checkbox" disabled=${off} checked=${!!table.StreamSpecification?.StreamEnabled}
        onChange=${(e) => change("UpdateTable", { StreamSpecification: e.target.checked ? { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" } : { StreamEnabled: false } }, e.target.checked ? "The stream is on." : "The stream is off.")} /> stream of changes${table.StreamSpecification?.StreamViewType ? `: ${table.StreamSpecification.StreamViewType}` : ""}</label>
      ${more.recoveryError ? html`<${Problem} error=${more.recoveryError} />` : html`<label><input type="checkbox" disabled=${off || !more.recovery} checked=${more.recovery?.PointInTimeRecoveryStatus === "ENABLED"}
        onChange=${(e) => change("UpdateContinuousBackups", { PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: e.target.checked } }, e.target.checked ? "Recovery is on." : "Recovery is off.")} /> recovery to any second</label>`}
      <label><input type="checkbox" disabled=${off} checked=${!!table.DeletionProtectionEnabled}
        onChange=${(e) => change("UpdateTable", { DeletionProtectionEnabled: e.target.checked }, e.target.checked ? "The table is protected." : "The table can be deleted.")} /> protection from deletion</label>
    </section></div>
    <section class="card form"><div class="bar"><h2>Indexes</h2><span class="push"></span><button type="button" data-key="n" disabled=${off} onClick=${() => setDialog("index")}>Create index</button></div>
      ${indexesOf(table).length === 0 ? html`<p class="hint">None.</p>` : html`<div class="scroll"><table class="list"><thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col">Keys</th><th scope="col">Attributes</th><th scope="col" class="number">Items</th><th scope="col">Status</th><th scope="col"><span class="hidden">Actions</span></th></tr></thead>
        <tbody>${indexesOf(table).map((i) => html`<tr><td>${i.IndexName}</td><td>${i.global ? "global" : "local"}</td><td class="mono">${i.KeySchema.map((k) => k.AttributeName).join(", ")}</td>
          <td>${i.Projection.ProjectionType === "INCLUDE" ? i.Projection.NonKeyAttributes.join(", ") : i.Projection.ProjectionType.toLowerCase().replace("_", " ")}</td>
          <td class="number">${count(i.ItemCount)}</td><td>${i.IndexStatus ?? ""}${i.Backfilling ? ", backfilling" : ""}</td>
          <td>${i.global && html`<button type="button" class="danger" disabled=${off} onClick=${() => setDialog({ index: i.IndexName })}>Delete</button>`}</td></tr>`)}</tbody></table></div>`}
    </section>
    <section class="card"><div class="bar"><h2>Delete table</h2><span class="push"></span><button type="button" class="danger" disabled=${off || table.DeletionProtectionEnabled} title=${table.DeletionProtectionEnabled ? "The table is protected from deletion" : ""} onClick=${() => setDialog("table")}>Delete table</button></div></section>
    ${dialog === "index" && html`<${CreateIndex} table=${table} onClose=${(made) => { setDialog(null); if (made) refresh(); }} />`}
    ${dialog?.index && html`<${Confirm} title="Delete index" name=${dialog.index} text="Queries that use it fail from then on." onClose=${() => setDialog(null)}
      request=${{ operation: "UpdateTable", input: { TableName: name, GlobalSecondaryIndexUpdates: [{ Delete: { IndexName: dialog.index } }] } }} onDone=${() => { setDialog(null); refresh(); }} />`}
    ${dialog === "table" && html`<${Confirm} title="Delete table" name=${name} text=${`Deletes ${count(table.ItemCount)} items. Only a backup brings them back.`} onClose=${() => setDialog(null)}
      request=${{ operation: "DeleteTable", input: { TableName: name } }} onDone=${() => go("tables")} />`}`;
}

function Capacity({ table, off, onChange }) {
  const onDemand = table.BillingModeSummary?.BillingMode === "PAY_PER_REQUEST";
  const now = table.ProvisionedThroughput;
  const [mode, setMode] = useState(onDemand ? "PAY_PER_REQUEST" : "PROVISIONED");
  const [read, setRead] = useState(now?.ReadCapacityUnits || 5);
  const [write, setWrite] = useState(now?.WriteCapacityUnits || 5);
  const units = { ReadCapacityUnits: Number(read), WriteCapacityUnits: Number(write) };
  const save = (event) => {
    event.preventDefault();
    // A table that becomes provisioned needs units for its indexes, too.
    const indexes = onDemand ? (table.GlobalSecondaryIndexes ?? []).map((i) => ({ Update: { IndexName: i.IndexName, ProvisionedThroughput: units } })) : [];
    onChange("UpdateTable", mode === "PROVISIONED" ? { BillingMode: mode, ProvisionedThroughput: units, ...(indexes.length && { GlobalSecondaryIndexUpdates: indexes }) } : { BillingMode: mode }, "The capacity is changed.");
  };
  return html`<section class="card"><h2>Capacity</h2><form class="form" onSubmit=${save}>
    <div class="row"><label class="stack">Mode<select disabled=${off} value=${mode} onChange=${(e) => setMode(e.target.value)}><option value="PAY_PER_REQUEST">on demand</option><option value="PROVISIONED">provisioned</option></select></label>
    ${mode === "PROVISIONED" && html`<label class="stack">Read units<input type="number" min="1" disabled=${off} value=${read} onInput=${(e) => setRead(e.target.value)} /></label><label class="stack">Write units<input type="number" min="1" disabled=${off} value=${write} onInput=${(e) => setWrite(e.target.value)} /></label>`}
    <button disabled=${off}>Change</button></div></form></section>`;
}

function TimeToLive({ ttl, off, onChange }) {
  const on = ttl?.TimeToLiveStatus === "ENABLED" || ttl?.TimeToLiveStatus === "ENABLING";
  const [attribute, setAttribute] = useState("");
  const save = (event) => {
    event.preventDefault();
    onChange("UpdateTimeToLive", { TimeToLiveSpecification: { Enabled: !on, AttributeName: on ? ttl.AttributeName : attribute } }, on ? "Items do not expire any more." : "Items expire.");
  };
  return html`<form class="row" onSubmit=${save}>
    ${on ? html`<span class="grow">Items expire at the time in <code>${ttl.AttributeName}</code>.</span>` : html`<label class="stack grow">Attribute with the time in seconds<input class="mono" required disabled=${off} value=${attribute} onInput=${(e) => setAttribute(e.target.value)} /></label>`}
    <button disabled=${off || !ttl}>${on ? "Switch off" : "Switch on"}</button></form>`;
}

function CreateIndex({ table, onClose }) {
  const [index, setIndex] = useState(emptyIndex());
  const [error, setError] = useState(null);
  const provisioned = table.BillingModeSummary?.BillingMode !== "PAY_PER_REQUEST";
  const now = table.ProvisionedThroughput;
  const units = provisioned ? { ReadCapacityUnits: now.ReadCapacityUnits, WriteCapacityUnits: now.WriteCapacityUnits } : null;
  const request = { operation: "UpdateTable", input: {
    TableName: table.TableName, AttributeDefinitions: definitions(index.hash, index.range), GlobalSecondaryIndexUpdates: [{ Create: indexInput(index, null, units) }],
  } };
  const create = async (event) => {
    event.preventDefault();
    try {
      await call(request.operation, request.input);
      toast("The index is being built.");
      onClose(true);
    } catch (err) {
      setError(err);
    }
  };
  return html`<${Dialog} wide title="Create index" onClose=${() => onClose(false)}><form class="form" onSubmit=${create}>
    <${Problem} error=${error} /><${IndexFields} index=${index} onlyGlobal onChange=${setIndex} />
    <details><summary>Request</summary><${CopyAs} request=${request} /></details>
    <div class="dialog-foot"><button type="button" onClick=${() => onClose(false)}>Cancel</button><button class="primary">Create index</button></div>
  </form><//>`;
}

/** Asks for the name of what is deleted. */
function Confirm({ title, name, text, request, onDone, onClose }) {
  const [typed, setTyped] = useState("");
  const [run, busy] = useAction(async (event) => {
    event.preventDefault();
    await call(request.operation, request.input);
    toast(`${name} is being deleted.`);
    onDone();
  });
  return html`<${Dialog} title=${title} onClose=${onClose}><form class="form" onSubmit=${run}>
    <p>${text}</p><label class="stack">Type ${name} to confirm<input class="mono confirm" value=${typed} autocomplete="off" spellcheck="false" onInput=${(e) => setTyped(e.target.value)} /></label>
    <div class="dialog-foot"><button type="button" onClick=${onClose}>Cancel</button><button class="danger" disabled=${typed !== name || busy}>Delete</button></div>
  </form><//>`;
}
