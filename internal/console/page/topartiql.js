// Requests as statements of PartiQL.
import { keyNames, keysOf } from "./schema.js";
import { typeOf } from "./values.js";

const name = (text) => `"${text.replaceAll('"', '""')}"`;

/** A value as a literal. PartiQL has none for binary values. */
export function literal(value) {
  const type = typeOf(value), inner = value[type];
  switch (type) {
    case "S": return `'${inner.replaceAll("'", "''")}'`;
    case "N": return inner;
    case "BOOL": return String(inner);
    case "NULL": return "NULL";
    case "L": return `[${inner.map(literal).join(", ")}]`;
    case "M": return `{${Object.keys(inner).map((k) => `'${k.replaceAll("'", "''")}': ${literal(inner[k])}`).join(", ")}}`;
    case "SS": return `<<${inner.map((s) => literal({ S: s })).join(", ")}>>`;
    case "NS": return `<<${inner.join(", ")}>>`;
  }
  throw new Error("PartiQL has no literals for binary values: use one of the other forms.");
}

/** An expression with its names and values in place of the placeholders. */
function expression(text, input) {
  return text
    .replace(/\bIN \(([^)]*)\)/g, "IN [$1]")
    .replace(/\battribute_exists\(([^)]*)\)/g, "$1 IS NOT MISSING")
    .replace(/\battribute_not_exists\(([^)]*)\)/g, "$1 IS MISSING")
    .replace(/[#:]\w+/g, (p) => (p[0] === "#" ? name(input.ExpressionAttributeNames[p]) : literal(input.ExpressionAttributeValues[p])));
}

const keyTest = (key) => Object.keys(key).map((k) => `${name(k)} = ${literal(key[k])}`).join(" AND ");

/** The statement of a request; an error says why it has none. */
export function toPartiQL({ operation, input }, table) {
  if (input.Expected) throw new Error("PartiQL has no statement that tests so many attributes.");
  const into = name(input.TableName ?? "");
  switch (operation) {
    case "GetItem": return `SELECT * FROM ${into} WHERE ${keyTest(input.Key)}`;
    case "Query": case "Scan": return select(input, table);
    case "PutItem": {
      const absent = /^attribute_not_exists\((#\w+)\)$/.exec(input.ConditionExpression ?? "")?.[1];
      if (!absent || !keyNames(table).includes(input.ExpressionAttributeNames[absent])) break; // INSERT is for new items only
      return `INSERT INTO ${into} VALUE ${literal({ M: input.Item })}`;
    }
    case "DeleteItem": return `DELETE FROM ${into} WHERE ${where(input)}`;
    case "UpdateItem": return `UPDATE ${into}${changes(input)} WHERE ${where(input)}`;
    case "ExecuteStatement": return input.Statement;
  }
  throw new Error(`PartiQL has no statement for ${operation}${operation === "PutItem" ? " that replaces an item" : ""}.`);
}

function select(input, table) {
  if (/[.[]/.test(input.ProjectionExpression ?? "")) throw new Error("PartiQL has no statement that gives a part of an attribute at its place: show the whole attribute.");
  const from = name(input.TableName) + (input.IndexName ? "." + name(input.IndexName) : "");
  const what = input.ProjectionExpression ? expression(input.ProjectionExpression, input) : "*";
  const filter = input.FilterExpression && expression(input.FilterExpression, input);
  const tests = [input.KeyConditionExpression && expression(input.KeyConditionExpression, input), filter && (filter.includes(" OR ") ? `(${filter})` : filter)].filter(Boolean);
  let order = "";
  if (input.ScanIndexForward === false && table) {
    const { range } = keysOf(table, input.IndexName);
    if (range.length) order = ` ORDER BY ${name(range[0].name)} DESC`;
  }
  return `SELECT ${what} FROM ${from}${tests.length ? " WHERE " + tests.join(" AND ") : ""}${order}`;
}

function where(input) {
  const condition = input.ConditionExpression && expression(withoutKeys(input), input);
  return [keyTest(input.Key), condition].filter(Boolean).join(" AND ");
}

/** A condition without the test that the item exists: a statement changes an item that exists, or none. */
function withoutKeys(input) {
  return input.ConditionExpression.split(" AND ").filter((test) => {
    const path = /^attribute_exists\((#\w+)\)$/.exec(test)?.[1];
    return !path || !Object.hasOwn(input.Key, input.ExpressionAttributeNames[path]);
  }).join(" AND ");
}

/** The SET and REMOVE of an update, one for each attribute. */
function changes(input) {
  const [whole, set, remove] = /^(?:SET (.*?))?\s*(?:REMOVE (.*))?$/.exec(input.UpdateExpression) ?? [];
  if (!whole) throw new Error(`PartiQL has no statement for ${input.UpdateExpression}.`);
  const each = (word, list) => (list ? list.split(", ").map((one) => ` ${word} ${expression(one, input)}`).join("") : "");
  return each("SET", set) + each("REMOVE", remove);
}
