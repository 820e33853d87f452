// dynamodb-toolbox: entities of one table, with typed commands for items, batches,
// transactions, queries and scans.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {DynamoDBDocumentClient} from '@aws-sdk/lib-dynamodb'
import {
    $add, $append, $delete, $get, $remove, $sum, BatchDeleteRequest, BatchGetCommand, BatchGetRequest, BatchPutRequest,
    BatchWriteCommand, ConditionCheck, DeleteItemCommand, DeletePartitionCommand, DeleteTransaction, Entity,
    GetItemCommand, GetTransaction, PutItemCommand, PutTransaction, QueryCommand, ScanCommand, Table,
    UpdateItemCommand, UpdateTransaction, any, binary, boolean, executeBatchGet, executeBatchWrite,
    executeTransactGet, executeTransactWrite, item, list, map, number, set, string,
} from 'dynamodb-toolbox'

const client = new DynamoDBClient()
const table = new Table({
    documentClient: DynamoDBDocumentClient.from(client),
    name: 'Toolbox',
    partitionKey: {name: 'pk', type: 'string'},
    sortKey: {name: 'sk', type: 'string'},
    indexes: {
        byLevel: {type: 'global', partitionKey: {name: 'trainer', type: 'string'}, sortKey: {name: 'level', type: 'number'}},
        byName: {type: 'local', sortKey: {name: 'name', type: 'string'}},
    },
})

const Pokemon = new Entity({
    name: 'Pokemon',
    table,
    schema: item({
        id: string().key().savedAs('sk'),
        region: string().key().savedAs('pk'),
        name: string().optional(),
        trainer: string().optional(),
        level: number().default(1),
        types: set(string()).optional(),
        moves: list(map({name: string(), power: number()})).optional(),
        stats: map({hp: number().optional(), speed: number().optional()}).optional(),
        image: binary().optional(),
        caught: boolean().default(false),
        meta: any().optional(),
    }),
})
const Badge = new Entity({
    name: 'Badge',
    table,
    schema: item({region: string().key().savedAs('pk'), city: string().key().savedAs('sk').transform({
        encode: city => `badge#${city}`, decode: saved => saved.slice(6)}), won: number().default(0)}),
})

const put = value => Pokemon.build(PutItemCommand).item(value)
const get = key => Pokemon.build(GetItemCommand).key(key).options({consistent: true})
const update = value => Pokemon.build(UpdateItemCommand).item(value)

before(() => client.send(new CreateTableCommand({
    TableName: 'Toolbox',
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: [
        {AttributeName: 'pk', AttributeType: 'S'}, {AttributeName: 'sk', AttributeType: 'S'}, {AttributeName: 'name', AttributeType: 'S'},
        {AttributeName: 'trainer', AttributeType: 'S'}, {AttributeName: 'level', AttributeType: 'N'},
    ],
    KeySchema: [{AttributeName: 'pk', KeyType: 'HASH'}, {AttributeName: 'sk', KeyType: 'RANGE'}],
    GlobalSecondaryIndexes: [{
        IndexName: 'byLevel',
        KeySchema: [{AttributeName: 'trainer', KeyType: 'HASH'}, {AttributeName: 'level', KeyType: 'RANGE'}],
        Projection: {ProjectionType: 'ALL'},
    }],
    LocalSecondaryIndexes: [{
        IndexName: 'byName',
        KeySchema: [{AttributeName: 'pk', KeyType: 'HASH'}, {AttributeName: 'name', KeyType: 'RANGE'}],
        Projection: {ProjectionType: 'ALL'},
    }],
})))

