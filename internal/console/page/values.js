// Typed values as DynamoDB sends them: {S: "text"}, {N: "12"}, {M: {…}}. Numbers are never JavaScript numbers, and
// names of attributes, which may be "__proto__", are only ever set by Object.fromEntries.

/** @typedef {Record<string, any>} Value one member, whose name is the type */

export const types = ["S", "N", "B", "BOOL", "NULL", "M", "L", "SS", "NS", "BS"];

export const typeNames = {
  S: "String", N: "Number", B: "Binary", BOOL: "Boolean", NULL: "Null", M: "Map", L: "List", SS: "String set", NS: "Number set", BS: "Binary set",
};

/** The type of a value. */
export const typeOf = (value) => Object.keys(value)[0];

/** An attribute of an item, or undefined. */
export const attribute = (item, name) => (Object.hasOwn(item, name) ? item[name] : undefined);

const numberForm = /^[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$/;

/** What is wrong with the text of a number; empty if nothing is. It is what DynamoDB checks. */
export function numberFault(text) {
  if (!numberForm.test(text)) return text === "" ? "A number is needed." : "This is not a number.";
  const [mantissa, exponent = "0"] = text.toLowerCase().replace(/^[+-]/, "").split("e");
  const [whole, fraction = ""] = mantissa.split(".");
  const digits = (whole + fraction).replace(/^0+/, "").replace(/0+$/, "");
  if (digits === "") return "";
  if (digits.length > 38) return `This number has ${digits.length} significant digits; 38 are the most.`;
  const leading = (whole + fraction).length - (whole + fraction).replace(/^0+/, "").length;
  const magnitude = whole.length - leading - 1 + Number(exponent);
  if (magnitude > 125) return "This number is too large: 9.99…E+125 is the largest.";
  if (magnitude < -130) return "This number is too small: 1E-130 is the smallest.";
  return "";
}

/** What is wrong with base64 text; empty if nothing is. */
export function base64Fault(text) {
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(text) || text.length % 4 !== 0) return "This is not base64.";
  return "";
}

const scalarFault = { S: () => "", N: numberFault, B: base64Fault };

/** What is wrong with the text of a string, a number or a binary value. */
export const textFault = (type, text) => scalarFault[type]?.(text) ?? "";

/** The text of a value as a cell shows it. */
export function summary(value, most = 200) {
  if (value === undefined) return "";
  const type = typeOf(value);
  switch (type) {
    case "S": case "N": return cut(value[type], most);
    case "B": return cut(bytesText(value.B), most);
    case "BOOL": return String(value.BOOL);
    case "NULL": return "null";
  }
  return cut(plainText(value), most);
}

const cut = (text, most) => (text.length > most ? text.slice(0, most) + "…" : text);

/** How many bytes base64 text has. */
export const base64Length = (text) => (text.length / 4) * 3 - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0);

const bytesText = (base64) => `${base64} (${base64Length(base64)} bytes)`;

/** Whether two values are equal, whatever the order of attributes and members of sets. */
export const same = (a, b) => canonical(a) === canonical(b);

function canonical(value) {
  if (value === undefined) return "";
  const type = typeOf(value);
  if (type === "M") return `{${Object.keys(value.M).sort().map((k) => JSON.stringify(k) + canonical(value.M[k])).join()}}`;
  if (type === "L") return `[${value.L.map(canonical).join()}]`;
  if (Array.isArray(value[type])) return type + JSON.stringify([...value[type]].sort());
  return type + JSON.stringify(value[type]);
}

/** What is wrong with a value from text, such as {"N": "1"}; empty if nothing is. */
export function valueFault(value, at) {
  if (value === null || typeof value !== "object" || Array.isArray(value) || Object.keys(value).length !== 1) return `${at} must be an object with one type, such as {"S": "text"}.`;
  const type = typeOf(value), inner = value[type];
  switch (type) {
    case "S": return typeof inner === "string" ? "" : `${at}: S must be text.`;
    case "N": case "B": {
      if (typeof inner !== "string") return `${at}: ${type} must be text in quotes.`;
      const fault = textFault(type, inner);
      return fault && `${at}: ${fault}`;
    }
    case "BOOL": return typeof inner === "boolean" ? "" : `${at}: BOOL must be true or false.`;
    case "NULL": return inner === true ? "" : `${at}: NULL must be true.`;
    case "SS": case "NS": case "BS": return setFault(type[0], inner, at);
    case "L":
      if (!Array.isArray(inner)) return `${at}: L must be a list.`;
      return firstFault(inner.map((v, i) => () => valueFault(v, `${at}[${i}]`)));
    case "M":
      if (inner === null || typeof inner !== "object" || Array.isArray(inner)) return `${at}: M must be an object.`;
      return firstFault(Object.keys(inner).map((k) => () => (k === "" ? `${at}: an attribute needs a name.` : valueFault(inner[k], `${at}.${k}`))));
  }
  return `${at} has the type ${type}, which does not exist.`;
}

