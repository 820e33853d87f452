// The programs of a tutorial on DynamoDB, which makes its client of DAX like this, and says that all other code is unchanged:
//
//	import { DaxDocument } from 'amazon-dax-client';
//	const daxClient = new DaxDocument({
//	  endpoints: ['my-dax-cluster.abc123.dax-clusters.us-east-1.amazonaws.com:8111'],
//	  region: 'us-east-1',
//	});
//
// Changed is what cannot exist:
// - amazon-dax-client 1.2.10, the newest version, exports no DaxDocument: it is that of @amazon-dax-sdk/lib-dax;
// - that takes one endpoint, not endpoints, and here it is the address of the server under test;
// - docClient of the other programs is daxClient, but neither client of DAX takes commands: it answers send with an error. So send is a function here that
//   calls the method of the command's name with its input;
// - UpdateCommand has ExpressionAttributeValues twice, of which JavaScript takes the second: the first is left out.

import assert from 'node:assert/strict'
import {after, before, test} from 'node:test'
import {createRequire} from 'node:module'
import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {DeleteCommand, GetCommand, PutCommand, QueryCommand, ScanCommand, TransactWriteCommand, UpdateCommand} from '@aws-sdk/lib-dynamodb'
import {dax} from '../tables.js'

const amazonDaxClient = createRequire(import.meta.url)('amazon-dax-client')
const {DaxDocument} = createRequire(import.meta.url)('@amazon-dax-sdk/lib-dax')

before(() => Promise.all([['Orders', 'customerId', 'orderId'], ['Accounts', 'accountId'], ['Transactions', 'txId']].map(([TableName, ...keys]) =>
    new DynamoDBClient().send(new CreateTableCommand({
        TableName, BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: keys.map(AttributeName => ({AttributeName, AttributeType: 'S'})),
        KeySchema: keys.map((AttributeName, i) => ({AttributeName, KeyType: i ? 'RANGE' : 'HASH'})),
    })))))
after(() => setImmediate(() => process.exit()))

test('amazon-dax-client has no DaxDocument', () => assert.equal(amazonDaxClient.DaxDocument, undefined))

test('the programs run with the client of DAX', async () => {
    const daxClient = new DaxDocument({
        endpoint: dax.endpoint,
        region: 'us-east-1',
    })
    await assert.rejects(async () => daxClient.send(new GetCommand({TableName: 'Orders', Key: {}})), /send operation is not supported/)
    const method = command => command.constructor.name.replace(/Command$/, '').replace(/^./, c => c.toLowerCase()) // GetCommand: get
    const docClient = {send: command => daxClient[method(command)](command.input)}

    await docClient.send(new PutCommand({
        TableName: 'Orders',
        Item: {
            customerId: 'cust_A',
            orderId: 'ORDER#2024-03-01T12:00:00',
            amount: 59.99,
            status: 'PENDING',
        },
        ConditionExpression: 'attribute_not_exists(customerId)',  // fail if already exists
    }))
    await docClient.send(new PutCommand({TableName: 'Orders', Item: {customerId: 'cust_A', orderId: 'ORDER#2024-01-01T10:00:00', amount: 149.99, status: 'PAID'}}))

    const result = await docClient.send(new GetCommand({
        TableName: 'Orders',
        Key: {
            customerId: 'cust_A',
            orderId: 'ORDER#2024-01-01T10:00:00',
        },
        ConsistentRead: true,  // strongly consistent — uses 1 RCU instead of 0.5
    }))
    assert.deepEqual(result.Item, {customerId: 'cust_A', orderId: 'ORDER#2024-01-01T10:00:00', amount: 149.99, status: 'PAID'})

    const january = await docClient.send(new QueryCommand({
        TableName: 'Orders',
        KeyConditionExpression: 'customerId = :cid AND orderId BETWEEN :start AND :end',
        ExpressionAttributeValues: {
            ':cid':   'cust_A',
            ':start': 'ORDER#2024-01-01',
            ':end':   'ORDER#2024-01-31T99:99:99',
        },
        ScanIndexForward: false,  // descending order (newest first)
        Limit: 20,
    }))
    assert.deepEqual(january.Items, [result.Item])

    let found = []
    for (const segment of [0, 1, 2, 3]) {
        const result = await docClient.send(new ScanCommand({
            TableName: 'Orders',
            TotalSegments: 4,
            Segment: segment,
            FilterExpression: 'amount > :min',
            ExpressionAttributeValues: { ':min': 100 },
        }))
        found = found.concat(result.Items)
    }
    assert.deepEqual(found, [result.Item])

    await docClient.send(new UpdateCommand({
        TableName: 'Orders',
        Key: { customerId: 'cust_A', orderId: 'ORDER#2024-03-01T12:00:00' },
        UpdateExpression: 'SET #s = :status, updatedAt = :ts ADD version :one',
        ExpressionAttributeNames:  { '#s': 'status' },
        ConditionExpression: '#s = :pending',  // optimistic locking
        ExpressionAttributeValues: {
            ':status':  'SHIPPED',
            ':ts':      new Date().toISOString(),
            ':one':     1,
            ':pending': 'PENDING',
        },
    }))
    const {Item: updated} = await docClient.send(new GetCommand({TableName: 'Orders', Key: {customerId: 'cust_A', orderId: 'ORDER#2024-03-01T12:00:00'}, ConsistentRead: true}))
    assert.equal(updated.status, 'SHIPPED')
    assert.equal(updated.version, 1)

    await docClient.send(new DeleteCommand({
        TableName: 'Orders',
        Key: { customerId: 'cust_A', orderId: 'ORDER#2024-03-01T12:00:00' },
        ConditionExpression: 'attribute_exists(customerId)',
    }))

    await docClient.send(new PutCommand({TableName: 'Accounts', Item: {accountId: 'ACC-001', balance: 250}}))
    await docClient.send(new PutCommand({TableName: 'Accounts', Item: {accountId: 'ACC-002', balance: 0}}))
    // Transfer funds — debit one account, credit another atomically
    await docClient.send(new TransactWriteCommand({
        TransactItems: [
            {
                Update: {
                    TableName: 'Accounts',
                    Key: { accountId: 'ACC-001' },
                    UpdateExpression: 'ADD balance :debit',
                    ConditionExpression: 'balance >= :amount',
                    ExpressionAttributeValues: { ':debit': -100, ':amount': 100 },
                },
            },
            {
                Update: {
                    TableName: 'Accounts',
                    Key: { accountId: 'ACC-002' },
                    UpdateExpression: 'ADD balance :credit',
                    ExpressionAttributeValues: { ':credit': 100 },
                },
            },
            {
                Put: {
                    TableName: 'Transactions',
                    Item: {
                        txId: 'TX-' + Date.now(),
                        from: 'ACC-001', to: 'ACC-002', amount: 100,
                        createdAt: new Date().toISOString(),
                    },
                    ConditionExpression: 'attribute_not_exists(txId)',  // idempotency check
                },
            },
        ],
    }))
    const balance = async accountId => (await docClient.send(new GetCommand({TableName: 'Accounts', Key: {accountId}, ConsistentRead: true}))).Item.balance
    assert.deepEqual([await balance('ACC-001'), await balance('ACC-002')], [150, 100])
})
