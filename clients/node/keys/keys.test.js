// The AWS SDK for JavaScript v3 and a server that verifies signatures.

import assert from 'node:assert/strict'
import {test} from 'node:test'
import {CreateTableCommand, DynamoDBClient, GetItemCommand, ListTablesCommand, PutItemCommand} from '@aws-sdk/client-dynamodb'

test('the right key', async () => {
    const client = new DynamoDBClient({})
    await client.send(new CreateTableCommand({
        TableName: 'Orders',
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
        KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
    }))
    for (const text of ['', 'ሴ', 'a'.repeat(100000)]) {
        const Item = {id: {S: '1'}, text: {S: text}}
        await client.send(new PutItemCommand({TableName: 'Orders', Item}))
        const got = await client.send(new GetItemCommand({TableName: 'Orders', Key: {id: {S: '1'}}}))
        assert.deepEqual(got.Item, Item)
    }
})

test('a clock that is wrong by an hour is corrected from the Date of the reply', async () => {
    const client = new DynamoDBClient({systemClockOffset: 3600 * 1000})
    await assert.rejects(client.send(new ListTablesCommand({})), {name: 'InvalidSignatureException', message: /^Signature not yet current/})
    await client.send(new ListTablesCommand({}))
})

test('wrong keys', async () => {
    const accessKeyId = process.env.AWS_ACCESS_KEY_ID
    for (const [credentials, name] of [
        [{accessKeyId, secretAccessKey: 'wrong'}, 'InvalidSignatureException'],
        [{accessKeyId: 'AKIANOBODY', secretAccessKey: 'wrong'}, 'UnrecognizedClientException'],
    ]) {
        await assert.rejects(new DynamoDBClient({credentials}).send(new ListTablesCommand({})), {name})
    }
})
