// A request as code that runs: AWS CLI, Go, JavaScript, Python, PartiQL.
import { html, useState } from "./html.js";
import { session } from "./state.js";
import { copy } from "./ui.js";
import { toPartiQL } from "./topartiql.js";
import { ownForms } from "./copyown.js";

const snake = (name) => name.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/([A-Z])([A-Z][a-z])/g, "$1_$2").toLowerCase();

const endpoint = () => {
  const { url, region, aws } = session.value.endpoint;
  return { url: aws ? "" : url || location.origin, region };
};

const service = (operation) => (operation.startsWith("DynamoDBStreams_20120810.") ? "dynamodbstreams" : "dynamodb");
const bare = (operation) => operation.replace(/^.*\./, "");

function toJSON({ input }) {
  return JSON.stringify(input, null, 2);
}

/** One argument of a POSIX shell. */
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Whether there is a binary value. An attribute may be named as a type. */
function hasBinary(v) {
  if (v === null || typeof v !== "object") return false;
  return typeof v.B === "string" || (Array.isArray(v.BS) && typeof v.BS[0] === "string") || Object.values(v).some(hasBinary);
}

function toCLI({ operation, input }) {
  const { url, region } = endpoint();
  const command = snake(bare(operation)).replaceAll("_", "-");
  const parts = [`aws ${service(operation)} ${command}`, `--region ${region}`];
  if (url) parts.push(`--endpoint-url ${url}`);
  if (["Query", "Scan", "ListTables"].includes(operation)) parts.push("--no-paginate");
  if (hasBinary(input)) parts.push("--cli-binary-format base64"); // version 1, which would store the base64 text, rejects it
  parts.push(`--cli-input-json ${quoted(JSON.stringify(input))}`);
  return parts.join(" \\\n  ");
}

// Values of items are objects with one type; everything else is a structure, a list or a map of strings.
const isValue = (v) => v !== null && typeof v === "object" && !Array.isArray(v) && Object.keys(v).length === 1 && /^(S|N|B|BOOL|NULL|M|L|SS|NS|BS)$/.test(Object.keys(v)[0]);

/** Whether the members of a structure are values of items. */
const holdsValues = (name) => ["Key", "Item", "ExpressionAttributeValues", "ExclusiveStartKey", "Expected", "AttributeUpdates"].includes(name);

function toPython({ operation, input }) {
  const { url, region } = endpoint();
  const literal = (v, indent, values, type) => {
    if (typeof v === "boolean") return v ? "True" : "False";
    if (typeof v === "string") return type === "B" ? `base64.b64decode(${JSON.stringify(v)})` : pyString(v);
    if (v === null || typeof v !== "object") return String(v);
    const inner = indent + "    ";
    if (Array.isArray(v)) return v.length ? `[\n${v.map((e) => inner + literal(e, inner, values, type)).join(",\n")},\n${indent}]` : "[]";
    const typed = values && isValue(v);
    const members = Object.keys(v).map((k) => {
      const of = typed ? (k === "B" || k === "BS" ? "B" : "") : "";
      return `${inner}${pyString(k)}: ${literal(v[k], inner, values || holdsValues(k) || k === "Parameters" || k === "RequestItems" || k === "TransactItems", of)}`;
    });
    return members.length ? `{\n${members.join(",\n")},\n${indent}}` : "{}";
  };
  const body = literal(input, "", false, "");
  return `${body.includes("base64.b64decode") ? "import base64\n" : ""}import boto3

client = boto3.client(${JSON.stringify(service(operation))}, region_name=${JSON.stringify(region)}${url ? `, endpoint_url=${JSON.stringify(url)}` : ""})
reply = client.${snake(bare(operation))}(**${body})
print(reply)
`;
}

/** A string of Python, whose literals are those of JSON and more. */
const pyString = (text) => JSON.stringify(text);

