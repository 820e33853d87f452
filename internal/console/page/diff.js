// What differs between two items.
import { html, useState } from "./html.js";
import { attribute, base64Length, same, typeOf, typeNames } from "./values.js";

const isSet = (type) => type === "SS" || type === "NS" || type === "BS";

/** A step of a path as the filters of the query builder write it. */
const step = (name) => name.replace(/[\\.[\]]/g, "\\$&");

/**
 * The parts in which two items differ, by their paths. A part that only one of them has is undefined in the other.
 * @returns {{path: string, was?: object, is?: object, part?: string}[]} of a set, was and is have the members that differ
 */
export function diffOf(before, after) {
  const found = [];
  maps("", before ?? {}, after ?? {}, found);
  return found;
}

function maps(at, was, is, found) {
  const names = [...new Set([...Object.keys(was), ...Object.keys(is)])].sort();
  for (const n of names) values(at ? `${at}.${step(n)}` : step(n), attribute(was, n), attribute(is, n), found);
}

function values(path, was, is, found) {
  if (was !== undefined && is !== undefined) {
    if (same(was, is)) return;
    const type = typeOf(was);
    if (type === typeOf(is)) {
      if (type === "M") return maps(path, was.M, is.M, found);
      if (type === "L") return lists(path, was.L, is.L, found);
      if (isSet(type)) {
        const of = (a, b) => {
          const members = new Set(b);
          return a.filter((m) => !members.has(m));
        };
        const gone = of(was[type], is[type]), added = of(is[type], was[type]);
        found.push({ path, part: "members", was: gone.length ? { [type]: gone } : undefined, is: added.length ? { [type]: added } : undefined });
        return;
      }
    }
  }
  found.push({ path, was, is });
}

/** Elements that are equal at both ends are left out, so that one that was inserted is not all that follow it. */
function lists(path, was, is, found) {
  const shorter = Math.min(was.length, is.length);
  let head = 0, tail = 0;
  while (head < shorter && same(was[head], is[head])) head++;
  while (tail < shorter - head && same(was[was.length - 1 - tail], is[is.length - 1 - tail])) tail++;
  for (let i = head; i < Math.max(was.length, is.length) - tail; i++) {
    values(`${path}[${i}]`, i < was.length - tail ? was[i] : undefined, i < is.length - tail ? is[i] : undefined, found);
  }
}

/** A value with its types: numbers as they are, text in quotes, and names of types before sets and binary values. */
export function exactText(value, indent = "") {
  const type = typeOf(value), inner = value[type], deeper = indent + "  ";
  const joined = (open, parts, close) => (parts.length ? `${open}\n${parts.map((p) => deeper + p).join(",\n")}\n${indent}${close}` : open + close);
  switch (type) {
    case "S": return JSON.stringify(inner);
    case "N": return inner;
    case "B": return `B ${JSON.stringify(inner)}`;
    case "BOOL": return String(inner);
    case "NULL": return "null";
    case "M": return joined("{", Object.keys(inner).map((k) => `${JSON.stringify(k)}: ${exactText(inner[k], deeper)}`), "}");
    case "L": return joined("[", inner.map((v) => exactText(v, deeper)), "]");
  }
  return `${type} [${inner.map((m) => (type === "NS" ? m : JSON.stringify(m))).join(", ")}]`;
}

const shortest = 300; // characters of a value that are shown at first
const context = 40; // characters of equal text around those that differ

/** A value of a diff. Of two texts, the characters that differ from the other are marked. */
function Side({ value, other, label }) {
  const [whole, setWhole] = useState(false);
  if (value === undefined) return html`<span class="none" aria-label=${label + ": nothing"}>–</span>`;
  const type = typeOf(value);
  const kind = html`<span class="type" title=${typeNames[type]}>${type}</span> `;
  const text = type === "S" ? value.S : type === "B" ? value.B : isSet(type) ? exactText(value).slice(3) : exactText(value); // the type is shown already
  if (text === "") return html`${kind}<span class="type">empty</span>`;
  const size = type === "B" ? html` <span class="type">${base64Length(value.B)} ${base64Length(value.B) === 1 ? "byte" : "bytes"}</span>` : "";
  const rest = !whole && text.length > shortest && html` <button type="button" class="link more" onClick=${() => setWhole(true)}>all ${text.length.toLocaleString("en")} characters</button>`;
  if (other !== undefined && typeOf(other) === type && type === "S") {
    const [head, mid, tail] = differing(text, other.S);
    const cutHead = !whole && head.length > context ? "…" + head.slice(-context) : head;
    const cutMid = !whole && mid.length > shortest ? mid.slice(0, shortest) + "…" : mid;
    const cutTail = !whole && tail.length > context ? tail.slice(0, context) + "…" : tail;
    const cuts = cutHead !== head || cutMid !== mid || cutTail !== tail;
    return html`${kind}<span class="text">${cutHead}${cutMid && (head || tail ? html`<mark>${cutMid}</mark>` : cutMid)}${cutTail}</span>${cuts && html` <button type="button" class="link more" onClick=${() => setWhole(true)}>all ${text.length.toLocaleString("en")} characters</button>`}`;
  }
  return html`${kind}<span class="text">${rest ? text.slice(0, shortest) + "…" : text}</span>${size}${rest}`;
}

/** A text in three parts: the words that it has in common with another at its start, what differs, the words in common at its end. */
function differing(text, other) {
  const most = Math.min(text.length, other.length);
  let head = 0, tail = 0;
  while (head < most && text[head] === other[head]) head++;
  while (head > 0 && !(isSpace(text[head - 1]) || (head === text.length && head === other.length))) head--;
  while (tail < most - head && text[text.length - 1 - tail] === other[other.length - 1 - tail]) tail++;
  while (tail > 0 && !isSpace(text[text.length - tail])) tail--;
  return [text.slice(0, head), text.slice(head, text.length - tail), text.slice(text.length - tail)];
}

const isSpace = (unit) => /[\s.,:;/?&=#-]/.test(unit);

const maxParts = 40;

/** Shows what differs between two items. before and after are null when there was none. */
export function Diff({ before, after, titles = ["Before", "After"] }) {
  const [all, setAll] = useState(false);
  const parts = diffOf(before, after);
  if (parts.length === 0) return html`<p class="hint">No attribute differs.</p>`;
  const shown = all ? parts : parts.slice(0, maxParts);
  const sides = [before && titles[0], after && titles[1]];
  return html`<div class="scroll"><table class="diff">
    <thead><tr><th scope="col">Attribute</th>${sides[0] && html`<th scope="col">${sides[0]}</th>`}${sides[1] && html`<th scope="col">${sides[1]}</th>`}</tr></thead>
    <tbody>${shown.map((p) => html`<tr key=${p.path}><th scope="row">${p.path}${p.part && html` <span class="type">${p.part}</span>`}</th>
      ${sides[0] && html`<td class=${p.was ? "was" : ""}>${p.was && html`<span class="sign" aria-hidden="true">−</span>`}<${Side} value=${p.was} other=${p.is} label=${sides[0]} /></td>`}
      ${sides[1] && html`<td class=${p.is ? "is" : ""}>${p.is && html`<span class="sign" aria-hidden="true">+</span>`}<${Side} value=${p.is} other=${p.was} label=${sides[1]} /></td>`}</tr>`)}</tbody>
  </table></div>
  ${parts.length > shown.length && html`<button type="button" onClick=${() => setAll(true)}>Show ${parts.length - shown.length} more attributes</button>`}`;
}