function setFault(type, members, at) {
  if (!Array.isArray(members) || members.length === 0) return `${at}: a set has at least one member.`;
  if (new Set(members).size !== members.length) return `${at}: a set has each member once.`;
  return firstFault(members.map((m) => () => valueFault({ [type]: m }, at)));
}

function firstFault(checks) {
  for (const check of checks) {
    const fault = check();
    if (fault) return fault;
  }
  return "";
}

/** What is wrong with an item; empty if nothing is. */
export function itemFault(item) {
  if (item === null || typeof item !== "object" || Array.isArray(item)) return "An item is an object of attributes.";
  return firstFault(Object.keys(item).map((k) => () => (k === "" ? "An attribute needs a name." : valueFault(item[k], k))));
}

/** Typed JSON, with attributes on lines of their own. */
export const typedText = (item) => JSON.stringify(item, null, 2);

/** A value as plain JSON, with exact numbers. Sets become lists and binary values base64 text. */
export function plainText(value, indent = "") {
  const type = typeOf(value), inner = value[type];
  const deeper = indent && indent + "  ";
  const joined = (open, parts, close) =>
    parts.length === 0 ? open + close : indent ? `${open}\n${parts.map((p) => deeper.slice(1) + p).join(",\n")}\n${indent.slice(1)}${close}` : open + parts.join(", ") + close;
  switch (type) {
    case "S": case "B": return JSON.stringify(inner);
    case "N": return inner;
    case "BOOL": return String(inner);
    case "NULL": return "null";
    case "SS": case "BS": return joined("[", inner.map((s) => JSON.stringify(s)), "]");
    case "NS": return joined("[", inner, "]");
    case "L": return joined("[", inner.map((v) => plainText(v, deeper)), "]");
  }
  return joined("{", Object.keys(inner).map((k) => `${JSON.stringify(k)}: ${plainText(inner[k], deeper)}`), "}");
}

/** Reads plain JSON into a value, with exact numbers. */
export function parsePlain(text) {
  const reader = new PlainReader(text);
  const value = reader.value();
  reader.space();
  if (reader.at < text.length) reader.fail();
  return value;
}

class PlainReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }
  fail() {
    const line = this.text.slice(0, this.at).split("\n").length;
    throw new Error(`Line ${line}: this is not JSON.`);
  }
  space() {
    while (/\s/.test(this.text[this.at] ?? "")) this.at++;
  }
  next(token) {
    this.space();
    if (!this.text.startsWith(token, this.at)) return false;
    this.at += token.length;
    return true;
  }
  value() {
    this.space();
    if (this.next("{")) return { M: this.members() };
    if (this.next("[")) return { L: this.elements() };
    if (this.text[this.at] === '"') return { S: this.string() };
    for (const [word, value] of [["true", { BOOL: true }], ["false", { BOOL: false }], ["null", { NULL: true }]]) if (this.next(word)) return value;
    const number = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/.exec(this.text.slice(this.at, this.at + 400))?.[0];
    if (!number) this.fail();
    this.at += number.length;
    return { N: number };
  }
  string() {
    this.space();
    const from = this.at;
    if (this.text[from] !== '"') this.fail();
    for (this.at++; this.at < this.text.length && this.text[this.at] !== '"'; this.at++) if (this.text[this.at] === "\\") this.at++;
    this.at++;
    try {
      return JSON.parse(this.text.slice(from, this.at));
    } catch {
      return this.fail();
    }
  }
  members() {
    const found = [];
    if (this.next("}")) return {};
    do {
      const name = this.string();
      if (!this.next(":")) this.fail();
      found.push([name, this.value()]);
    } while (this.next(","));
    if (!this.next("}")) this.fail();
    return Object.fromEntries(found);
  }
  elements() {
    const found = [];
    if (this.next("]")) return found;
    do found.push(this.value());
    while (this.next(","));
    if (!this.next("]")) this.fail();
    return found;
  }
}
