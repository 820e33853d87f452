// A program that uses the document client of DynamoDB runs with that of DAX after one line is
// changed: the one that makes the client.

import assert from 'node:assert/strict'
import {after, before, test} from 'node:test'
import {createRequire} from 'node:module'
import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {DynamoDBDocument} from '@aws-sdk/lib-dynamodb'
import {dax, makeTable} from '../tables.js'

const {DaxDocument} = createRequire(import.meta.url)('@amazon-dax-sdk/lib-dax')

// program stores and reads orders, and returns what it has read.
async function program(docClient, TableName) {
    await docClient.put({TableName, Item: {customerId: 'cust_A', orderId: 'ORDER#2024-01-01T10:00:00', amount: 49.99, status: 'PAID'}})
    await docClient.put({TableName, Item: {customerId: 'cust_A', orderId: 'ORDER#2024-02-01T09:00:00', amount: 19.99, status: 'PENDING'}})
    const one = await docClient.get({TableName, Key: {customerId: 'cust_A', orderId: 'ORDER#2024-01-01T10:00:00'}})
    const january = await docClient.query({
        TableName,
        KeyConditionExpression: 'customerId = :cid AND orderId BETWEEN :start AND :end',
        ExpressionAttributeValues: {':cid': 'cust_A', ':start': 'ORDER#2024-01-01', ':end': 'ORDER#2024-01-31T99:99:99'},
        ScanIndexForward: false,
        Limit: 20,
    })
    const updated = await docClient.update({
        TableName,
        Key: {customerId: 'cust_A', orderId: 'ORDER#2024-02-01T09:00:00'},
        UpdateExpression: 'SET #status = :s, shippedAt = :t',
        ConditionExpression: '#status = :pending',
        ExpressionAttributeNames: {'#status': 'status'},
        ExpressionAttributeValues: {':s': 'SHIPPED', ':t': '2024-02-03', ':pending': 'PENDING'},
        ReturnValues: 'ALL_NEW',
    })
    return [one.Item, january.Items, updated.Attributes]
}

before(() => Promise.all([makeTable('Plain'), makeTable('Accelerated')]))
after(() => setImmediate(() => process.exit()))

test('the same program with both clients', async () => {
    const plain = DynamoDBDocument.from(new DynamoDBClient())
    const accelerated = new DaxDocument(dax)
    assert.deepEqual(await program(accelerated, 'Accelerated'), await program(plain, 'Plain'))
})