function toJavaScript({ operation, input }) {
  const { url, region } = endpoint();
  const text = (v, indent, values, type) => {
    if (typeof v === "string") return type === "B" ? `Buffer.from(${JSON.stringify(v)}, "base64")` : JSON.stringify(v);
    if (v === null || typeof v !== "object") return String(v);
    const inner = indent + "  ";
    if (Array.isArray(v)) return v.length ? `[\n${v.map((e) => inner + text(e, inner, values, type)).join(",\n")},\n${indent}]` : "[]";
    const typed = values && isValue(v);
    const members = Object.keys(v).map((k) => {
      const of = typed ? (k === "B" || k === "BS" ? "B" : "") : "";
      // A member "__proto__" of a literal would be the prototype.
      const name = k === "__proto__" ? '["__proto__"]' : JSON.stringify(k);
      if (k === "RestoreDateTime" && !values) return `${inner}${name}: new Date(${v[k]} * 1000)`;
      return `${inner}${name}: ${text(v[k], inner, values || holdsValues(k) || k === "Parameters" || k === "RequestItems" || k === "TransactItems", of)}`;
    });
    return members.length ? `{\n${members.join(",\n")},\n${indent}}` : "{}";
  };
  const client = service(operation) === "dynamodb" ? ["DynamoDBClient", "@aws-sdk/client-dynamodb"] : ["DynamoDBStreamsClient", "@aws-sdk/client-dynamodb-streams"];
  const command = bare(operation) + "Command";
  return `import { ${client[0]}, ${command} } from "${client[1]}";

const client = new ${client[0]}({ region: ${JSON.stringify(region)}${url ? `, endpoint: ${JSON.stringify(url)}` : ""} });
const reply = await client.send(new ${command}(${text(input, "", false, "")}));
console.dir(reply, { depth: null });
`;
}

// Types of members in the SDK of Go that are not pointers to strings. Names of members mean the same in all operations.
const goKinds = {
  Limit: "int32", Segment: "int32", TotalSegments: "int32", ReadCapacityUnits: "int64", WriteCapacityUnits: "int64", MaxReadRequestUnits: "int64", MaxWriteRequestUnits: "int64", RecoveryPeriodInDays: "int32",
  RestoreDateTime: "time",
  ConsistentRead: "bool", ScanIndexForward: "bool", DeletionProtectionEnabled: "bool", Enabled: "bool", StreamEnabled: "bool", PointInTimeRecoveryEnabled: "bool",
  ReturnConsumedCapacity: "types.ReturnConsumedCapacity", ReturnItemCollectionMetrics: "types.ReturnItemCollectionMetrics", ReturnValues: "types.ReturnValue", ReturnValuesOnConditionCheckFailure: "types.ReturnValuesOnConditionCheckFailure",
  Select: "types.Select", BillingMode: "types.BillingMode", TableClass: "types.TableClass", KeyType: "types.KeyType", AttributeType: "types.ScalarAttributeType", ProjectionType: "types.ProjectionType", StreamViewType: "types.StreamViewType",
  AttributeDefinitions: "[]types.AttributeDefinition", KeySchema: "[]types.KeySchemaElement", Projection: "*types.Projection", ProvisionedThroughput: "*types.ProvisionedThroughput", OnDemandThroughput: "*types.OnDemandThroughput",
  StreamSpecification: "*types.StreamSpecification", TimeToLiveSpecification: "*types.TimeToLiveSpecification", PointInTimeRecoverySpecification: "*types.PointInTimeRecoverySpecification",
  GlobalSecondaryIndexUpdates: "[]types.GlobalSecondaryIndexUpdate", GlobalSecondaryIndexes: "[]types.GlobalSecondaryIndex", LocalSecondaryIndexes: "[]types.LocalSecondaryIndex",
  Create: "*types.CreateGlobalSecondaryIndexAction", Update: "*types.UpdateGlobalSecondaryIndexAction", Delete: "*types.DeleteGlobalSecondaryIndexAction",
  NonKeyAttributes: "[]string", Tags: "[]types.Tag", Parameters: "[]types.AttributeValue", ExpressionAttributeNames: "map[string]string",
  Expected: "map[string]types.ExpectedAttributeValue", AttributeUpdates: "map[string]types.AttributeValueUpdate",
  ComparisonOperator: "types.ComparisonOperator", AttributeValueList: "[]types.AttributeValue", Action: "types.AttributeAction",
  Key: "map[string]types.AttributeValue", Item: "map[string]types.AttributeValue", ExpressionAttributeValues: "map[string]types.AttributeValue", ExclusiveStartKey: "map[string]types.AttributeValue",
};

