// Builds the Query or Scan of the query builder.
import { keysOf, indexOf } from "./schema.js";
import { textFault } from "./values.js";

/** Tests of filters. inputs is how many values each has. */
export const tests = [
  { op: "=", inputs: 1 }, { op: "<>", inputs: 1 }, { op: "<", inputs: 1 }, { op: "<=", inputs: 1 }, { op: ">", inputs: 1 }, { op: ">=", inputs: 1 },
  { op: "between", inputs: 2 }, { op: "in", inputs: 1, list: true }, { op: "begins with", inputs: 1 }, { op: "contains", inputs: 1 }, { op: "does not contain", inputs: 1 },
  { op: "exists", inputs: 0 }, { op: "does not exist", inputs: 0 }, { op: "has type", inputs: 1, typed: true },
  { op: "size =", inputs: 1, size: true }, { op: "size <", inputs: 1, size: true }, { op: "size >", inputs: 1, size: true },
];

/** Tests of sort keys. */
export const rangeTests = ["=", "<", "<=", ">", ">=", "between", "begins with"];

/** The query of an empty builder. */
export const emptyQuery = () => ({ index: "", hash: [], range: [], filters: [], any: false, project: "", reverse: false, consistent: false, limit: 100 });

/** The steps of a path such as a.b[0].c; a dot in a name is written \. */
export function parsePath(text) {
  const steps = [];
  const form = /((?:[^.[\]\\]|\\.)+)((?:\[\d+\])*)(\.|$)/y;
  while (form.lastIndex < text.length) {
    const found = form.exec(text);
    if (!found || (found[3] === "." && form.lastIndex === text.length)) throw new Error(`"${text}" is not a path: write a.b[0].c, and a\\.b for a name with a dot.`);
    steps.push({ name: found[1].replace(/\\(.)/g, "$1"), places: found[2] });
  }
  if (steps.length === 0) throw new Error("A filter needs an attribute.");
  return steps;
}

/** Names and values of the expressions of one request. */
export class Placeholders {
  names = new Map();
  values = [];
  name(name) {
    if (!this.names.has(name)) this.names.set(name, "#n" + this.names.size);
    return this.names.get(name);
  }
  path(text) {
    return parsePath(text).map((s) => this.name(s.name) + s.places).join(".");
  }
  value(value) {
    this.values.push(value);
    return ":v" + (this.values.length - 1);
  }
  /** Adds the members ExpressionAttributeNames and ExpressionAttributeValues. */
  addTo(input) {
    if (this.names.size) input.ExpressionAttributeNames = Object.fromEntries([...this.names].map(([name, placeholder]) => [placeholder, name]));
    if (this.values.length) input.ExpressionAttributeValues = Object.fromEntries(this.values.map((v, i) => [":v" + i, v]));
    return input;
  }
}

/** The value of a type and a text. */
export function scalar(type, text) {
  if (type === "BOOL") return { BOOL: text === "true" };
  if (type === "NULL") return { NULL: true };
  const fault = textFault(type, text);
  if (fault) throw new Error(fault);
  return { [type]: text };
}

/**
 * The request of a query.
 * @returns {{operation: "Query" | "Scan", input: object}}
 */
export function build(table, q) {
  const keys = keysOf(table, q.index);
  const used = new Placeholders();
  const input = { TableName: table.TableName };
  if (q.index) input.IndexName = q.index;
  const given = keys.hash.filter((_, i) => (q.hash[i] ?? "") !== "").length;
  if (given > 0 && given < keys.hash.length) throw new Error("All parts of the partition key are needed for a query.");
  const isQuery = given > 0;
  if (isQuery) input.KeyConditionExpression = keyCondition(keys, q, used);
  else if (q.range.some((r) => r?.a)) throw new Error("A sort key needs the partition key, too.");
  const filters = q.filters.filter((f) => f.path !== "").map((f) => filterText(f, used));
  if (filters.length) input.FilterExpression = filters.join(q.any ? " OR " : " AND ");
  if (q.project.trim()) input.ProjectionExpression = q.project.split(",").map((p) => p.trim()).filter(Boolean).map((p) => used.path(p)).join(", ");
  used.addTo(input);
  if (isQuery && q.reverse) input.ScanIndexForward = false;
  if (q.consistent && !(q.index && indexOf(table, q.index).global)) input.ConsistentRead = true;
  input.Limit = q.limit;
  return { operation: isQuery ? "Query" : "Scan", input };
}

function keyCondition(keys, q, used) {
  const parts = keys.hash.map((k, i) => `${used.name(k.name)} = ${used.value(scalar(k.type, q.hash[i]))}`);
  let open = true; // a test other than = is the last one
  keys.range.forEach((k, i) => {
    const r = q.range[i];
    if (!r || r.a === "" || r.a === undefined) {
      open = false;
      return;
    }
    if (!open) throw new Error("The parts of a sort key are given from left to right, and all but the last with =.");
    open = r.op === "=";
    parts.push(testText(used.name(k.name), r.op, [r.a, r.b ?? ""].map((text) => () => used.value(scalar(k.type, text)))));
  });
  return parts.join(" AND ");
}

function testText(left, op, [a, b]) {
  switch (op) {
    case "between": return `${left} BETWEEN ${a()} AND ${b()}`;
    case "begins with": return `begins_with(${left}, ${a()})`;
    case "contains": return `contains(${left}, ${a()})`;
    case "does not contain": return `NOT contains(${left}, ${a()})`;
    case "exists": return `attribute_exists(${left})`;
    case "does not exist": return `attribute_not_exists(${left})`;
  }
  return `${left} ${op} ${a()}`;
}

function filterText(f, used) {
  const left = used.path(f.path);
  if (f.op === "has type") return `attribute_type(${left}, ${used.value({ S: f.a || "S" })})`;
  if (f.op === "in") return `${left} IN (${f.a.split(",").map((text) => used.value(scalar(f.type, text.trim()))).join(", ")})`;
  if (f.op.startsWith("size ")) return `size(${left}) ${f.op.slice(5)} ${used.value(scalar("N", f.a))}`;
  return testText(left, f.op, [f.a, f.b ?? ""].map((text) => () => used.value(scalar(f.type, text))));
}
