import { DynamoDBClient, PutItemCommand, ScanCommand } from '@aws-sdk/client-dynamodb'
import { afterAll, expect, test } from 'vitest'

const client = new DynamoDBClient({ endpoint: process.env.MOCK_DYNAMODB_ENDPOINT, region: 'local' })
afterAll(() => client.destroy())

// Another file writes the same item to its own server.
test('each file has a server of its own', async () => {
  await client.send(new PutItemCommand({ TableName: 'Orders', Item: { id: { S: 'own' } }, ConditionExpression: 'attribute_not_exists(id)' }))
  const { Items } = await client.send(new ScanCommand({ TableName: 'Orders' }))
  expect(Items.map((item) => item.id.S).sort()).toEqual(['fixture', 'own'])
})