function toGo({ operation, input }) {
  const { url, region } = endpoint();
  const name = bare(operation);
  const goString = (s) => JSON.stringify(s).replaceAll("\ufeff", "\\ufeff"); // which Go rejects in files
  const goBytes = (base64) => `[]byte("${[...atob(base64)].map((c) => "\\x" + c.charCodeAt(0).toString(16).padStart(2, "0")).join("")}")`;
  const block = (open, lines, indent) => (lines.length ? `${open}{\n${lines.map((l) => indent + "\t" + l + ",").join("\n")}\n${indent}}` : open + "{}");
  const value = (v, indent) => {
    const type = Object.keys(v)[0], inner = v[type];
    const member = (text) => `&types.AttributeValueMember${type}{Value: ${text}}`;
    switch (type) {
      case "S": case "N": return member(goString(inner));
      case "B": return member(goBytes(inner));
      case "BOOL": case "NULL": return member(String(inner));
      case "SS": case "NS": return member(`[]string{${inner.map(goString).join(", ")}}`);
      case "BS": return member(`[][]byte{${inner.map(goBytes).join(", ")}}`);
      case "L": return member(block("[]types.AttributeValue", inner.map((e) => value(e, indent + "\t")), indent));
    }
    return member(values(inner, indent));
  };
  const values = (m, indent) => block("map[string]types.AttributeValue", Object.keys(m).map((k) => `${goString(k)}: ${value(m[k], indent + "\t")}`), indent);
  const field = (k, v, indent) => {
    const kind = goKinds[k] ?? "string";
    switch (kind) {
      case "string": return typeof v === "object" ? value(v, indent) : `aws.String(${goString(v)})`; // Value is that of a tag or of an update
      case "int32": return `aws.Int32(${v})`;
      case "int64": return `aws.Int64(${v})`;
      case "time": return `aws.Time(time.Unix(${v}, 0))`;
      case "bool": return `aws.Bool(${v})`;
      case "[]string": return `[]string{${v.map(goString).join(", ")}}`;
      case "map[string]string": return block(kind, Object.keys(v).map((n) => `${goString(n)}: ${goString(v[n])}`), indent);
      case "map[string]types.AttributeValue": return values(v, indent);
      case "[]types.AttributeValue": return block(kind, v.map((e) => value(e, indent + "\t")), indent);
    }
    if (kind.startsWith("map[string]")) return block(kind, Object.keys(v).map((n) => `${goString(n)}: ${struct("", v[n], indent + "\t")}`), indent);
    if (kind.startsWith("[]")) return block(kind, v.map((e) => struct("", e, indent + "\t")), indent);
    if (kind.startsWith("*")) return struct("&" + kind.slice(1), v, indent);
    return `${kind}(${goString(v)})`;
  };
  const struct = (type, v, indent) => block(type, Object.keys(v).map((k) => `${k}: ${field(k, v[k], indent + "\t")}`), indent);
  const body = struct(`&dynamodb.${name}Input`, input, "\t");
  const usesTypes = body.includes("types."), usesAWS = body.includes("aws.") || url;
  return `package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
${input.RestoreDateTime !== undefined ? '\t"time"\n' : ""}
${usesAWS ? '\t"github.com/aws/aws-sdk-go-v2/aws"\n' : ""}	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
${usesTypes ? '\t"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"\n' : ""})

func main() {
	ctx := context.Background()
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRegion(${goString(region)}))
	if err != nil {
		log.Fatal(err)
	}
	client := dynamodb.NewFromConfig(cfg${url ? `, func(o *dynamodb.Options) { o.BaseEndpoint = aws.String(${goString(url)}) }` : ""})
	reply, err := client.${name}(ctx, ${body})
	if err != nil {
		log.Fatal(err)
	}
	text, err := json.MarshalIndent(reply, "", "  ")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}
`;
}

/** All forms of a request of DynamoDB. */
export const forms = [
  { name: "JSON", make: toJSON },
  { name: "AWS CLI", make: toCLI },
  { name: "Go", make: toGo },
  { name: "JavaScript", make: toJavaScript },
  { name: "Python", make: toPython },
  { name: "PartiQL", make: toPartiQL },
];

/** Shows a request, and copies it as code. Only our own command and curl send operations that DynamoDB does not have. */
export function CopyAs({ request, table }) {
  const [form, setForm] = useState("JSON");
  const offered = request.operation.startsWith("Stator.") ? ownForms(endpoint(), quoted) : forms;
  const chosen = offered.find((f) => f.name === form) ?? offered[0];
  let text, fault = "";
  try {
    text = chosen.make(request, table);
  } catch (err) {
    fault = err.message;
  }
  return html`<div class="copyas form">
    <div class="row middle" role="group" aria-label="Form of the request">
      <strong>${bare(request.operation)}</strong>
      ${offered.map((f) => html`<button type="button" aria-pressed=${f === chosen} onClick=${() => setForm(f.name)}>${f.name}</button>`)}
      <span class="push"></span>
      <button type="button" disabled=${!!fault} onClick=${() => copy(text)}>Copy</button>
    </div>
    ${fault ? html`<p class="hint">${fault}</p>` : html`<pre class="request" tabindex="0" aria-label=${"The request as " + chosen.name}>${text}</pre>`}
  </div>`;
}
