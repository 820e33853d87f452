// Work that takes long: index builds, restores, imports, exports, backups, verification.
import { html } from "./html.js";
import { link } from "./state.js";
import { describe, knows, loadTables } from "./api.js";
import { Problem, bytes, count } from "./ui.js";
import { callOften, clockTime, duration, each, useReply } from "./poll.js";
import { lacks } from "./now.js";

const maxTables = 100; // that are described if the endpoint has no list of jobs
const maxDescribed = 10; // imports and exports whose progress is read
const maxDone = 25;
const own = "Stator.ListJobs";

const titles = { CREATE_INDEX: "index build", DELETE_INDEX: "index deletion", ADD_EXPIRIES: "time to live", RESTORE_TABLE: "restore" };
const running = ["RUNNING", "WAITING", "IN_PROGRESS", "CANCELLING", "CREATING"];

/** A name at the end of an ARN's table part. */
const tableOf = (arn) => /table\/([^/]+)/.exec(arn ?? "")?.[1] ?? "";

/** What stator tells of work in the background. */
async function ownJobs(signal) {
  const jobs = [];
  let token, reply;
  do {
    reply = await callOften(own, token ? { NextToken: token } : {}, signal);
    jobs.push(...reply.Jobs);
    token = reply.NextToken;
  } while (token && jobs.length < 1000);
  return {
    scheduled: reply.ScheduledBackups, scrub: reply.Scrub,
    jobs: jobs.map((j) => ({
      id: [j.JobType, j.TableName, j.IndexName].join("/"), what: titles[j.JobType] ?? j.JobType, table: j.TableName, status: j.Status, progress: j.Progress, items: j.Items, of: j.ExpectedItems, at: j.StartedAt,
      about: j.IndexName ?? (j.BackupId ? `from backup ${j.BackupId}` : j.SourceTableName ? `from ${j.SourceTableName}, as of ${clockTime(j.RestoreTime)}` : ""),
    })),
  };
}

/** What the descriptions of tables tell of it. */
async function describedJobs() {
  const jobs = [];
  await each((await loadTables()).slice(0, maxTables), async (name) => {
    const t = await describe(name, true).catch(() => null);
    for (const i of t?.GlobalSecondaryIndexes ?? []) {
      if (i.IndexStatus !== "ACTIVE") jobs.push({ id: `index/${name}/${i.IndexName}`, what: i.IndexStatus === "DELETING" ? "index deletion" : "index build", table: name, about: i.IndexName, status: i.Backfilling === false ? "WAITING" : "RUNNING" });
    }
    const r = t?.RestoreSummary;
    if (r?.RestoreInProgress) jobs.push({ id: `restore/${name}`, what: "restore", table: name, about: `from ${tableOf(r.SourceTableArn ?? r.SourceBackupArn)}, as of ${clockTime(r.RestoreDateTime)}`, status: "RUNNING", at: t.CreationDateTime });
  });
  return { jobs };
}

async function transfers(signal) {
  const { ImportSummaryList: list } = await callOften("ListImports", {}, signal);
  const jobs = list.map((i) => ({ id: i.ImportArn, what: "import", table: tableOf(i.TableArn), about: `${i.S3BucketSource?.S3Bucket ?? ""}/${i.S3BucketSource?.S3KeyPrefix ?? ""}`, status: i.ImportStatus, at: i.StartTime, ended: i.EndTime }));
  await each(jobs.filter((j) => running.includes(j.status) || j.status === "FAILED").slice(0, maxDescribed), async (j) => {
    const { ImportTableDescription: d } = await callOften("DescribeImport", { ImportArn: j.id }, signal);
    Object.assign(j, { items: d.ImportedItemCount, problem: d.FailureMessage || (d.ErrorCount ? `${count(d.ErrorCount)} items could not be imported` : "") });
  });
  return { jobs };
}

async function exported(signal) {
  const { ExportSummaries: list } = await callOften("ListExports", {}, signal);
  const jobs = list.map((e) => ({ id: e.ExportArn, what: "export", table: tableOf(e.ExportArn), about: e.ExportType === "INCREMENTAL_EXPORT" ? "changes" : "", status: e.ExportStatus }));
  await each(jobs.slice(0, maxDescribed), async (j) => {
    const { ExportDescription: d } = await callOften("DescribeExport", { ExportArn: j.id }, signal);
    Object.assign(j, { items: d.ItemCount, about: `${j.about ? j.about + " " : ""}to ${d.S3Bucket}/${d.S3Prefix ?? ""}`, at: d.StartTime, ended: d.EndTime, problem: d.FailureMessage });
  });
  return { jobs };
}

async function backups(signal) {
  const { BackupSummaries: list } = await callOften("ListBackups", {}, signal);
  return { jobs: list.map((b) => ({ id: b.BackupArn, what: "backup", table: b.TableName, about: b.BackupName, status: b.BackupStatus, at: b.BackupCreationDateTime, size: b.BackupSizeBytes })) };
}

