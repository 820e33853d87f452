// What the views of the past share: times, the field for one, messages when the past cannot be read.
import { html, useEffect, useState } from "./html.js";
import { endpointNow } from "./clock.js";
import { link, mayWrite, route, writing } from "./state.js";
import { call, knows } from "./api.js";
import { Problem, toast, useAction } from "./ui.js";
import { attribute, summary } from "./values.js";
import { keyNames, keysOf } from "./schema.js";
import { scalar } from "./request.js";
import { Scalar } from "./builder.js";
import { CopyAs } from "./copyas.js";

const seconds = { s: 1, m: 60, h: 3600, d: 86400 };
const relativeForm = /^-?((?:\d+(?:\.\d+)?[smhd])+)(?: ago)?$/;
const dateForm = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d)?(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/;
const clockForm = /^(\d{1,2}):(\d\d)(?::(\d\d))?$/;

/**
 * Reads a time: how long ago it was (5m, 1h30m), a time of today, a date with a time of this browser's zone, RFC 3339, or seconds since
 * 1970. A time of the day that is still to come is that of yesterday.
 * @returns {number} the second since 1970
 */
export function parseTime(text, now = endpointNow()) {
  const given = text.trim();
  const relative = relativeForm.exec(given);
  if (relative) {
    const ago = [...relative[1].matchAll(/([\d.]+)([smhd])/g)].reduce((sum, [, n, unit]) => sum + Number(n) * seconds[unit], 0);
    return checked(Math.floor(now / 1000 - ago), now);
  }
  if (given === "now") return Math.floor(now / 1000) - 1;
  if (/^\d{9,11}$/.test(given)) return checked(Number(given), now);
  const clock = clockForm.exec(given);
  if (clock) {
    const at = new Date(now);
    at.setHours(Number(clock[1]), Number(clock[2]), Number(clock[3] ?? 0), 0);
    if (at.getTime() > now) at.setDate(at.getDate() - 1);
    return checked(Math.floor(at.getTime() / 1000), now);
  }
  const date = dateForm.exec(given);
  const at = date ? new Date(`${date[1]}T${date[2] ?? "00:00"}${date[3] ?? ":00"}${date[4] ?? ""}`).getTime() : NaN;
  if (Number.isNaN(at)) throw new Error("Write 5m for five minutes ago, 14:03:07, 2026-11-18 14:03:07, or 2026-11-18T14:03:07Z.");
  return checked(Math.floor(at / 1000), now);
}

function checked(second, now) {
  if (second >= Math.floor(now / 1000)) throw new Error("The second must be over.");
  return second;
}

const two = (n) => String(n).padStart(2, "0");

/** A time of this browser's zone, such as 2026-11-18 14:03:07, with milliseconds if they are given. */
export function timeText(second, withMillis = false) {
  const at = new Date(Math.round(second * 1000));
  const text = `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
  return withMillis ? text + "." + String(at.getMilliseconds()).padStart(3, "0") : text;
}

/** A time in UTC, as the commands read and print it. */
export const utcText = (second) => new Date(Math.round(second * 1000)).toISOString().replace(/\.000Z$/, "Z");

/** How long ago a time was. */
export function agoText(second, now = endpointNow()) {
  const ago = Math.max(0, Math.round(now / 1000 - second));
  const of = (n, unit) => `${n} ${unit}${n === 1 ? "" : "s"} ago`;
  if (ago < 60) return of(ago, "second");
  if (ago < 3600) return of(Math.round(ago / 60), "minute");
  if (ago < 2 * 86400) return of(Math.round(ago / 3600), "hour");
  return of(Math.round(ago / 86400), "day");
}

/** The second of the text of a field, or what is wrong with it. */
export function timeOf(text) {
  try {
    return { second: parseTime(text) };
  } catch (err) {
    return { fault: text.trim() === "" ? "" : err.message };
  }
}

/** A field for a time: text, and the calendar of the browser. */
export function TimeField({ label, value, onInput, search }) {
  const { second, fault } = timeOf(value);
  return html`<div class="time"><div class="row"><label class="stack">${label}
      <input class="mono" data-search=${search || undefined} value=${value} placeholder="5m, 14:03:07, …" aria-invalid=${fault ? "true" : undefined} spellcheck="false" autocomplete="off" onInput=${(e) => onInput(e.target.value)} /></label>
    <input type="datetime-local" step="1" aria-label=${label + ": calendar"} value=${second === undefined ? "" : timeText(second).replace(" ", "T")} onInput=${(e) => e.target.value && onInput(e.target.value.replace("T", " "))} /></div>
    ${fault ? html`<span class="invalid">${fault}</span>` : html`<span class="hint">${second === undefined ? "how long ago, a time, or a date with a time" : `${utcText(second)}, ${agoText(second)}`}</span>`}
  </div>`;
}

/** The text of a key. */
export const keyText = (table, key, most = 60) => keyNames(table).map((k) => summary(attribute(key, k), most)).join(" · ");

/** Who has made a change. */
export function Who({ change }) {
  if (change.Actor === "time-to-live") return html`<span class="who">time to live</span>`;
  if (change.Principal) return html`<span class="who" title=${change.Principal}>${change.Principal.replace(/^arn:[^:]*:[^:]*:[^:]*:[^:]*:/, "")}</span>`;
  return html`<span class="who hint" title="The server records who it was when it verifies signatures: start it with --keys">who is not recorded</span>`;
}

/** How far back the past of a table is kept, as far as the endpoint says so. */
export function useKept(table) {
  const [kept, setKept] = useState({});
  useEffect(() => {
    call("DescribeContinuousBackups", { TableName: table.TableName }).then((reply) => {
      const found = reply.ContinuousBackupsDescription.PointInTimeRecoveryDescription;
      setKept({ recovery: found?.PointInTimeRecoveryStatus === "ENABLED", from: found?.EarliestRestorableDateTime, to: found?.LatestRestorableDateTime, known: true });
    }, () => setKept({}));
  }, [table]);
  return kept;
}

/** Says how far back the past is kept. */
export function KeptText({ table, kept }) {
  if (!kept.known) return null;
  if (kept.recovery) return html`<span class="hint">kept from ${timeText(kept.from)} on: point-in-time recovery</span>`;
  if (table.StreamSpecification?.StreamEnabled) return html`<span class="hint">kept for 24 hours, from when the stream was enabled</span>`;
  return html`<span class="hint">not kept: the table has neither point-in-time recovery nor a stream</span>`;
}

/** An error of a request to the past, with what to do about it. onKept is called when the past is kept from now on. */
export function PastProblem({ error, table, operation, onKept }) {
  if (!error) return null;
  if (error.code === "UnknownOperationException" || !knows(operation)) return html`<${NoPast} operation=${operation} />`;
  if (error.code === "PointInTimeRecoveryUnavailableException") return html`<${NotKept} table=${table} onKept=${onKept} />`;
  return html`<${Problem} error=${error} />`;
}

/** Says that an endpoint has no past. */
export function NoPast({ operation }) {
  return html`<div class="warning" role="alert">This endpoint does not have the operation <code>${operation}</code>. Reading the past, and undoing changes, is what stator does; DynamoDB has it
    by restoring the whole table only.</div>`;
}

/** Says that the past of a table is not kept, or with toRestore that it cannot be restored, and enables it. */
export function NotKept({ table, onKept, toRestore }) {
  const recovery = { operation: "UpdateContinuousBackups", input: { TableName: table.TableName, PointInTimeRecoverySpecification: { PointInTimeRecoveryEnabled: true } } };
  const stream = { operation: "UpdateTable", input: { TableName: table.TableName, StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" } } };
  const [enable, busy] = useAction(async ({ operation, input }) => {
    await call(operation, input);
    toast("The past is kept from now on.");
    onKept?.();
  });
  const off = !writing.value || busy;
  return html`<section class="card form notkept" role="alert"><h2>${toRestore ? "This table cannot be restored" : "The past of this table is not kept"}</h2>
    <p>${toRestore ? "It can be from when point-in-time recovery is enabled." : "Changes are recorded from when one of these is enabled."} What was before is not known.</p>
    <ul><li>Point-in-time recovery keeps up to 35 days, and restores the table to any second of them.</li>${!toRestore && html`<li>A stream keeps 24 hours.</li>`}</ul>
    ${mayWrite.value && html`<div class="row middle"><button type="button" class="primary" disabled=${off} onClick=${() => enable(recovery)}>Enable point-in-time recovery</button>
      ${!toRestore && html`<button type="button" disabled=${off} onClick=${() => enable(stream)}>Enable a stream</button>`}${!writing.value && html`<span class="hint">Switch changes on first.</span>`}</div>`}
    <details><summary>Request</summary><${CopyAs} request=${recovery} table=${table} /></details>
  </section>`;
}

/** How much of the changes since then is read. */
export function PastProgress({ progress }) {
  if (progress === null) return null;
  return html`<div class="pastprogress" role="status"><span>Reading the changes since then: ${Math.floor(progress * 100)} %</span>
    <progress max="1" value=${progress} aria-label="Changes read"></progress></div>`;
}

/** The address of a view of the past: "history", "undo" or "restore", with what it shows. */
export const pastLink = (table, view, shown) => link("table", table.TableName, "past", view) + (shown ? "?" + encodeURIComponent(JSON.stringify(shown)) : "");

/** The address of the items as they were at a second, or of the choice of one. With a key only those of its partition. */
export const itemsLink = (table, second, key) =>
  link("table", table.TableName, "items") + "?" + encodeURIComponent(JSON.stringify({ ...(second ? { at: second } : { choose: true }), ...(key && { hash: keysOf(table).hash.map((k) => attribute(key, k.name)[k.type]) }) }));

/** What the address asks a view of the past to show. */
export function shownOfAddress() {
  try {
    return JSON.parse(route.value.query || "{}") ?? {};
  } catch {
    return {};
  }
}

/** Fields for a key, whose texts are by the names of its attributes. */
export function KeyFields({ table, texts, onChange, search }) {
  const { hash, range } = keysOf(table);
  return [...hash, ...range].map((k, i) => html`<label class="stack" key=${k.name}>${k.name} <${Scalar} type=${k.type} value=${texts[k.name] ?? ""} search=${i === 0 && search} onInput=${(v) => onChange({ ...texts, [k.name]: v })} /></label>`);
}

/** The texts of a key. */
export function textsOf(table, key) {
  const { hash, range } = keysOf(table);
  return Object.fromEntries([...hash, ...range].map((k) => [k.name, attribute(key ?? {}, k.name)?.[k.type] ?? ""]));
}

/** The key of texts, or what is wrong with them. */
export function keyOfTexts(table, texts) {
  const { hash, range } = keysOf(table);
  try {
    return { key: Object.fromEntries([...hash, ...range].map((k) => {
      if (texts[k.name] === "") throw new Error(`The key needs ${k.name}.`);
      return [k.name, scalar(k.type, texts[k.name])];
    })) };
  } catch (err) {
    return { fault: err.message };
  }
}
