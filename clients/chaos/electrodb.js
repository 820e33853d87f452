// A create of a new entity must not fail.
const { Entity } = require('electrodb')
const { DynamoDB } = require('@aws-sdk/client-dynamodb')
async function main() {
  const db = new DynamoDB({})
  await db.createTable({ TableName: 'Items', BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: [{ AttributeName: 'pk', AttributeType: 'S' }, { AttributeName: 'sk', AttributeType: 'S' }], KeySchema: [{ AttributeName: 'pk', KeyType: 'HASH' }, { AttributeName: 'sk', KeyType: 'RANGE' }] })
  const items = new Entity({ model: { entity: 'item', version: '1', service: 'shop' }, attributes: { id: { type: 'string' }, n: { type: 'number' } }, indexes: { primary: { pk: { field: 'pk', composite: ['id'] }, sk: { field: 'sk', composite: [] } } } }, { table: 'Items', client: db })
  for (let i = 0; i < 20; i++) await items.create({ id: 'item-' + i, n: i }).go()
  const all = await items.get(Array.from({ length: 20 }, (_, i) => ({ id: 'item-' + i }))).go({ concurrent: 1 })
  if (all.data.length + all.unprocessed.length !== 20) throw new Error(`${all.data.length} items and ${all.unprocessed.length} unprocessed`)
}
main().catch(e => { console.error('creating a new item failed:', e.message); process.exit(1) })
