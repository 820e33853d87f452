// The AWS SDK for JavaScript v3: the plain client and the document client.

import assert from 'node:assert/strict'
import {test} from 'node:test'
import {
    ConditionalCheckFailedException,
    CreateTableCommand,
    DeleteTableCommand,
    DescribeTableCommand,
    DynamoDBClient,
    ResourceInUseException,
    ResourceNotFoundException,
    TransactionCanceledException,
    paginateListTables,
    waitUntilTableExists,
    waitUntilTableNotExists,
} from '@aws-sdk/client-dynamodb'
import {
    BatchGetCommand,
    BatchWriteCommand,
    DeleteCommand,
    DynamoDBDocumentClient,
    GetCommand,
    PutCommand,
    QueryCommand,
    TransactGetCommand,
    TransactWriteCommand,
    UpdateCommand,
    paginateQuery,
    paginateScan,
} from '@aws-sdk/lib-dynamodb'

const client = new DynamoDBClient()
const document = DynamoDBDocumentClient.from(client, {marshallOptions: {removeUndefinedValues: true}})
const TableName = 'Documents'

function table(name) {
    return new CreateTableCommand({
        TableName: name,
        AttributeDefinitions: [
            {AttributeName: 'pk', AttributeType: 'S'},
            {AttributeName: 'sk', AttributeType: 'N'},
            {AttributeName: 'color', AttributeType: 'S'},
        ],
        KeySchema: [
            {AttributeName: 'pk', KeyType: 'HASH'},
            {AttributeName: 'sk', KeyType: 'RANGE'},
        ],
        GlobalSecondaryIndexes: [
            {
                IndexName: 'byColor',
                KeySchema: [
                    {AttributeName: 'color', KeyType: 'HASH'},
                    {AttributeName: 'sk', KeyType: 'RANGE'},
                ],
                Projection: {ProjectionType: 'ALL'},
            },
        ],
        BillingMode: 'PAY_PER_REQUEST',
    })
}

