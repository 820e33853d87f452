const { DynamoDBClient, GetItemCommand, PutItemCommand } = require('@aws-sdk/client-dynamodb')

const client = new DynamoDBClient({ endpoint: `http://localhost:${process.env.PORT}`, region: 'local-env', credentials: { accessKeyId: 'fakeMyKeyId', secretAccessKey: 'x' } })

test('an item is written', async () => {
  await client.send(new PutItemCommand({ TableName: 'Orders', Item: { id: { S: '1' } } }))
})

test('and is there', async () => {
  const { Item } = await client.send(new GetItemCommand({ TableName: 'Orders', Key: { id: { S: '1' } } }))
  expect(Item).toEqual({ id: { S: '1' } })
})
