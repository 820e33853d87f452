const { DynamoDB } = require('@aws-sdk/client-dynamodb')
const { DynamoDBStreams } = require('@aws-sdk/client-dynamodb-streams')
const DynamoDBStream = require('dynamodb-stream')
const tolerant = process.argv[2] === 'tolerant'
const n = 15
const plain = keys => Object.fromEntries(Object.entries(keys).map(([k, v]) => [k, Object.values(v)[0]]))
async function main() {
  const db = new DynamoDB({}), streams = new DynamoDBStreams({})
  const t = await db.createTable({ TableName: 'Items', BillingMode: 'PROVISIONED', ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 5 },
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }], KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    StreamSpecification: { StreamEnabled: true, StreamViewType: 'NEW_AND_OLD_IMAGES' } })
  const reader = new DynamoDBStream(streams, t.TableDescription.LatestStreamArn, plain)
  const seen = new Set()
  reader.on('insert record', (r, keys) => seen.add(keys.id))
  const fetch = async () => {
    try { await reader.fetchStreamState() } catch (e) { if (!tolerant) throw e; console.log('fetchStreamState:', e.message) }
  }
  await fetch()
  for (let i = 0; i < n; i++) {
    await db.putItem({ TableName: 'Items', Item: { id: { S: 'item-' + i } } })
    await fetch()
  }
  for (let i = 0; i < 8; i++) await fetch() // records may be late
  const missing = []
  for (let i = 0; i < n; i++) if (!seen.has('item-' + i)) missing.push('item-' + i)
  if (missing.length) { console.log('the reader has lost the records of ' + missing); process.exit(1) }
}
main().catch(e => { console.error(e); process.exit(1) })
