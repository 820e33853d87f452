// Requests of operations that only stator has, as its command lines and for curl.

const json = ({ input }) => JSON.stringify(input, null, 2);

/** The forms of a request. quoted makes an argument of a shell. */
export const ownForms = (endpoint, quoted) => [
  { name: "JSON", make: json },
  { name: "stator", make: (request) => toStator(request, endpoint, quoted) },
  { name: "curl", make: (request) => toCurl(request, endpoint, quoted) },
];

/** curl signs requests; a server without --keys accepts any credentials. */
function toCurl({ operation, input }, { url, region }, quoted) {
  return ["curl", `--aws-sigv4 ${quoted(`aws:amz:${region}:dynamodb`)}`, '--user "$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"', "-H 'Content-Type: application/x-amz-json-1.0'",
    `-H ${quoted("X-Amz-Target: " + operation)}`, `--data-raw ${quoted(JSON.stringify(input))}`, quoted(url.replace(/\/?$/, "/"))].join(" \\\n  ");
}

const time = (second) => new Date(second * 1000).toISOString().replace(".000Z", "Z");

/** The command line that prints the same, if there is one. */
function toStator({ operation, input }, { url, region }, quoted) {
  const given = { ...input };
  const take = (name) => {
    const value = given[name];
    delete given[name];
    return value;
  };
  const key = () => quoted(JSON.stringify(take("Key")));
  const table = quoted(take("TableName"));
  let parts;
  switch (operation) {
    case "Stator.GetItemAt":
      parts = [`stator get ${table} ${key()}`, `--at ${time(take("AsOf"))}`];
      break;
    case "Stator.QueryAt":
    case "Stator.ScanAt": {
      const index = take("IndexName"), limit = take("Limit"), wanted = operation === "Stator.QueryAt" ? " " + quoted(JSON.stringify(equalKey(take, given))) : "";
      parts = [`stator query ${table}${wanted}`, `--at ${time(take("AsOf"))}`, ...(index ? [`--index ${quoted(index)}`] : []), ...(limit ? [`--limit ${limit}`] : [])];
      break;
    }
    case "Stator.ItemHistory":
      parts = [`stator history ${table} ${key()}`, `--limit ${take("Limit")}`];
      break;
    case "Stator.UndoChanges": {
      const change = take("SequenceNumber"), item = given.Key && `--key ${key()}`;
      parts = [`stator undo ${table}`, ...(change ? [`--change ${change}`] : [`--from ${time(take("From"))}`, `--to ${time(take("To"))}`]), ...(item ? [item] : [])];
      break;
    }
    default:
      throw new Error(`The stator command does not have ${operation}.`);
  }
  delete given.ConsistentRead; // it changes what is consumed, not what is read
  const left = Object.keys(given);
  if (left.length) throw new Error(`The stator command has no ${left.join(", ")}: use curl.`);
  return [...parts, `--region ${region}`, `--endpoint ${quoted(url)}`].join(" \\\n  ");
}

/** The key of a condition that only compares with =. */
function equalKey(take, given) {
  const terms = given.KeyConditionExpression.split(" AND ").map((t) => /^(#\w+) = (:\w+)$/.exec(t));
  if (terms.includes(null)) throw new Error("stator query compares keys with = only: use curl.");
  if (given.FilterExpression || given.ProjectionExpression) throw new Error("The stator command has no filters and projections: use curl.");
  take("KeyConditionExpression");
  const names = take("ExpressionAttributeNames"), values = take("ExpressionAttributeValues");
  return Object.fromEntries(terms.map(([, name, value]) => [names[name], values[value]]));
}