/** Reads everything; what the endpoint does not have is named. */
async function readAll(signal) {
  const sources = [["background work with its progress", own, async (s) => (knows(own) ? ownJobs(s).catch((err) => (lacks(err) ? describedJobs() : Promise.reject(err))) : describedJobs())],
    ["imports", "ListImports", transfers], ["exports", "ListExports", exported], ["backups", "ListBackups", backups]];
  const all = { jobs: [], missing: [], problems: [] };
  await Promise.all(sources.map(async ([name, operation, read]) => {
    if (operation !== own && !knows(operation)) {
      all.missing.push(name);
      return;
    }
    try {
      const found = await read(signal);
      all.jobs.push(...found.jobs);
      all.scheduled ??= found.scheduled;
      all.scrub ??= found.scrub;
    } catch (err) {
      if (lacks(err)) all.missing.push(name);
      else if (err.name !== "AbortError") all.problems.push(err);
    }
  }));
  if (!knows(own)) all.missing.push("the progress of index builds and restores");
  const isRunning = (j) => running.includes(j.status);
  all.running = all.jobs.filter(isRunning).sort((a, b) => (a.id < b.id ? -1 : 1));
  all.done = all.jobs.filter((j) => !isRunning(j)).sort((a, b) => (b.ended ?? b.at ?? 0) - (a.ended ?? a.at ?? 0)).slice(0, maxDone);
  return all;
}

export default function Jobs() {
  const [all, error] = useReply(readAll, 2000);
  if (!all) return html`<${Problem} error=${error} />${!error && html`<p class="loading" role="status">Loading …</p>`}`;
  return html`${[error, ...all.problems].map((e) => e && html`<${Problem} error=${e} />`)}
    ${all.missing.length > 0 && html`<p class="notice">This endpoint does not have ${all.missing.join(", ")}.</p>`}
    ${all.running.length === 0 && html`<div class="card"><h2>Nothing is running</h2><p>Index builds, restores, imports, exports and backups appear here with their progress.</p></div>`}
    ${all.running.length > 0 && html`<${List} title="Running" jobs=${all.running} />`}
    ${(all.scheduled || all.scrub) && html`<div class="columns">${all.scheduled && html`<${Scheduled} s=${all.scheduled} />`}${all.scrub && html`<${Scrub} s=${all.scrub} />`}</div>`}
    ${all.done.length > 0 && html`<${List} title="Ended" jobs=${all.done} />`}`;
}

function List({ title, jobs }) {
  return html`<section><h2>${title}</h2><div class="scroll"><table class="list"><thead><tr><th scope="col">Job</th><th scope="col">Table</th><th scope="col">About</th><th scope="col">Status</th><th scope="col">Progress</th><th scope="col">Started</th><th scope="col">Ended</th></tr></thead>
    <tbody>${jobs.map((j) => html`<tr key=${j.id}><td>${j.what}</td><td><a href=${link("table", j.table, "settings")}>${j.table}</a></td><td class="wrap">${j.about}</td>
      <td><span class=${"badge state " + (j.status === "FAILED" ? "failed" : j.status === "WAITING" ? "waiting" : running.includes(j.status) ? "active" : "")}>${j.status.toLowerCase().replace("_", " ")}</span>${j.problem && html` <span class="invalid">${j.problem}</span>`}</td>
      <td><${Progress} j=${j} /></td><td>${clockTime(j.at)}</td><td>${clockTime(j.ended)}</td></tr>`)}</tbody></table></div></section>`;
}

function Progress({ j }) {
  const items = j.items === undefined ? "" : j.of ? `${count(j.items)} of ${count(j.of)} items` : `${count(j.items)} items`;
  if (j.progress === undefined) return items || (j.size === undefined ? "" : bytes(j.size));
  return html`<span class="progress"><progress aria-label=${`Progress of ${j.what} of ${j.table}`} max="1" value=${j.progress}></progress><span>${Math.floor(j.progress * 100)} %${items && html` <span class="hint">about ${items}</span>`}</span></span>`;
}

function Scheduled({ s }) {
  return html`<section class="card"><h2>Scheduled backups</h2>${s.FailedError && html`<p class="problem">The last one failed, at ${clockTime(s.FailedAt)}: ${s.FailedError}</p>`}
    <dl class="fields"><dt>Every</dt><dd>${duration(s.Interval)}, ${count(s.Kept)} are there</dd><dt>Last</dt><dd>${s.LastAt ? `${clockTime(s.LastAt)}: ${count(s.LastTables)} tables, ${count(s.LastItems)} items, ${bytes(s.LastBytes)}` : "none yet"}</dd>
      <dt>Next</dt><dd>${s.NextAt ? clockTime(s.NextAt) : "soon"}</dd></dl></section>`;
}

function Scrub({ s }) {
  return html`<section class="card"><h2>Verification of stored data</h2>${s.Findings > 0 && html`<p class="problem">${count(s.Findings)} inconsistencies were found: run <code>stator verify</code>.</p>`}
    <dl class="fields"><dt>This pass</dt><dd><span class="progress"><progress aria-label="Progress of the verification" max="1" value=${s.Progress}></progress>${Math.floor(s.Progress * 100)} %</span></dd>
      <dt>Passes</dt><dd>${count(s.Passes)} since the start, ${count(s.Keys)} keys</dd><dt>Last pass</dt><dd>${s.LastPassAt ? `${clockTime(s.LastPassAt)}, took ${duration(s.LastPassTook)}` : "none yet"}</dd><dt>Findings</dt><dd>${count(s.Findings)}</dd></dl></section>`;
}
