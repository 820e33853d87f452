// TypeORM, with the driver typeorm-dynamodb: it creates and updates its tables itself.
// The decorators are applied by hand, since these are plain JavaScript files.

process.env.DYNAMO_ENDPOINT = process.env.AWS_ENDPOINT_URL

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {CreateTableCommand, DescribeTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {Column, Entity, MoreThan, PrimaryColumn} from 'typeorm'
import {GlobalSecondaryIndex, Pageable, getRepository, open} from 'typeorm-dynamodb'

const client = new DynamoDBClient()

class User {}
PrimaryColumn({name: 'id', type: 'varchar'})(User.prototype, 'id')
for (const name of ['first', 'last', 'team', 'status']) Column({name, type: 'varchar'})(User.prototype, name)
Column({name: 'age', type: 'int'})(User.prototype, 'age')
GlobalSecondaryIndex({name: 'byTeam', partitionKey: 'team', sortKey: ['last', 'first']})(User)
GlobalSecondaryIndex({name: 'byAge', partitionKey: 'team', sortKey: 'age'})(User)
Entity({name: 'orm_user'})(User)

const user = (i, more) => Object.assign(new User(), {id: `u${i}`, first: `f${i}`, last: i % 2 ? 'odd' : 'even', team: 'red', age: i, ...more})
const ids = found => found.map(u => u.id)

// The table exists with one of the two indexes; the other one is added.
before(async () => {
    await client.send(new CreateTableCommand({
        TableName: 'orm_user',
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}, {AttributeName: 'team', AttributeType: 'S'}, {AttributeName: 'age', AttributeType: 'N'}],
        KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}],
        GlobalSecondaryIndexes: [{
            IndexName: 'byAge',
            KeySchema: [{AttributeName: 'team', KeyType: 'HASH'}, {AttributeName: 'age', KeyType: 'RANGE'}],
            Projection: {ProjectionType: 'ALL'},
        }],
    }))
    await open({entities: [User], synchronize: true})
})

test('the table has the indexes of the entity', async () => {
    const {Table} = await client.send(new DescribeTableCommand({TableName: 'orm_user'}))
    assert.deepEqual(Table.GlobalSecondaryIndexes.map(x => x.IndexName).sort(), ['byAge', 'byTeam'])
    assert.deepEqual(Table.AttributeDefinitions.map(a => a.AttributeName), ['age', 'id', 'last#first', 'team'])
})

test('put, get, update, delete', async () => {
    const users = getRepository(User)
    await users.put(user(1, {team: 'blue', status: 'new'}))
    const got = await users.get('u1')
    assert.equal(got.status, 'new')
    assert.equal(got['last#first'], 'odd#f1')
    await users.updateExpression({where: {id: 'u1'}, setValues: {status: 'old'}, addValues: {age: 2}})
    assert.deepEqual((({age, status}) => [age, status])(await users.get('u1')), [3, 'old'])
    await users.add({where: {id: 'u1'}, values: {age: 4}})
    assert.equal((await users.findOneBy({id: 'u1'})).age, 7)
    await users.delete({id: 'u1'})
    assert.equal(await users.get('u1'), undefined)
})

test('batches, queries and pages', async () => {
    const users = getRepository(User)
    await users.put(Array.from({length: 60}, (_, i) => user(100 + i)))
    assert.equal((await users.batchRead(Array.from({length: 60}, (_, i) => ({id: `u${100 + i}`})))).length, 60)

    assert.deepEqual(ids(await users.find({index: 'byTeam', where: {team: 'red', last: 'odd', first: 'f101'}})), ['u101'])
    const old = await users.find({index: 'byAge', where: {team: 'red', age: MoreThan(157)}})
    assert.deepEqual(ids(old), ['u158', 'u159'])
    const young = await users.find({index: 'byAge', where: {team: 'red'}, sort: 'DESC', limit: 3})
    assert.deepEqual(ids(young), ['u159', 'u158', 'u157'])

    let pageable = Pageable.of(0, 25), sizes = []
    for (;;) {
        const page = await users.findPage({index: 'byAge', where: {team: 'red'}}, pageable)
        sizes.push(page.content.length)
        if (!page.lastEvaluatedKey) break
        pageable = Pageable.of(0, 25, undefined, page.lastEvaluatedKey)
    }
    assert.deepEqual(sizes, [25, 25, 10])
    assert.equal((await users.findAll({index: 'byTeam', where: {team: 'red'}})).length, 60)
})

test('scan and PartiQL', async () => {
    const users = getRepository(User)
    assert.equal((await users.scan({limit: 7})).length, 7)
    const found = await users.executeStatement('SELECT * FROM "orm_user" WHERE id = ?', ['u110'])
    assert.equal(found.length, 1)
    await users.batchWrite([{type: 'PutRequest', item: user(200)}, {type: 'PutRequest', item: user(201)}])
    await users.deleteMany([{id: 'u110'}, {id: 'u111'}])
    assert.equal((await users.scan({})).length, 60)
    await users.deleteAllBy({index: 'byTeam', where: {team: 'red'}})
    // A batch writes no column for an index of two columns, so the index does not have these.
    assert.deepEqual(ids(await users.scan({})).sort(), ['u200', 'u201'])
})
