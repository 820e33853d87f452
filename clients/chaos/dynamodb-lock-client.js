const AWS = require('aws-sdk')
const { FailClosed } = require('dynamodb-lock-client')
const url = process.env.AWS_ENDPOINT_URL
const options = { endpoint: url, region: 'us-east-1', credentials: new AWS.Credentials('a', 'b'), maxRetries: 3 }
const db = new AWS.DynamoDB(options), dynamodb = new AWS.DynamoDB.DocumentClient({ service: db })
async function main() {
  await db.createTable({ TableName: 'locks', BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }], KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }] }).promise()
  const locks = new FailClosed({ dynamodb, lockTable: 'locks', partitionKey: 'id', acquirePeriodMs: 20, retryCount: 5 })
  for (let i = 0; i < 6; i++) {
    const lock = await new Promise((ok, no) => locks.acquireLock('job', (e, l) => e ? no(e) : ok(l)))
    await new Promise((ok, no) => lock.release(e => e ? no(e) : ok()))
  }
}
main().catch(e => { console.error('with one process and no other owner:', e.message); process.exit(1) })
