// TypeDORM: entities of one table in the manner of TypeORM, with unique attributes that are
// kept by transactions. The decorators are applied by hand, since these are plain JavaScript files.

import 'reflect-metadata'
import assert from 'node:assert/strict'
import {createRequire} from 'node:module'
import {before, test} from 'node:test'
import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'

// Node.js cannot load TypeDORM's ES modules, which import files without their extension.
const require = createRequire(import.meta.url)
const {Attribute, AutoGenerateAttribute, AUTO_GENERATE_ATTRIBUTE_STRATEGY, Entity, INDEX_TYPE, QUERY_ORDER, Table} = require('@typedorm/common')
const {
    ReadBatch, ReadTransaction, WriteBatch, WriteTransaction, createConnection, getBatchManager, getEntityManager, getScanManager, getTransactionManger,
} = require('@typedorm/core')
const {DocumentClientV3} = require('@typedorm/document-client')

const client = new DynamoDBClient()
const table = new Table({
    name: 'TypeDorm', partitionKey: 'PK', sortKey: 'SK',
    indexes: {GSI1: {type: INDEX_TYPE.GSI, partitionKey: 'GSI1PK', sortKey: 'GSI1SK'}, LSI1: {type: INDEX_TYPE.LSI, sortKey: 'LSI1SK'}},
})

// attribute applies a decorator to an attribute of a type.
const attribute = (entity, name, type, decorate) => {
    Reflect.defineMetadata('design:type', type, entity.prototype, name)
    decorate(entity.prototype, name)
}

class Student {}
attribute(Student, 'id', String, Attribute())
attribute(Student, 'course', String, Attribute())
attribute(Student, 'email', String, Attribute({unique: true}))
attribute(Student, 'score', Number, Attribute())
attribute(Student, 'tags', Array, Attribute())
attribute(Student, 'updated', String, AutoGenerateAttribute({strategy: AUTO_GENERATE_ATTRIBUTE_STRATEGY.ISO_DATE, autoUpdate: true}))
Entity({
    name: 'student', table,
    primaryKey: {partitionKey: 'STUDENT#{{id}}', sortKey: 'COURSE#{{course}}'},
    indexes: {
        GSI1: {type: INDEX_TYPE.GSI, partitionKey: 'COURSE#{{course}}', sortKey: 'SCORE#{{score}}'},
        LSI1: {type: INDEX_TYPE.LSI, sortKey: 'SCORE#{{score}}'},
    },
})(Student)

createConnection({table, entities: [Student], documentClient: new DocumentClientV3(client)})
const student = (id, course, score, email = `${id}.${course}@example.com`) => Object.assign(new Student(), {id, course, score, email, tags: ['a']})

const string = name => ({AttributeName: name, AttributeType: 'S'})
const key = (pk, sk) => [{AttributeName: pk, KeyType: 'HASH'}, {AttributeName: sk, KeyType: 'RANGE'}]
before(() => client.send(new CreateTableCommand({
    TableName: 'TypeDorm', BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: ['PK', 'SK', 'GSI1PK', 'GSI1SK', 'LSI1SK'].map(string),
    KeySchema: key('PK', 'SK'),
    GlobalSecondaryIndexes: [{IndexName: 'GSI1', KeySchema: key('GSI1PK', 'GSI1SK'), Projection: {ProjectionType: 'ALL'}}],
    LocalSecondaryIndexes: [{IndexName: 'LSI1', KeySchema: key('PK', 'LSI1SK'), Projection: {ProjectionType: 'ALL'}}],
})))

