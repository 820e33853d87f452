// Items as text: DynamoDB JSON, JSON, CSV.
import { keysOf } from "./schema.js";
import { attribute, itemFault, numberFault, parsePlain, plainText, typeOf, valueFault } from "./values.js";

export const formats = {
  dynamodb: { title: "DynamoDB JSON", hint: 'one {"Item": …} a line, as exports to S3 have it; exact', extension: "json", type: "application/json" },
  json: { title: "JSON", hint: "plain; numbers stay exact, sets become lists and binary values base64 text", extension: "json", type: "application/json" },
  csv: { title: "CSV", hint: "a column for each attribute; the header says its type if it is not text", extension: "csv", type: "text/csv" },
};

/** One line of DynamoDB JSON. */
export const typedLine = (item) => JSON.stringify({ Item: item }) + "\n";

export const plainLine = (item) => plainText({ M: item });

// A spreadsheet would run text that begins so as a formula. Text that looks guarded is guarded once more, so that reading can undo it.
const formula = /^'*[=+\-@\t\r]/;
const guarded = /^'+[=+\-@\t\r]/;

const quoteCell = (text) => (text === "" || /[",\r\n]|^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** Items as CSV. A column whose values have several types, or one without a text form, has JSON of DynamoDB. */
export function toCSV(table, items) {
  const { hash, range } = keysOf(table);
  const names = [...new Set([...[...hash, ...range].map((k) => k.name), ...items.flatMap((i) => Object.keys(i))])];
  const types = new Map(names.map((n) => [n, columnType(items, n)]));
  const head = names.map((n) => quoteCell(guard(types.get(n) === "S" && !/ \((S|N|B|BOOL|JSON)\)$/.test(n) ? n : `${n} (${types.get(n)})`)));
  const lines = items.map((item) => names.map((n) => cellText(attribute(item, n), types.get(n))).join(","));
  return [head.join(","), ...lines].join("\r\n") + "\r\n";
}

const guard = (text) => (formula.test(text) ? "'" + text : text);

function columnType(items, name) {
  const found = new Set(items.map((i) => attribute(i, name)).filter(Boolean).map(typeOf));
  if (found.size > 1) return "JSON";
  const [type = "S"] = found;
  return ["S", "N", "B", "BOOL"].includes(type) ? type : "JSON";
}

function cellText(value, type) {
  if (value === undefined) return "";
  if (type === "JSON") return quoteCell(JSON.stringify(value));
  if (type === "N" || type === "BOOL") return String(value[type]);
  return quoteCell(guard(value[type]));
}

/** Reads CSV. An empty cell without quotes is no attribute. */
export function parseCSV(table, text) {
  const rows = csvRows(text.replace(/^\ufeff/, ""));
  const { hash, range } = keysOf(table);
  const keyTypes = Object.fromEntries([...hash, ...range].map((k) => [k.name, k.type]));
  const columns = (rows.shift() ?? []).map(({ text: head }) => {
    const plain = unguard(head);
    const [, name, type] = /^(.*) \((S|N|B|BOOL|JSON)\)$/s.exec(plain) ?? [null, plain, attribute(keyTypes, plain) ?? "S"];
    return { name, type };
  });
  return rows.map((cells, n) => {
    if (cells.length !== columns.length) throw new Error(`Row ${n + 2} has ${cells.length} cells, but the header has ${columns.length}.`);
    const given = cells.map((cell, i) => [columns[i].name, cellValue(cell, columns[i].type, n + 2)]).filter(([, v]) => v !== undefined);
    return Object.fromEntries(given);
  });
}

const unguard = (text) => (guarded.test(text) ? text.slice(1) : text);

function cellValue({ text, quoted }, type, row) {
  if (text === "" && !quoted) return undefined;
  switch (type) {
    case "JSON": {
      const value = JSON.parse(text);
      const fault = valueFault(value, `Row ${row}`);
      if (fault) throw new Error(fault);
      return value;
    }
    case "N": {
      const fault = numberFault(text.trim());
      if (fault) throw new Error(`Row ${row}: ${fault} (${text})`);
      return { N: text.trim() };
    }
    case "BOOL": return { BOOL: text.trim().toLowerCase() === "true" };
  }
  return { [type]: unguard(text) };
}

/** Cells of CSV, with whether they were quoted. */
function csvRows(text) {
  const rows = [];
  let row = [], at = 0;
  while (at < text.length) {
    let cell = "", quoted = false;
    if (text[at] === '"') {
      quoted = true;
      for (at++; at < text.length; at++) {
        if (text[at] !== '"') cell += text[at];
        else if (text[at + 1] === '"') cell += text[++at];
        else break;
      }
      at++;
    }
    const end = /[,\r\n]/g;
    end.lastIndex = at;
    const stop = end.exec(text)?.index ?? text.length;
    cell += text.slice(at, stop);
    row.push({ text: cell, quoted });
    at = stop;
    if (text[at] === ",") {
      at++;
      if (at === text.length) row.push({ text: "", quoted: false });
      continue;
    }
    rows.push(row);
    row = [];
    at += text.startsWith("\r\n", at) ? 2 : 1;
  }
  if (row.length) rows.push(row);
  return rows.filter((r) => r.length > 1 || r[0].text !== "" || r[0].quoted);
}

/** The format that text seems to have. */
export function guessFormat(name, text) {
  if (/\.csv$/i.test(name)) return "csv";
  const start = text.slice(0, 2000).trimStart();
  if (!/^[[{]/.test(start)) return "csv";
  return /^\[?\s*\{\s*("Item"\s*:\s*\{\s*)?"(?:[^"\\]|\\.)*"\s*:\s*\{\s*"(S|N|B|BOOL|NULL|M|L|SS|NS|BS)"\s*:/.test(start) ? "dynamodb" : "json";
}

/** Reads items from text. It throws an error that says where the text is wrong. */
export function parseItems(table, format, text) {
  if (format === "csv") return parseCSV(table, text);
  if (format === "json") return plainItems(table, text);
  const found = documents(text, JSON.parse).map((d) => (d && typeof d.Item === "object" && Object.keys(d).length === 1 && itemFault(d) ? d.Item : d));
  found.forEach((item, i) => {
    const fault = itemFault(item);
    if (fault) throw new Error(`Item ${i + 1}: ${fault}`);
  });
  return found;
}

/** A list, one document, or a document a line. */
function documents(text, parse) {
  try {
    const whole = parse(text);
    return Array.isArray(whole) ? whole : [whole];
  } catch (err) {
    const lines = text.split("\n").filter((l) => l.trim());
    if (lines.length < 2) throw err;
    return lines.map((line, i) => {
      try {
        return parse(line);
      } catch {
        throw new Error(`Line ${i + 1} is not JSON.`);
      }
    });
  }
}

function plainItems(table, text) {
  const { hash, range } = keysOf(table);
  const binary = [...hash, ...range].filter((k) => k.type === "B").map((k) => k.name);
  const unwrap = (value) => (value.L ? value.L : value);
  return documents(text, (t) => unwrap(parsePlain(t))).map((value, i) => {
    if (!value.M) throw new Error(`Item ${i + 1} is not an object.`);
    return Object.fromEntries(Object.keys(value.M).map((k) => [k, binary.includes(k) && value.M[k].S !== undefined ? { B: value.M[k].S } : value.M[k]]));
  });
}

/** What is wrong with the key of an item; empty if nothing is. */
export function keyFault(table, item) {
  const { hash, range } = keysOf(table);
  for (const k of [...hash, ...range]) {
    const value = attribute(item, k.name);
    if (!value) return `The key ${k.name} is missing.`;
    if (typeOf(value) !== k.type) return `The key ${k.name} must have the type ${k.type}, but has ${typeOf(value)}.`;
  }
  return "";
}
