// Versioned puts by one writer must not fail; batches write and read all items.
const DynamoDB = require('aws-sdk/clients/dynamodb')
const { DataMapper, DynamoDbSchema, DynamoDbTable } = require('@aws/dynamodb-data-mapper')
class Item { }
Object.defineProperties(Item.prototype, { [DynamoDbTable]: { value: 'Items' }, [DynamoDbSchema]: { value: { id: { type: 'String', keyType: 'HASH' }, n: { type: 'Number' }, version: { type: 'Number', versionAttribute: true } } } })
class Plain { }
Object.defineProperties(Plain.prototype, { [DynamoDbTable]: { value: 'Plain' }, [DynamoDbSchema]: { value: { id: { type: 'String', keyType: 'HASH' }, n: { type: 'Number' } } } })
async function main() {
  const client = new DynamoDB({ endpoint: process.env.AWS_ENDPOINT_URL, region: 'us-east-1', maxRetries: 3, retryDelayOptions: { base: 5 } })
  const mapper = new DataMapper({ client })
  await mapper.ensureTableExists(Plain, { readCapacityUnits: 5, writeCapacityUnits: 5 })
  const made = i => Object.assign(new Plain(), { id: 'item-' + i, n: i })
  const keys = Array.from({ length: 60 }, (_, i) => made(i))
  for await (const _ of mapper.batchPut(keys)) { }
  const found = new Set()
  for await (const it of mapper.batchGet(keys.map(k => Object.assign(new Plain(), { id: k.id })), { readConsistency: 'strong' })) found.add(it.id)
  if (found.size !== 60) throw new Error(`${found.size} of 60 items were read back after a batch`)
  if (process.argv[2] === 'batch') return
  await mapper.ensureTableExists(Item, { readCapacityUnits: 5, writeCapacityUnits: 5 })
  let item = Object.assign(new Item(), { id: 'a', n: 0 })
  for (let i = 1; i <= 20; i++) { item.n = i; item = await mapper.put(item) }
}
main().catch(e => { console.error(process.argv[2] || 'a versioned put of the only writer failed', ':', e.name, e.message); process.exit(1) })
