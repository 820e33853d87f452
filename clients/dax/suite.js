// The tests of all clients of DAX: the ten operations, expressions, errors and cancellation
// reasons. send(operation, input) sends a request, such as getItem, with attributes in the form of
// DynamoDB's API.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {makeTable} from './tables.js'

export function suite(client, TableName, send) {
    const order = (customer, id, more) => ({customerId: {S: customer}, orderId: {S: id}, ...more})
    const code = expected => e => {
        assert.equal(e.code ?? e.name, expected, e.stack)
        return true
    }
    before(() => makeTable(TableName))

    test(`${client}: an item of all types is returned as it was put`, async () => {
        const Item = order('types', '1', {
            s: {S: 'text ሴ'}, empty: {S: ''}, n: {N: '-12.5'}, large: {N: '12345678901234567890123456789012345678'}, small: {N: '1e-100'}, b: {B: Buffer.from([0, 1, 255])},
            yes: {BOOL: true}, nothing: {NULL: true}, list: {L: [{S: 'a'}, {N: '1'}, {L: []}]}, map: {M: {inner: {M: {}}, n: {N: '0'}}},
            ss: {SS: ['a', 'b']}, ns: {NS: ['1', '2.5']}, bs: {BS: [Buffer.from('x'), Buffer.from('y')]},
        })
        await send('putItem', {TableName, Item})
        const got = (await send('getItem', {TableName, Key: order('types', '1')})).Item
        assert.deepEqual(Object.keys(got).sort(), Object.keys(Item).sort())
        for (const name of ['s', 'empty', 'n', 'large', 'yes', 'nothing', 'list', 'map']) assert.deepEqual(got[name], Item[name], name)
        assert.equal(Number(got.small.N), 1e-100)
        assert.deepEqual(Buffer.from(got.b.B), Item.b.B)
        assert.deepEqual([...got.ss.SS].sort(), ['a', 'b'])
        assert.deepEqual([...got.ns.NS].map(Number).sort(), [1, 2.5])
        assert.deepEqual([...got.bs.BS].map(b => Buffer.from(b).toString()).sort(), ['x', 'y'])
        assert.equal((await send('getItem', {TableName, Key: order('types', 'none')})).Item, undefined)
    })

    test(`${client}: conditions and updates of all kinds`, async () => {
        const Key = order('expressions', '1')
        await send('putItem', {TableName, Item: {...Key, n: {N: '1'}, list: {L: [{S: 'a'}, {S: 'b'}]}, map: {M: {x: {N: '1'}}}, tags: {SS: ['t']}}, ConditionExpression: 'attribute_not_exists(customerId)'})
        for (const [holds, ConditionExpression] of [
            [true, 'n = :one AND NOT n <> :one'], [true, 'n BETWEEN :one AND :five'], [true, 'n IN (:five, :one)'], [true, 'n < :five OR n > :five'],
            [true, 'n <= :one AND n >= :one'], [true, 'attribute_exists(#m.x) AND attribute_type(list, :L)'], [true, 'begins_with(list[0], :a) AND contains(tags, :t)'],
            [true, 'size(list) > :one'], [false, 'size(list) > :five'], [false, 'attribute_exists(missing)'],
        ]) {
            const names = ConditionExpression.includes('#m') ? {'#m': 'map'} : undefined
            const values = Object.fromEntries(Object.entries({':one': {N: '1'}, ':five': {N: '5'}, ':L': {S: 'L'}, ':a': {S: 'a'}, ':t': {S: 't'}}).filter(([ref]) => new RegExp(`${ref}\\b`).test(ConditionExpression)))
            const input = {TableName, Key, UpdateExpression: 'ADD counted :one', ConditionExpression, ExpressionAttributeNames: names, ExpressionAttributeValues: {':one': {N: '1'}, ...values}}
            if (holds) await send('updateItem', input)
            else await assert.rejects(send('updateItem', input), code('ConditionalCheckFailedException'), ConditionExpression)
        }
        const updated = await send('updateItem', {
            TableName, Key, ReturnValues: 'ALL_NEW', ExpressionAttributeNames: {'#m': 'map'},
            UpdateExpression: 'SET n = n + :two, m2 = n - :one, #m.y = if_not_exists(#m.y, :one), list = list_append(list, :more) REMOVE list[0] DELETE tags :gone',
            ExpressionAttributeValues: {':one': {N: '1'}, ':two': {N: '2'}, ':more': {L: [{S: 'c'}]}, ':gone': {SS: ['t']}},
        }).catch(e => e)
        assert.equal(updated.code ?? updated.name, 'ValidationException') // list and list[0] overlap
        const done = await send('updateItem', {
            TableName, Key, ReturnValues: 'ALL_NEW', ExpressionAttributeNames: {'#m': 'map'},
            UpdateExpression: 'SET n = n + :two, m2 = n - :one, #m.y = if_not_exists(#m.y, :one), list = list_append(list, :more) REMOVE #m.x DELETE tags :gone',
            ExpressionAttributeValues: {':one': {N: '1'}, ':two': {N: '2'}, ':more': {L: [{S: 'c'}]}, ':gone': {SS: ['t']}},
        }).catch(e => e)
        assert.equal(done.message, undefined, done.stack)
        assert.deepEqual([done.Attributes.n, done.Attributes.m2], [{N: '3'}, {N: '0'}])
        assert.deepEqual(done.Attributes.list, {L: [{S: 'a'}, {S: 'b'}, {S: 'c'}]})
        assert.deepEqual(done.Attributes.map, {M: {y: {N: '1'}}})
        assert.deepEqual(done.Attributes.counted, {N: '8'})
        assert.equal(done.Attributes.tags, undefined)
        const changed = await send('updateItem', {TableName, Key, UpdateExpression: 'SET n = :v', ExpressionAttributeValues: {':v': {N: '7'}}, ReturnValues: 'UPDATED_NEW'})
        assert.deepEqual(changed.Attributes, {n: {N: '7'}})
        const shown = await send('getItem', {TableName, Key, ProjectionExpression: 'n, list[1], #m.y', ExpressionAttributeNames: {'#m': 'map'}})
        assert.deepEqual(shown.Item, {n: {N: '7'}, list: {L: [{S: 'b'}]}, map: {M: {y: {N: '1'}}}})
        const old = await send('deleteItem', {TableName, Key, ReturnValues: 'ALL_OLD', ConditionExpression: 'n = :n', ExpressionAttributeValues: {':n': {N: '7'}}})
        assert.deepEqual(old.Attributes.n, {N: '7'})
    })

    test(`${client}: queries and scans in pages`, async () => {
        const ids = Array.from({length: 7}, (_, i) => `o${i}`)
        await send('batchWriteItem', {RequestItems: {[TableName]: ids.map((id, i) => ({PutRequest: {Item: order('pages', id, {status: {S: i % 2 ? 'odd' : 'even'}, n: {N: String(i)}})}}))}})
        const all = async (operation, input) => {
            const found = []
            let start
            do {
                const page = await send(operation, {...input, ExclusiveStartKey: start})
                found.push(...page.Items.map(i => i.orderId.S))
                start = page.LastEvaluatedKey
            } while (start)
            return found
        }
        const values = {':c': {S: 'pages'}}
        assert.deepEqual(await all('query', {TableName, Limit: 2, KeyConditionExpression: 'customerId = :c', ExpressionAttributeValues: values}), ids)
        assert.deepEqual(await all('query', {TableName, Limit: 2, ScanIndexForward: false, KeyConditionExpression: 'customerId = :c AND orderId BETWEEN :a AND :b', ExpressionAttributeValues: {...values, ':a': {S: 'o2'}, ':b': {S: 'o4'}}}), ['o4', 'o3', 'o2'])
        assert.deepEqual(await all('query', {TableName, IndexName: 'byStatus', Limit: 1, KeyConditionExpression: '#s = :s', FilterExpression: 'n > :n', ProjectionExpression: 'orderId', ExpressionAttributeNames: {'#s': 'status'}, ExpressionAttributeValues: {':s': {S: 'odd'}, ':n': {N: '1'}}}), ['o3', 'o5'])
        assert.deepEqual((await all('scan', {TableName, Limit: 3, FilterExpression: 'customerId = :c', ExpressionAttributeValues: values})).sort(), ids)
        const counted = await send('query', {TableName, Select: 'COUNT', KeyConditionExpression: 'customerId = :c', ExpressionAttributeValues: values})
        assert.equal(counted.Count, 7)
        const segments = await Promise.all([0, 1].map(Segment => send('scan', {TableName, Segment, TotalSegments: 2, FilterExpression: 'customerId = :c', ExpressionAttributeValues: values})))
        assert.equal(segments[0].Count + segments[1].Count, 7)
    })

    test(`${client}: batches`, async () => {
        await send('batchWriteItem', {RequestItems: {[TableName]: [{PutRequest: {Item: order('batch', '1', {n: {N: '1'}})}}, {PutRequest: {Item: order('batch', '2', {other: {S: 'x'}})}}]}})
        const got = await send('batchGetItem', {RequestItems: {[TableName]: {Keys: [order('batch', '1'), order('batch', '2'), order('batch', 'none')]}}})
        assert.deepEqual(got.Responses[TableName].sort((a, b) => a.orderId.S < b.orderId.S ? -1 : 1), [order('batch', '1', {n: {N: '1'}}), order('batch', '2', {other: {S: 'x'}})])
        const shown = await send('batchGetItem', {RequestItems: {[TableName]: {Keys: [order('batch', '1')], ProjectionExpression: 'n'}}})
        assert.deepEqual(shown.Responses[TableName], [{n: {N: '1'}}])
        await send('batchWriteItem', {RequestItems: {[TableName]: [{DeleteRequest: {Key: order('batch', '1')}}]}})
        assert.equal((await send('getItem', {TableName, Key: order('batch', '1'), ConsistentRead: true})).Item, undefined)
    })

    test(`${client}: transactions, and why they are cancelled`, async () => {
        await send('transactWriteItems', {TransactItems: [
            {Put: {TableName, Item: order('tx', '1', {n: {N: '1'}})}}, {Update: {TableName, Key: order('tx', '2'), UpdateExpression: 'SET n = :n', ExpressionAttributeValues: {':n': {N: '2'}}}},
            {ConditionCheck: {TableName, Key: order('tx', 'none'), ConditionExpression: 'attribute_not_exists(customerId)'}}, {Delete: {TableName, Key: order('tx', 'gone')}},
        ]})
        const read = await send('transactGetItems', {TransactItems: [{Get: {TableName, Key: order('tx', '1')}}, {Get: {TableName, Key: order('tx', '2'), ProjectionExpression: 'n'}}, {Get: {TableName, Key: order('tx', 'none')}}]})
        assert.deepEqual(read.Responses.map(r => r.Item), [order('tx', '1', {n: {N: '1'}}), {n: {N: '2'}}, undefined])
        const cancelled = await send('transactWriteItems', {TransactItems: [
            {Put: {TableName, Item: order('tx', '3')}},
            {Update: {TableName, Key: order('tx', '1'), UpdateExpression: 'SET n = :n', ConditionExpression: 'n > :n', ExpressionAttributeValues: {':n': {N: '5'}}, ReturnValuesOnConditionCheckFailure: 'ALL_OLD'}},
        ]}).catch(e => e)
        assert.equal(cancelled.code ?? cancelled.name, 'TransactionCanceledException')
        const reasons = cancelled.cancellationReasons ?? cancelled.CancellationReasons
        assert.deepEqual(reasons.map(r => r.Code), ['None', 'ConditionalCheckFailed'])
        assert.deepEqual(reasons[1].Item, order('tx', '1', {n: {N: '1'}}))
        assert.equal((await send('getItem', {TableName, Key: order('tx', '3'), ConsistentRead: true})).Item, undefined)
    })

    test(`${client}: errors have the codes of DynamoDB`, async () => {
        await assert.rejects(send('getItem', {TableName: 'Missing', Key: order('a', 'b')}), code('ResourceNotFoundException'))
        await assert.rejects(send('updateItem', {TableName, Key: order('a', 'b'), UpdateExpression: 'SET customerId = :c', ExpressionAttributeValues: {':c': {S: 'x'}}}), code('ValidationException'))
        await assert.rejects(send('putItem', {TableName, Item: order('a', 'b', {text: {S: 'x'.repeat(410_000)}})}), code('ValidationException'))
        await assert.rejects(send('query', {TableName, IndexName: 'none', KeyConditionExpression: 'customerId = :c', ExpressionAttributeValues: {':c': {S: 'x'}}}), code('ValidationException'))
        await assert.rejects(send('query', {TableName, KeyConditionExpression: 'orderId = :c', ExpressionAttributeValues: {':c': {S: 'x'}}}), code('ValidationException'))
    })

    test(`${client}: an item of 390 KB`, async () => {
        const Item = order('large', '1', {text: {S: 'x'.repeat(390_000)}})
        await send('putItem', {TableName, Item})
        assert.deepEqual((await send('getItem', {TableName, Key: order('large', '1')})).Item, Item)
    })
}
