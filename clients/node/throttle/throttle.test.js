// The AWS SDK for JavaScript v3 and a server that throttles.

import assert from 'node:assert/strict'
import {test} from 'node:test'
import {
    BatchWriteItemCommand,
    CreateTableCommand,
    DynamoDBClient,
    ProvisionedThroughputExceededException,
    PutItemCommand,
    ScanCommand,
    ThrottlingException,
} from '@aws-sdk/client-dynamodb'

const once = new DynamoDBClient({maxAttempts: 1})

const create = (TableName, settings) =>
    once.send(new CreateTableCommand({
        TableName,
        AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}],
        KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
        ...settings,
    }))

// throttled returns the error of the first write that is throttled.
async function throttled(TableName) {
    for (let n = 0; n < 2000; n++) {
        try {
            await once.send(new PutItemCommand({TableName, Item: {id: {S: String(n)}, text: {S: 'x'.repeat(20000)}}}))
        } catch (e) {
            return e
        }
    }
    assert.fail('nothing is throttled')
}

function expect(error, type, reasons, reason, table) {
    assert.ok(error instanceof type, String(error))
    assert.deepEqual(reasons.map(r => r.reason), [reason])
    assert.ok(reasons[0].resource.endsWith(':table/' + table), reasons[0].resource)
}

test('a provisioned table', async () => {
    await create('Provisioned', {ProvisionedThroughput: {ReadCapacityUnits: 1, WriteCapacityUnits: 1}})
    const e = await throttled('Provisioned')
    expect(e, ProvisionedThroughputExceededException, e.ThrottlingReasons, 'TableWriteProvisionedThroughputExceeded', 'Provisioned')
})

test('the maximum of an on-demand table', async () => {
    await create('OnDemand', {BillingMode: 'PAY_PER_REQUEST', OnDemandThroughput: {MaxReadRequestUnits: 1, MaxWriteRequestUnits: 1}})
    const e = await throttled('OnDemand')
    expect(e, ThrottlingException, e.throttlingReasons, 'TableWriteMaxOnDemandThroughputExceeded', 'OnDemand')
})

test('a loop over unprocessed items ends with everything written', async () => {
    await create('Batches', {ProvisionedThroughput: {ReadCapacityUnits: 100, WriteCapacityUnits: 10}})
    const retrying = new DynamoDBClient({maxAttempts: 20})
    let todo = {Batches: Array.from({length: 25}, (_, n) => ({PutRequest: {Item: {id: {S: String(n)}}}}))}
    let partial = 0
    while (Object.keys(todo).length > 0) {
        todo = (await retrying.send(new BatchWriteItemCommand({RequestItems: todo}))).UnprocessedItems
        partial += Object.keys(todo).length > 0
    }
    assert.ok(partial > 0)
    assert.equal((await retrying.send(new ScanCommand({TableName: 'Batches', Select: 'COUNT'}))).Count, 25)
})
