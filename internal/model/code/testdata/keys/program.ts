import { DynamoDBClient, GetItemCommand, PutItemCommand, QueryCommand, TransactWriteItemsCommand, UpdateItemCommand } from "@aws-sdk/client-dynamodb";
import * as m from "./generated.js";

const client = new DynamoDBClient({
  endpoint: process.argv[2]!,
  region: "us-east-1",
  credentials: { accessKeyId: "test", secretAccessKey: "test" },
  maxAttempts: 1,
});

/** Prints the error of a call, or ok. */
function show(what: string, call: () => unknown): void {
  try {
    call();
    console.log(`${what}: ok`);
  } catch (e) {
    console.log(`${what}: ${(e as Error).message}`);
  }
}

function word(values: Partial<m.Word>): m.Word {
  return { country: "US", city: "Louis", name: "n", level: 1, tags: [], sizes: [], note: "", ...values };
}

async function keys(): Promise<void> {
  show("last part", () => m.wordItem(word({ city: "St#Louis" })));
  const back = m.wordOf(m.wordItem(word({ city: "St#Louis" })));
  console.log(back.country, back.city, back.name, String(back.level));
  show("item", () => m.wordItem(word({ country: "US#St" })));
  show("empty", () => m.wordItem(word({ country: "" })));
  show("key", () => m.wordKey({ country: "US", city: "Louis", name: "a#", level: 1 }));
  show("get", () => m.word({ country: "US", city: "", name: "a", level: 1 }));
  show("begins with nothing", () => m.wordsBeginning({ country: "US", city: "Louis", name: "" }));
  show("begins", () => m.wordsBeginning({ country: "US", city: "Louis", name: "a#1" }));
  show("query", () => m.wordsBeginning({ country: "US#St", city: "Louis", name: "a" }));
  show("order", () => m.putOrder({ customer: "c", id: "1#LINE#2" }));
  show("order with a part of it", () => m.putOrder({ customer: "c", id: "1#LINE" }));
  show("line", () => m.putLine({ customer: "c", id: "1#LINE", number: "2" }));
  show("transaction", () => m.retagAll({ words: [{ country: "US", city: "x", name: "a#b", level: 1, tags: ["t"], note: "" }] }));

  await client.send(new PutItemCommand(m.putOrder({ customer: "c", id: "1" })));
  await client.send(new PutItemCommand(m.putLine({ customer: "c", id: "1", number: "2" })));
  const orders = new QueryCommand(m.orders({ customer: "c" }));
  const page = m.decodeOrders(await client.send(orders));
  console.log(String(page.orders.length), String(page.lines.length));
  await client.send(new PutItemCommand({ TableName: "keys", Item: { PK: { S: "C#c" }, SK: { S: "OTHER" } } }));
  const out = await client.send(orders);
  show("stranger", () => m.decodeOrders(out));
}

async function sets(): Promise<void> {
  const key = { country: "US", city: "Louis", name: "n", level: 1 };
  await client.send(new PutItemCommand(m.putWord(word({ tags: ["a"], sizes: [1], note: "x" }))));
  const stored = async (): Promise<void> => {
    const e = m.decodeWord(await client.send(new GetItemCommand(m.word(key))))!;
    console.log(`tags ${e.tags.sort().join(",")} sizes ${e.sizes.length} note ${e.note}`);
  };
  await stored();
  for (const tags of [[], ["b", "c"]]) {
    await client.send(new UpdateItemCommand(m.retag({ ...key, tags })));
    await stored();
  }
  await client.send(new UpdateItemCommand(m.describe({ ...key, note: "y", sizes: [], tags: ["d"] })));
  await stored();
  show("add", () => m.describe({ ...key, note: "y", sizes: [], tags: [] }));
  await client.send(new TransactWriteItemsCommand(m.retagAll({ words: [{ ...key, tags: [], note: "z" }] })));
  await stored();
}

async function shards(): Promise<void> {
  for (let i = 0; i < 9; i++) {
    await client.send(new PutItemCommand(m.putOrder({ customer: "s", id: `o${3 * i}` })));
  }
  const at: m.Position[] = [];
  const ids: string[] = [];
  for (let round = 1; ; round++) {
    const queries = m.openOrders(at);
    if (queries.length === 0) {
      break;
    }
    for (const q of queries) {
      const page = m.decodeOpenOrders(await client.send(new QueryCommand(q.request)));
      ids.push(...page.items.map((e) => e.id));
      at[q.shard] = page.next;
    }
    console.log(`round ${round} of ${queries.length} shards`);
  }
  console.log(ids.sort().join(" "));
}

await keys();
await sets();
await shards();