test('put, get, delete', async () => {
    const key = {region: 'kanto', id: '25'}
    const pikachu = {...key, name: 'pikachu', types: new Set(['electric']), moves: [{name: 'bolt', power: 90}],
        stats: {hp: 35}, image: new Uint8Array([1, 2, 3]), meta: {deep: [1, null, {x: true}]}}
    const {ToolboxItem} = await put(pikachu).send()
    assert.equal(ToolboxItem.level, 1)
    const {Item} = await get(key).send()
    assert.deepEqual(Item.types, pikachu.types)
    assert.deepEqual(Item.moves, pikachu.moves)
    assert.deepEqual([...Item.image], [1, 2, 3])
    assert.deepEqual(Item.meta, pikachu.meta)
    assert.ok(Date.parse(Item.created) <= Date.now())

    const part = await get(key).options({attributes: ['name', 'moves[0].power', 'stats.hp']}).send()
    assert.deepEqual(part.Item, {name: 'pikachu', moves: [{power: 90}], stats: {hp: 35}})

    const once = put(pikachu).options({condition: {attr: 'id', exists: false}, returnValuesOnConditionFalse: 'ALL_OLD'})
    await assert.rejects(once.send(), err => err.name === 'ConditionalCheckFailedException' && err.Item.name.S === 'pikachu')

    const gone = await Pokemon.build(DeleteItemCommand).key(key).options({returnValues: 'ALL_OLD', capacity: 'TOTAL'}).send()
    assert.equal(gone.Attributes.name, 'pikachu')
    assert.equal(gone.ConsumedCapacity.TableName, 'Toolbox')
    assert.equal((await get(key).send()).Item, undefined)
})

test('update', async () => {
    const key = {region: 'kanto', id: '1'}
    await put({...key, name: 'bulbasaur', level: 5, types: new Set(['grass', 'poison']), moves: [{name: 'vine', power: 45}],
        stats: {hp: 45, speed: 45}}).send()
    const {Attributes} = await update({
        ...key,
        level: $add(2),
        types: $delete(new Set(['poison'])),
        moves: $append([{name: 'leaf', power: 55}]),
        stats: {hp: $sum($get('stats.hp'), 5), speed: $remove()},
        trainer: $get('name'),
        name: $remove(),
    }).options({returnValues: 'ALL_NEW'}).send()
    assert.equal(Attributes.level, 7)
    assert.deepEqual(Attributes.types, new Set(['grass']))
    assert.deepEqual(Attributes.moves.map(m => m.name), ['vine', 'leaf'])
    assert.deepEqual(Attributes.stats, {hp: 50})
    assert.equal(Attributes.trainer, 'bulbasaur')
    assert.equal(Attributes.name, undefined)

    const condition = {and: [{attr: 'level', gte: 7}, {attr: 'types', contains: 'grass'}, {attr: 'moves', type: 'L'},
        {size: 'moves', eq: 2}, {not: {attr: 'name', exists: true}}, {or: [{attr: 'trainer', in: ['x', 'bulbasaur']}, {attr: 'level', between: [8, 9]}]}]}
    await update({...key, level: $add(1)}).options({condition}).send()
    await assert.rejects(update({...key, level: $add(1)}).options({condition: {attr: 'level', lt: 8}}).send(),
        {name: 'ConditionalCheckFailedException', message: 'The conditional request failed'})
    const changed = await update({...key, moves: {1: {power: 60}}}).options({returnValues: 'UPDATED_NEW'}).send()
    assert.deepEqual(changed.Attributes.moves, [{power: 60}])
})

test('query, scan and pages', async () => {
    const many = Array.from({length: 12}, (_, i) => ({region: 'johto', id: String(150 + i), name: `p${11 - i}`, trainer: 'ash', level: i}))
    await executeBatchWrite(table.build(BatchWriteCommand).requests(
        ...many.map(p => Pokemon.build(BatchPutRequest).item(p)), Badge.build(BatchPutRequest).item({region: 'johto', city: 'violet'})))

    const all = table.build(QueryCommand).entities(Pokemon, Badge).query({partition: 'johto'})
    const {Items} = await all.options({consistent: true}).send()
    assert.equal(Items.length, 13)
    assert.equal(Items.at(-1).city, 'violet')

    const pokemon = table.build(QueryCommand).entities(Pokemon)
    const range = await pokemon.query({partition: 'johto', range: {between: ['152', '154']}}).options({reverse: true}).send()
    assert.deepEqual(range.Items.map(i => i.id), ['154', '153', '152'])
    const level = await pokemon.query({index: 'byLevel', partition: 'ash', range: {gt: 8}}).send()
    assert.deepEqual(level.Items.map(i => i.level), [9, 10, 11])
    const named = await pokemon.query({index: 'byName', partition: 'johto', range: {beginsWith: 'p1'}}).options({consistent: true}).send()
    assert.deepEqual(named.Items.map(i => i.name), ['p1', 'p10', 'p11'])

    let pages = 0, found = [], exclusiveStartKey
    do {
        const page = await pokemon.query({partition: 'johto', range: {lt: 'b'}}).options({
            limit: 5, exclusiveStartKey, filters: {Pokemon: {attr: 'level', gte: 4}}, attributes: ['id']}).send()
        pages++
        found.push(...page.Items.map(i => i.id))
        exclusiveStartKey = page.LastEvaluatedKey
    } while (exclusiveStartKey)
    assert.deepEqual([pages, found.length, found[0]], [3, 8, '154'])
    const every = await pokemon.query({partition: 'johto'}).options({limit: 4, maxPages: Infinity}).send()
    assert.equal(every.Items.length, 12)

    const counted = await table.build(ScanCommand).options({select: 'COUNT'}).send()
    assert.ok(counted.Count >= 13)
    const segments = await Promise.all([0, 1, 2].map(segment => table.build(ScanCommand).entities(Pokemon, Badge)
        .options({segment, totalSegments: 3, maxPages: Infinity}).send()))
    assert.equal(segments.flatMap(s => s.Items).length, counted.Count)
})

