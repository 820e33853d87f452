// Restores a table to a second, as a new table.
import { html, useEffect, useState } from "./html.js";
import { link, mayWrite, tableNames, writing } from "./state.js";
import { call, describe, knows } from "./api.js";
import { Problem, count, useAction } from "./ui.js";
import { CopyAs } from "./copyas.js";
import { NotKept, TimeField, shownOfAddress, timeOf, timeText } from "./past.js";

const operation = "RestoreTableToPointInTime";
const pollTime = 500;
const jobs = "Stator.ListJobs";

export default function Restore({ table, kept, refresh }) {
  const asked = shownOfAddress();
  const [at, setAt] = useState(asked.at ? timeText(asked.at) : "5m");
  const [name, setName] = useState("");
  const [error, setError] = useState(null);
  const [work, setWork] = useState(null); // {name, began, table}
  const { second, fault } = timeOf(at);
  const target = name || proposed(table, second);
  const request = second === undefined ? null : { operation, input: { SourceTableName: table.TableName, TargetTableName: target, RestoreDateTime: second } };

  const [restore, busy] = useAction(async (event) => {
    event.preventDefault();
    if (!request) return;
    setError(null);
    setWork(null);
    try {
      const reply = await call(request.operation, request.input);
      tableNames.value = null;
      setWork({ name: target, began: performance.now(), table: reply.TableDescription });
    } catch (err) {
      setError(err);
    }
  });
  useEffect(() => {
    if (!work || work.table.TableStatus === "ACTIVE") return undefined;
    const timer = setTimeout(() => Promise.all([describe(work.name, true), jobOf(work.name)]).then(([found, job]) => setWork({ ...work, table: found, job }), setError), pollTime);
    return () => clearTimeout(timer);
  }, [work]);

  const notKept = kept.known && !kept.recovery;
  return html`${notKept && !work ? html`<${NotKept} table=${table} onKept=${refresh} toRestore />` : html`<form class="card form builder" onSubmit=${restore}>
      <div class="row"><${TimeField} label="Second to restore" value=${at} onInput=${setAt} search />
        <label class="stack grow">New table<input class="mono" value=${name} placeholder=${target} spellcheck="false" autocomplete="off" pattern="[A-Za-z0-9_.\\-]{3,255}" title="3 to 255 letters, digits, dots, hyphens or underscores" onInput=${(e) => setName(e.target.value.trim())} />
          <span class="hint">${kept.known ? `can be restored from ${timeText(kept.from)} to ${timeText(kept.to)}` : ""}</span></label></div>
      <p class="hint">The new table has the items, keys, indexes and capacity; it has no stream, time to live, recovery or tags. ${table.TableName} is not changed.</p>
      <div class="row middle"><button class="primary" disabled=${!request || busy || !writing.value} title=${writing.value ? "" : "Switch changes on first"}>Restore</button>
        ${fault ? html`<span class="invalid" role="alert">${fault}</span>` : !writing.value && html`<span class="hint">${mayWrite.value ? "Switch changes on first." : "This console only reads, and cannot restore."}</span>`}</div>
    </form>
    ${request && html`<details><summary>Request</summary><div class="card"><${CopyAs} request=${request} table=${table} /></div></details>`}`}
    ${error?.code === "PointInTimeRecoveryUnavailableException" ? !notKept && html`<${NotKept} table=${table} onKept=${() => { setError(null); refresh(); }} toRestore />` : html`<${Problem} error=${error} />`}
    ${work && html`<${Progress} source=${table} work=${work} />`}`;
}

/** A name for the new table. */
const proposed = (table, second) => (table.TableName.slice(0, 235) + (second === undefined ? "-restored" : "-" + timeText(second).replace(/[-:]/g, "").replace(" ", "-")));

/** What the endpoint tells of a restore while it runs. */
async function jobOf(name) {
  if (!knows(jobs)) return undefined;
  try {
    const reply = await call(jobs);
    return reply.Jobs.find((j) => j.JobType === "RESTORE_TABLE" && j.TableName === name);
  } catch {
    return undefined; // the state of the table tells the rest
  }
}

/** Says how far a restore is. */
function Progress({ source, work }) {
  const { table, job } = work;
  const ready = table.TableStatus === "ACTIVE";
  const size = Math.max(1, job?.ExpectedItems ?? source.ItemCount), have = job?.Items ?? table.ItemCount ?? 0;
  return html`<div class="card form"><p role="status" class="result">${ready
      ? html`<strong>${work.name}</strong> has the items of ${timeText(table.RestoreSummary?.RestoreDateTime ?? 0)}. <a href=${link("table", work.name, "items")}>Open ${work.name}</a>`
      : html`Restoring <strong>${work.name}</strong>: ${table.TableStatus}${have ? `, ${Math.floor(Math.min(1, have / size) * 100)} %, ${count(have)} of about ${count(size)} items` : ""}, ${Math.round((performance.now() - work.began) / 1000)} s …`}</p>
    ${!ready && html`<progress max=${size} value=${have ? Math.min(have, size) : undefined} aria-label="Progress of the restore"></progress><p class="hint">It goes on when you leave this page.</p>`}</div>`;
}