test('create, find, update, delete', async () => {
    const manager = getEntityManager()
    const made = await manager.create(student('ada', 'math', 5))
    assert.ok(Date.parse(made.updated) <= Date.now())
    await assert.rejects(manager.create(student('ada', 'math', 5)))
    assert.equal((await manager.findOne(Student, {id: 'ada', course: 'math'}, {consistentRead: true})).score, 5)
    assert.equal(await manager.exists(Student, {id: 'ada', course: 'none'}), false)

    const updated = await manager.update(Student, {id: 'ada', course: 'math'},
        {score: {ADD: 3}, tags: {LIST_APPEND: ['b']}}, {where: {score: {EQ: 5}}}).catch(err => err)
    assert.ok(updated instanceof Error, 'an attribute of an index key is not incremented')
    const set = await manager.update(Student, {id: 'ada', course: 'math'}, {score: 8, tags: {LIST_APPEND: ['b']}}, {where: {score: {EQ: 5}}})
    assert.deepEqual([set.score, set.tags], [8, ['a', 'b']])
    await assert.rejects(manager.update(Student, {id: 'ada', course: 'math'}, {score: 9}, {where: {score: {EQ: 5}}}),
        {name: 'ConditionalCheckFailedException'})
    assert.deepEqual(await manager.delete(Student, {id: 'ada', course: 'math'}), {success: true})
    assert.equal(await manager.findOne(Student, {id: 'ada', course: 'math'}), undefined)
})

test('a unique attribute is kept by a transaction', async () => {
    const manager = getEntityManager()
    await manager.create(student('bob', 'art', 1, 'bob@example.com'))
    await assert.rejects(manager.create(student('eve', 'art', 1, 'bob@example.com')), err => {
        assert.match(err.code, /\[None, ConditionalCheckFailed\]$/)
        assert.deepEqual(err.cancellationReasons.map(r => r.code), ['None', 'ConditionalCheckFailed'])
        return true
    })
    await manager.update(Student, {id: 'bob', course: 'art'}, {email: 'rob@example.com'})
    await manager.create(student('eve', 'art', 1, 'bob@example.com'))
    assert.equal(await manager.exists(Student, {email: 'rob@example.com'}), true)
    await manager.delete(Student, {id: 'bob', course: 'art'})
    assert.equal(await manager.exists(Student, {email: 'rob@example.com'}), false)
})

test('batches, queries and scans', async () => {
    const courses = Array.from({length: 40}, (_, i) => `c${String(i).padStart(2, '0')}`)
    const batch = new WriteBatch()
    for (const [i, course] of courses.entries()) batch.addCreateItem(student('zoe', course, i % 10))
    const written = await getBatchManager().write(batch)
    assert.deepEqual([written.failedItems.length, written.unprocessedItems.length], [0, 0])

    const manager = getEntityManager()
    const some = await manager.find(Student, {id: 'zoe'}, {keyCondition: {BETWEEN: ['COURSE#c10', 'COURSE#c12']}, orderBy: QUERY_ORDER.DESC})
    assert.deepEqual(some.items.map(s => s.course), ['c12', 'c11', 'c10'])
    const first = await manager.find(Student, {id: 'zoe'}, {limit: 15, select: ['course']})
    const rest = await manager.find(Student, {id: 'zoe'}, {cursor: first.cursor})
    assert.deepEqual([first.items.length, rest.items.length, rest.cursor], [15, 25, undefined])
    const best = await manager.find(Student, {id: 'zoe'}, {queryIndex: 'LSI1', keyCondition: {BEGINS_WITH: 'SCORE#9'}, where: {tags: {CONTAINS: 'a'}}})
    assert.equal(best.items.length, 4)
    assert.equal((await manager.find(Student, {course: 'c05'}, {queryIndex: 'GSI1'})).items[0].id, 'zoe')
    assert.equal(await manager.count(Student, {id: 'zoe'}), 40)

    const reads = new ReadBatch().add(courses.map(course => ({item: Student, primaryKey: {id: 'zoe', course}})))
    assert.equal((await getBatchManager().read(reads)).items.length, 40)
    const scanned = await getScanManager().parallelScan({totalSegments: 4})
    assert.ok(scanned.items.length >= 40)
})

test('transactions', async () => {
    const write = new WriteTransaction()
        .addCreateItem(student('kim', 'a', 1))
        .addUpdateItem(Student, {id: 'zoe', course: 'c00'}, {score: 77})
        .addDeleteItem(Student, {id: 'zoe', course: 'c01'})
    await getTransactionManger().write(write)
    const read = new ReadTransaction()
        .addGetItem(Student, {id: 'kim', course: 'a'}).addGetItem(Student, {id: 'zoe', course: 'c00'}).addGetItem(Student, {id: 'zoe', course: 'c01'})
    const got = await getTransactionManger().read(read)
    assert.deepEqual(got.map(s => s?.score), [1, 77, undefined])
})