test('batches', async () => {
    const ids = Array.from({length: 30}, (_, i) => String(i))
    const half = [ids.slice(0, 15), ids.slice(15)]
    for (const part of half) {
        await executeBatchWrite(table.build(BatchWriteCommand).requests(
            ...part.map(id => Pokemon.build(BatchPutRequest).item({region: 'hoenn', id}))))
    }
    const read = ['29', 'none', '3'].map(id => Pokemon.build(BatchGetRequest).key({region: 'hoenn', id}))
    const {Responses} = await executeBatchGet(table.build(BatchGetCommand).requests(...read).options({consistent: true}))
    assert.deepEqual(Responses[0].map(i => i?.id), ['29', undefined, '3'])
    await executeBatchWrite(table.build(BatchWriteCommand).requests(...half[0].map(id => Pokemon.build(BatchDeleteRequest).key({region: 'hoenn', id}))))
    await table.build(DeletePartitionCommand).entities(Pokemon).query({partition: 'hoenn'}).send()
    assert.equal((await table.build(QueryCommand).query({partition: 'hoenn'}).send()).Count, 0)
})

test('transactions and their cancellation reasons', async () => {
    const key = id => ({region: 'sinnoh', id})
    await executeTransactWrite(
        Pokemon.build(PutTransaction).item({...key('1'), level: 3}),
        Pokemon.build(PutTransaction).item({...key('2'), level: 3}),
        Badge.build(PutTransaction).item({region: 'sinnoh', city: 'coal'}),
    )
    await executeTransactWrite(
        {clientRequestToken: 'toolbox-1'},
        Pokemon.build(UpdateTransaction).item({...key('1'), level: $add(1)}).options({condition: {attr: 'level', eq: 3}}),
        Pokemon.build(DeleteTransaction).key(key('2')),
        Badge.build(ConditionCheck).key({region: 'sinnoh', city: 'coal'}).condition({attr: 'won', eq: 0}),
    )
    const {Responses} = await executeTransactGet(
        Pokemon.build(GetTransaction).key(key('1')), Pokemon.build(GetTransaction).key(key('2')),
        Badge.build(GetTransaction).key({region: 'sinnoh', city: 'coal'}))
    assert.deepEqual(Responses.map(r => r.Item?.level ?? r.Item?.city), [4, undefined, 'coal'])

    const failing = executeTransactWrite(
        Pokemon.build(UpdateTransaction).item({...key('1'), level: $add(1)}),
        Badge.build(ConditionCheck).key({region: 'sinnoh', city: 'coal'}).condition({attr: 'won', gt: 0}),
        Pokemon.build(PutTransaction).item(key('1x')).options({condition: {attr: 'id', exists: true}}),
    )
    await assert.rejects(failing, err => {
        assert.equal(err.name, 'TransactionCanceledException')
        assert.match(err.message, /\[None, ConditionalCheckFailed, ConditionalCheckFailed\]/)
        assert.deepEqual(err.CancellationReasons.map(r => [r.Code, r.Message]),
            [['None', undefined], ['ConditionalCheckFailed', 'The conditional request failed'], ['ConditionalCheckFailed', 'The conditional request failed']])
        return true
    })
})