test('document client', async (t) => {
    await t.test('the waiter waits for a table', async () => {
        await client.send(table(TableName))
        const {state} = await waitUntilTableExists({client, maxWaitTime: 60}, {TableName})
        assert.equal(state, 'SUCCESS')
        await assert.rejects(client.send(table(TableName)), ResourceInUseException)
        const {Table} = await client.send(new DescribeTableCommand({TableName}))
        assert.ok(Table.CreationDateTime instanceof Date)
        assert.ok(Math.abs(Table.CreationDateTime - Date.now()) < 60_000)
    })

    await t.test('values are read back', async () => {
        const Item = {
            pk: 'values',
            sk: -1.5,
            text: 'Zoë 🎵',
            empty: '',
            yes: true,
            nothing: null,
            list: [1, 'two', [3], {four: 4}],
            map: {a: {b: {c: [null, false]}}},
            strings: new Set(['a', 'b']),
            numbers: new Set([1, 2.5]),
            bytes: new Uint8Array([0, 1, 255]),
            large: 12345678901234567890n,
            left: undefined,
        }
        await document.send(new PutCommand({TableName, Item}))
        const got = await DynamoDBDocumentClient.from(client, {unmarshallOptions: {wrapNumbers: false}}).send(
            new GetCommand({TableName, Key: {pk: 'values', sk: -1.5}, ConsistentRead: true}),
        )
        delete Item.left
        assert.deepEqual(got.Item, Item)
        const missing = await document.send(new GetCommand({TableName, Key: {pk: 'values', sk: 0}}))
        assert.equal(missing.Item, undefined)
    })

    await t.test('conditions and updates', async () => {
        const Key = {pk: 'updates', sk: 1}
        const made = await document.send(
            new UpdateCommand({
                TableName,
                Key,
                UpdateExpression: 'SET #l = list_append(if_not_exists(#l, :none), :more), color = :c ADD hits :one',
                ExpressionAttributeNames: {'#l': 'list'},
                ExpressionAttributeValues: {':none': [], ':more': ['x'], ':c': 'red', ':one': 1},
                ReturnValues: 'ALL_NEW',
            }),
        )
        assert.deepEqual(made.Attributes, {...Key, list: ['x'], color: 'red', hits: 1})
        await assert.rejects(
            document.send(
                new PutCommand({
                    TableName,
                    Item: Key,
                    ConditionExpression: 'attribute_not_exists(pk)',
                    ReturnValuesOnConditionCheckFailure: 'ALL_OLD',
                }),
            ),
            (e) => {
                assert.ok(e instanceof ConditionalCheckFailedException)
                assert.equal(e.message, 'The conditional request failed')
                assert.equal(e.$metadata.httpStatusCode, 400)
                assert.ok(e.$metadata.requestId)
                assert.ok(e.Item)
                return true
            },
        )
        const gone = await document.send(new DeleteCommand({TableName, Key, ReturnValues: 'ALL_OLD'}))
        assert.equal(gone.Attributes.hits, 1)
    })

    await t.test('batches and pages', async () => {
        for (let from = 0; from < 50; from += 25) {
            const puts = Array.from({length: 25}, (_, i) => ({
                PutRequest: {Item: {pk: 'pages', sk: from + i, color: i % 2 ? 'green' : 'blue'}},
            }))
            const {UnprocessedItems} = await document.send(new BatchWriteCommand({RequestItems: {[TableName]: puts}}))
            assert.deepEqual(UnprocessedItems, {})
        }
        const seen = []
        let pages = 0
        for await (const page of paginateQuery(
            {client: document, pageSize: 20},
            {
                TableName,
                KeyConditionExpression: 'pk = :p AND sk >= :from',
                FilterExpression: 'color = :c',
                ExpressionAttributeValues: {':p': 'pages', ':from': 10, ':c': 'green'},
                ScanIndexForward: false,
            },
        )) {
            pages++
            seen.push(...page.Items.map((item) => item.sk))
        }
        assert.equal(pages, 3)
        assert.equal(seen.length, 19)
        assert.deepEqual(seen, [...seen].sort((a, b) => b - a))

        let scanned = 0
        for await (const page of paginateScan({client: document, pageSize: 7}, {TableName, IndexName: 'byColor'})) {
            scanned += page.Count
        }
        assert.equal(scanned, 50)

        const {Responses, ConsumedCapacity} = await document.send(
            new BatchGetCommand({
                RequestItems: {
                    [TableName]: {Keys: [0, 1, 2, 99].map((sk) => ({pk: 'pages', sk})), ProjectionExpression: 'sk'},
                },
                ReturnConsumedCapacity: 'TOTAL',
            }),
        )
        assert.deepEqual(Responses[TableName].map((item) => item.sk).sort(), [0, 1, 2])
        assert.equal(ConsumedCapacity[0].CapacityUnits, 2)

        const byColor = await document.send(
            new QueryCommand({
                TableName,
                IndexName: 'byColor',
                KeyConditionExpression: 'color = :c AND sk BETWEEN :a AND :b',
                ExpressionAttributeValues: {':c': 'blue', ':a': 0, ':b': 4},
                Select: 'COUNT',
            }),
        )
        assert.equal(byColor.Count, 3)
        assert.equal(byColor.Items, undefined)
    })

    await t.test('transactions', async () => {
        const put = (sk) => ({Put: {TableName, Item: {pk: 'tx', sk}, ConditionExpression: 'attribute_not_exists(pk)'}})
        await document.send(new TransactWriteCommand({TransactItems: [put(1), put(2)]}))
        await assert.rejects(document.send(new TransactWriteCommand({TransactItems: [put(3), put(2)]})), (e) => {
            assert.ok(e instanceof TransactionCanceledException)
            assert.deepEqual(
                e.CancellationReasons.map((reason) => reason.Code),
                ['None', 'ConditionalCheckFailed'],
            )
            return true
        })
        const {Responses} = await document.send(
            new TransactGetCommand({TransactItems: [2, 3].map((sk) => ({Get: {TableName, Key: {pk: 'tx', sk}}}))}),
        )
        assert.deepEqual(Responses, [{Item: {pk: 'tx', sk: 2}}, {}])
    })

    await t.test('a table is deleted', async () => {
        const names = []
        for await (const page of paginateListTables({client, pageSize: 1}, {})) {
            names.push(...page.TableNames)
        }
        assert.ok(names.includes(TableName))
        await client.send(new DeleteTableCommand({TableName}))
        const {state} = await waitUntilTableNotExists({client, maxWaitTime: 60}, {TableName})
        assert.equal(state, 'SUCCESS')
        await assert.rejects(client.send(new DescribeTableCommand({TableName})), ResourceNotFoundException)
    })
})
