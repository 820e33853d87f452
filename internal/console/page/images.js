// An item before and after a change, with what differs.
import { html } from "./html.js";
import { attribute, same, summary, typeOf } from "./values.js";

const deepest = 8; // nested parts below are compared as a whole
const longest = 4000; // characters of a value that are shown
const maxRows = 400;

const plain = /^[\w-]+$/;

/** The path of a part of an item. Within it, a name with other signs is in quotes. */
const step = (path, name) => (path ? `${path}.${plain.test(name) ? name : JSON.stringify(name)}` : name);

/**
 * The attributes of two images. Nested values are compared part by part if they differ.
 * @returns {{path: string, before?: object, after?: object, kind: "added" | "removed" | "changed" | "same"}[]}
 */
export function compare(before, after, path = "", depth = 0) {
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.flatMap((name) => {
    const a = before && attribute(before, name), b = after && attribute(after, name);
    return compareValues(step(path, name), a, b, depth);
  });
}

function compareValues(path, a, b, depth) {
  if (a === undefined) return [{ path, after: b, kind: "added" }];
  if (b === undefined) return [{ path, before: a, kind: "removed" }];
  if (same(a, b)) return [{ path, before: a, after: b, kind: "same" }];
  const type = typeOf(a);
  if (type === typeOf(b) && depth < deepest) {
    if (type === "M") return compare(a.M, b.M, path, depth + 1);
    if (type === "L") {
      return Array.from({ length: Math.max(a.L.length, b.L.length) }, (_, i) => i).flatMap((i) => compareValues(`${path}[${i}]`, a.L[i], b.L[i], depth + 1));
    }
  }
  return [{ path, before: a, after: b, kind: "changed" }];
}

const marks = { added: "+", removed: "−", changed: "≠", same: "" };

/** Two images next to each other. An image that the stream does not have is said to be missing. */
export function Images({ keys, before, after, has = { before: true, after: true } }) {
  const both = has.before && has.after;
  let rows = compare(before ?? (has.before ? {} : undefined), after ?? (has.after ? {} : undefined));
  if (!both) rows = rows.map((r) => ({ ...r, kind: "same" })); // one image tells no difference
  const order = (r) => (keys.includes(r.path) ? 0 : r.kind !== "same" ? 1 : 2);
  rows.sort((a, b) => order(a) - order(b));
  const cell = (side, value, kind) => html`<td class=${kind !== "same" && value !== undefined ? side : ""}>${value === undefined ? "" : html`<span class="value">${summary(value, longest)}</span> <span class="type">${typeOf(value)}</span>`}</td>`;
  return html`<table class="images"><thead><tr><th scope="col"><span class="hidden">Difference</span></th><th scope="col">Attribute</th>
      ${has.before && html`<th scope="col">Old image${!before ? " (none)" : ""}</th>`}${has.after && html`<th scope="col">New image${!after ? " (none)" : ""}</th>`}</tr></thead>
    <tbody>${rows.slice(0, maxRows).map((r) => html`<tr class=${r.kind}><td class="mark" title=${r.kind}>${marks[r.kind]}<span class="hidden">${r.kind}</span></td><th scope="row">${r.path}</th>
      ${has.before && cell("before", r.before, r.kind)}${has.after && cell("after", r.after, r.kind)}</tr>`)}</tbody></table>
    ${rows.length > maxRows && html`<p class="hint">${(rows.length - maxRows).toLocaleString("en")} more attributes are not shown.</p>`}`;
}

const shortest = 40;

/** What a change did, in one line: what differs, or the attributes of an item that is new or gone. */
export function changeText(keys, before, after) {
  const value = (v) => (v === undefined ? "–" : summary(v, shortest));
  const parts = compare(before, after).filter((r) => r.kind !== "same" && !keys.includes(r.path));
  const text = (r) => `${r.path}: ${before && after ? `${value(r.before)} → ${value(r.after)}` : value(r.after ?? r.before)}`;
  return parts.slice(0, 4).map(text).join(", ") + (parts.length > 4 ? `, and ${parts.length - 4} more` : "");
}

/** The key of an item in one line. */
export const keyText = (key) => Object.keys(key ?? {}).map((name) => summary(key[name], 80)).join(" / ");
