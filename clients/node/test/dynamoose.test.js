// Dynamoose: models that create their tables, wait for them and keep them up to
// date.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import dynamoose from 'dynamoose'

dynamoose.aws.ddb.set(new dynamoose.aws.ddb.DynamoDB({endpoint: process.env.AWS_ENDPOINT_URL}))

const Cat = dynamoose.model(
    'Cat',
    new dynamoose.Schema(
        {
            owner: {type: String, hashKey: true},
            name: {type: String, rangeKey: true},
            breed: {type: String, index: {name: 'byBreed', type: 'global', rangeKey: 'age'}},
            age: {type: Number, index: {name: 'byAge', type: 'local'}},
            toys: {type: Set, schema: [String]},
            meals: {type: Array, schema: [{type: Object, schema: {dish: String, grams: Number}}]},
            chip: Buffer,
            born: Date,
            indoor: Boolean,
        },
        {timestamps: true},
    ),
)
const Owner = dynamoose.model('Owner', new dynamoose.Schema({id: String, cats: {type: Number, default: 0}}))
const options = {initialize: false, waitForActive: {check: {frequency: 50}}}
const pets = new dynamoose.Table('Pets', [Cat], {...options, throughput: 'ON_DEMAND', expires: {ttl: 3_600_000, attribute: 'ttl'}})
const owners = new dynamoose.Table('Owners', [Owner], {...options, throughput: 1, tags: {team: 'one'}})

const cat = (i, more) => ({owner: 'ada', name: `cat${i}`, breed: i % 2 ? 'tabby' : 'manx', age: i, indoor: i < 3, ...more})

before(() => Promise.all([pets.initialize(), owners.initialize()]))

test('create, get, update, delete', async () => {
    const made = await Cat.create(
        cat(50, {toys: new Set(['ball', 'mouse']), meals: [{dish: 'fish', grams: 50}], chip: Buffer.from([1, 2]), born: new Date(1e12)}),
    )
    assert.equal(made.name, 'cat50')
    const key = {owner: 'ada', name: 'cat50'}
    const got = await Cat.get(key, {consistent: true})
    assert.deepEqual(got.toys, new Set(['ball', 'mouse']))
    assert.equal(got.born.getTime(), 1e12)
    assert.deepEqual([...got.chip], [1, 2])
    assert.ok(got.createdAt instanceof Date)
    assert.ok(Math.abs(got.ttl - Date.now() - 3_600_000) < 60_000)
    const {TimeToLiveDescription} = await dynamoose.aws.ddb().describeTimeToLive({TableName: 'Pets'})
    assert.equal(TimeToLiveDescription.AttributeName, 'ttl')
    await assert.rejects(Cat.create(cat(50)), {name: 'ConditionalCheckFailedException'})

    const updated = await Cat.update(key, {
        $SET: {breed: 'siamese'},
        $ADD: {age: 3, toys: new Set(['bell'])},
        $REMOVE: ['chip'],
    })
    assert.equal(updated.age, 53)
    assert.deepEqual(updated.toys, new Set(['ball', 'bell', 'mouse']))
    assert.equal(updated.chip, undefined)
    const less = await Cat.update(key, {$DELETE: {toys: new Set(['ball'])}})
    assert.deepEqual(less.toys, new Set(['bell', 'mouse']))
    await assert.rejects(
        Cat.update(key, {indoor: false}, {condition: new dynamoose.Condition().where('age').lt(10)}),
        {name: 'ConditionalCheckFailedException'},
    )
    await Cat.delete(key)
    assert.equal(await Cat.get(key), undefined)
})

test('batches, queries and scans', async () => {
    const cats = Array.from({length: 10}, (_, i) => cat(i))
    const {unprocessedItems} = await Cat.batchPut(cats)
    assert.deepEqual(unprocessedItems, [])
    const names = (found) => found.map((c) => c.name)

    assert.equal((await Cat.query('owner').eq('ada').exec()).length, 10)
    assert.deepEqual(names(await Cat.query('owner').eq('ada').where('name').beginsWith('cat').sort('descending').limit(2).exec()), ['cat9', 'cat8'])
    assert.deepEqual(names(await Cat.query('breed').eq('tabby').where('age').between(3, 7).exec()), ['cat3', 'cat5', 'cat7'])
    assert.deepEqual(names(await Cat.query('owner').eq('ada').where('age').gt(7).using('byAge').exec()), ['cat8', 'cat9'])
    assert.deepEqual(names(await Cat.query('owner').eq('ada').filter('indoor').eq(true).exec()), ['cat0', 'cat1', 'cat2'])
    assert.equal((await Cat.query('owner').eq('ada').count().exec()).count, 10)
    const first = await Cat.query('owner').eq('ada').limit(6).exec()
    const rest = await Cat.query('owner').eq('ada').startAt(first.lastKey).exec()
    assert.deepEqual([...names(first), ...names(rest)], names(cats))

    assert.equal((await Cat.scan().exec()).length, 10)
    assert.equal((await Cat.scan().limit(3).all().exec()).length, 10)
    assert.equal((await Cat.scan('breed').in(['tabby', 'pug']).and().where('age').ge(5).exec()).length, 3)
    assert.equal((await Cat.scan().parallel(4).exec()).length, 10)

    const got = await Cat.batchGet([{owner: 'ada', name: 'cat1'}, {owner: 'ada', name: 'none'}])
    assert.deepEqual(names(got), ['cat1'])
    await Cat.batchDelete(cats.slice(5).map(({owner, name}) => ({owner, name})))
    assert.equal((await Cat.scan().count().exec()).count, 5)
})

test('transactions', async () => {
    await Owner.create({id: 'ada'})
    await dynamoose.transaction([
        Cat.transaction.create(cat(70)),
        Owner.transaction.update({id: 'ada'}, {$ADD: {cats: 1}}),
        Owner.transaction.condition({id: 'bob'}, new dynamoose.Condition().attribute('id').not().exists()),
    ])
    assert.equal((await Owner.get('ada')).cats, 1)
    await assert.rejects(
        dynamoose.transaction([Cat.transaction.create(cat(70)), Owner.transaction.update({id: 'ada'}, {$ADD: {cats: 1}})]),
        {name: 'TransactionCanceledException'},
    )
    assert.equal((await Owner.get('ada')).cats, 1)
    const got = await dynamoose.transaction([Cat.transaction.get({owner: 'ada', name: 'cat70'}), Owner.transaction.get('ada')])
    assert.equal(got.length, 2)
})

// A change of a model changes its table.
test('a table is updated', async () => {
    const Other = dynamoose.model('Owner2', new dynamoose.Schema({id: String, city: {type: String, index: {name: 'byCity', type: 'global'}}}))
    const changes = {update: true, throughput: {read: 3, write: 2}, tags: {team: 'two'}, tableClass: 'infrequentAccess'}
    await new dynamoose.Table('Owners', [Other], {...options, ...changes}).initialize()
    await Other.create({id: 'cyd', city: 'Ghent'})
    assert.equal((await Other.query('city').eq('Ghent').exec()).length, 1)
    const {Table} = await dynamoose.aws.ddb().describeTable({TableName: 'Owners'})
    assert.equal(Table.ProvisionedThroughput.ReadCapacityUnits, 3)
    assert.equal(Table.TableClassSummary.TableClass, 'STANDARD_INFREQUENT_ACCESS')
    const {Tags} = await dynamoose.aws.ddb().listTagsOfResource({ResourceArn: Table.TableArn})
    assert.deepEqual(Tags, [{Key: 'team', Value: 'two'}])
})
