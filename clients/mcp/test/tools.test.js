// The official client of the Model Context Protocol lists and calls every tool of stator mcp, on
// stdio and over HTTP; tools that write are refused unless they are allowed.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const endpoint = process.env.AWS_ENDPOINT_URL;
const folder = mkdtempSync(join(tmpdir(), "stator-mcp-"));
const tokenFile = join(folder, "token");
const base = ["mcp", "--endpoint", endpoint, "--model", "shop.model.yaml"];
const reading = ["explain", "get", "history", "model_check", "model_cost", "model_drift", "model_prove", "overview", "query", "request", "sample", "table_plan", "traffic", "why_denied"];
const writing = ["fork", "table_apply", "undo", "write"];

after(() => rmSync(folder, { recursive: true }));

async function overStdio(args, client) {
  await client.connect(new StdioClientTransport({ command: process.env.STATOR, args: [...base, ...args], env: { ...process.env }, stderr: "ignore" }));
  return () => client.close();
}

async function overHTTP(args, client) {
  const server = spawn(process.env.STATOR, [...base, ...args, "--http", "127.0.0.1:0", "--token-file", tokenFile], { stdio: ["ignore", "ignore", "pipe"] });
  const url = await new Promise((resolve, reject) => {
    let text = "";
    server.stderr.on("data", (part) => {
      text += part;
      const found = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(text);
      if (found && text.includes("to clients with")) resolve(found[0]);
    });
    server.on("exit", () => reject(new Error(text)));
  });
  const token = readFileSync(tokenFile, "utf8").trim();
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
  return async () => {
    await client.close();
    const ended = new Promise((resolve) => server.once("exit", resolve));
    server.kill("SIGTERM");
    assert.equal(await ended, 0);
  };
}

function newClient(agrees) {
  const client = new Client({ name: "clients", version: "1" }, { capabilities: agrees ? { elicitation: {} } : {} });
  if (agrees) client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { agree: true } }));
  return client;
}

const put = { actions: [{ action: "put", table: "McpOrders", item: { id: "a", n: 1, customer: "ada", placed: "2026-01-02", tags: { $ss: ["x"] } } }] };

for (const [name, connect] of [["stdio", overStdio], ["HTTP", overHTTP]]) {
  describe(name, () => {
    test("reads only, unless more is allowed", async () => {
      const client = newClient(false);
      const close = await connect([], client);
      try {
        assert.deepEqual((await client.listTools()).tools.map((t) => t.name).sort(), reading);
        for (const tool of writing) {
          const refused = await client.callTool({ name: tool, arguments: {} }).catch((error) => ({ isError: true, error }));
          assert.ok(refused.isError, tool);
        }
        for (const request of [
          { operation: "PutItem", body: { TableName: "McpOrders", Item: { id: { S: "x" }, n: { N: "1" } } } },
          { operation: "ExecuteStatement", body: { Statement: "DELETE FROM McpOrders WHERE id = 'a' AND n = 1" } },
          { operation: "DeleteTable", body: { TableName: "McpOrders" } },
        ]) {
          const refused = await client.callTool({ name: "request", arguments: request });
          assert.ok(refused.isError);
          assert.match(refused.content[0].text, /which is not allowed here; nothing was sent/);
        }
      } finally {
        await close();
      }
    });

    describe("with all groups", () => {
      let client, close;
      const called = new Set();
      before(async () => {
        client = newClient(name === "stdio"); // older clients cannot be asked without a session
        close = await connect(["--allow", "write,tables"], client);
      });
      after(() => close());

      async function call(tool, args) {
        called.add(tool);
        const answer = await client.callTool({ name: tool, arguments: args });
        assert.ok(!answer.isError, `${tool}: ${answer.content[0]?.text}`);
        assert.deepEqual(answer.structuredContent, JSON.parse(answer.content[0].text));
        return answer.structuredContent;
      }

      // confirmed calls a tool, with the token of its plan if the client was not asked.
      async function confirmed(tool, args) {
        const answer = await call(tool, args);
        return answer.confirm ? call(tool, { ...args, confirm: answer.confirm }) : answer;
      }

      test("every tool is called", async () => {
        assert.ok((await call("table_plan", {})).changes.length >= 0);
        assert.equal((await confirmed("table_apply", {})).done, true);
        assert.ok((await call("overview", {})).tables.some((t) => t.name === "McpOrders"));
        assert.equal((await call("write", { ...put, dry_run: true })).done, false);
        assert.equal((await confirmed("write", put)).done, true);
        assert.deepEqual((await call("get", { table: "McpOrders", key: { id: "a", n: 1 } })).item.tags, { $ss: ["x"] });
        const found = await call("query", { table: "McpOrders", where: { customer: "ada", placed: { begins_with: "2026" } } });
        assert.equal(found.served_by, "Query of index byCustomer of table McpOrders");
        assert.equal(found.count, 1);
        assert.equal((await call("sample", { table: "McpOrders" })).entities.length, 1);
        assert.equal((await call("explain", { statement: "SELECT * FROM McpOrders WHERE x = 1" })).scan, true);
        const { changes } = await call("history", { table: "McpOrders", key: { id: "a", n: 1 } });
        assert.ok(changes.length > 0);
        await call("traffic", {});
        for (const tool of ["model_check", "model_cost", "model_drift"]) await call(tool, {});
        assert.equal((await call("model_prove", {})).ok, true);
        assert.ok((await call("request", { operation: "DescribeTable", body: { TableName: "McpOrders" } })).reply.Table);
        called.add("why_denied");
        assert.ok((await client.callTool({ name: "why_denied", arguments: { request_id: "none" } })).isError);

        const { fork } = await call("fork", { action: "create" });
        const del = { actions: [{ action: "delete", table: "McpOrders", key: { id: "a", n: 1 } }] };
        assert.equal((await call("write", { ...del, fork })).done, true);
        assert.deepEqual((await call("fork", { action: "diff", name: fork })).differences.map((d) => d.change), ["removed"]);
        assert.equal((await call("fork", { action: "drop", name: fork })).dropped, fork);

        assert.equal((await confirmed("write", del)).done, true);
        assert.equal((await call("get", { table: "McpOrders", key: { id: "a", n: 1 } })).found, false);
        const [last] = (await call("history", { table: "McpOrders", key: { id: "a", n: 1 } })).changes;
        assert.equal(last.event, "REMOVE");
        assert.equal((await confirmed("undo", { table: "McpOrders", key: { id: "a", n: 1 }, sequence: last.sequence })).done, true);
        assert.equal((await call("get", { table: "McpOrders", key: { id: "a", n: 1 } })).found, true);

        assert.deepEqual([...called].sort(), (await client.listTools()).tools.map((t) => t.name).sort());
      });
    });
  });
}

test("a client without the token is refused", async () => {
  const client = newClient(false);
  const close = await overHTTP([], client);
  try {
    const url = client.transport._url;
    for (const headers of [{}, { Authorization: "Bearer wrong" }]) {
      const other = new Client({ name: "other", version: "1" });
      await assert.rejects(other.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })), /401|Unauthorized|Authorization/);
    }
  } finally {
    await close();
  }
});
