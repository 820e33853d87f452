// OneTable: many models in one table that it creates itself. It writes as soon
// as CreateTable has returned.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {Table} from 'dynamodb-onetable'

const schema = {
    format: 'onetable:1.1.0',
    version: '0.0.1',
    indexes: {
        primary: {hash: 'pk', sort: 'sk'},
        gs1: {hash: 'gs1pk', sort: 'gs1sk', project: ['gs1pk', 'gs1sk', 'email', '_type'], follow: true},
        ls1: {type: 'local', sort: 'age', project: 'all'},
    },
    models: {
        Account: {
            pk: {type: String, value: 'account:${id}'},
            sk: {type: String, value: 'account:'},
            id: {type: String, generate: 'ulid'},
            name: {type: String, required: true, unique: true},
            balance: {type: Number, default: 0},
        },
        User: {
            pk: {type: String, value: 'account:${accountId}'},
            sk: {type: String, value: 'user:${email}'},
            accountId: {type: String, required: true},
            email: {type: String, required: true},
            name: {type: String},
            age: {type: Number},
            status: {type: String, enum: ['active', 'idle'], default: 'active'},
            address: {type: Object, schema: {street: {type: String}, zip: {type: Number}}},
            tags: {type: Set},
            notes: {type: Array},
            picture: {type: Buffer},
            born: {type: Date},
            gs1pk: {type: String, value: 'status:${status}'},
            gs1sk: {type: String, value: 'user:${email}'},
        },
    },
    params: {isoDates: true, timestamps: true},
}

const table = new Table({client: new DynamoDBClient(), name: 'OneTable', schema, partial: true})
const Account = table.getModel('Account')
const User = table.getModel('User')

let account
before(async () => {
    await table.createTable({TimeToLiveSpecification: {AttributeName: 'expires', Enabled: true}})
    account = await Account.create({name: 'Acme'})
})

const user = (i, more) => ({
    accountId: account.id, email: `u${String(i).padStart(2, '0')}@example.com`, name: `user ${i}`, age: 20 + i, ...more,
})

test('tables', async () => {
    assert.equal(await table.exists(), true)
    assert.ok((await table.listTables()).includes('OneTable'))
    const {Table: described} = await table.describeTable()
    assert.equal(described.TableStatus, 'ACTIVE')
    assert.equal(described.LocalSecondaryIndexes.length, 1)
    const indexes = await table.getKeys()
    assert.deepEqual(indexes.primary, {hash: 'pk', sort: 'sk'})
})

test('create, get, update, remove', async () => {
    const made = await User.create(
        user(90, {
            address: {street: 'High 1', zip: 9000},
            tags: new Set(['a', 'b']),
            notes: [1, 'two'],
            picture: Buffer.from([0, 255]),
            born: new Date('2000-02-29T00:00:00Z'),
        }),
    )
    assert.ok(made.created instanceof Date)
    const key = {accountId: account.id, email: made.email}
    const got = await User.get(key, {consistent: true})
    assert.deepEqual(got.tags, new Set(['a', 'b']))
    assert.deepEqual([...got.picture], [0, 255])
    assert.equal(got.born.getTime(), made.born.getTime())
    await assert.rejects(User.create(user(90)), /Conditional create failed/)

    const updated = await User.update(
        {...key, name: 'renamed', address: {zip: 9001}},
        {add: {age: 5}, push: {notes: ['three']}, where: '${status} = {active}'},
    )
    assert.equal(updated.age, 115)
    assert.deepEqual(updated.notes, [1, 'two', 'three'])
    assert.deepEqual(updated.address, {street: 'High 1', zip: 9001})
    const less = await User.update(key, {remove: ['notes'], delete: {tags: new Set(['a'])}, set: {'address.street': 'Low 2'}})
    assert.equal(less.notes, undefined)
    assert.deepEqual(less.tags, new Set(['b']))
    assert.equal(less.address.street, 'Low 2')
    await assert.rejects(User.update({...key, name: 'x'}, {where: '${age} < {1}'}), /failed/i)
    await assert.rejects(User.update({accountId: account.id, email: 'none@example.com', name: 'x'}))
    const upserted = await User.upsert({accountId: account.id, email: 'up@example.com', name: 'up'})
    assert.equal(upserted.name, 'up')
    await User.remove({accountId: account.id, email: 'up@example.com'})
    const removed = await User.remove(key)
    assert.equal(removed.name, 'renamed')
    assert.equal(await User.get(key), undefined)
})

test('unique attributes', async () => {
    await assert.rejects(Account.create({name: 'Acme'}), (e) => e.code === 'UniqueError')
    const other = await Account.create({name: 'Other'})
    await Account.update({id: other.id, name: 'Renamed'})
    await Account.create({name: 'Other'})
    await Account.remove({id: other.id})
    await Account.create({name: 'Renamed'})
})

test('find, scan and pages', async () => {
    const batch = {}
    for (let i = 0; i < 20; i++) {
        await User.create(user(i, {status: i % 4 ? 'active' : 'idle'}), {batch})
    }
    await table.batchWrite(batch)

    const all = await User.find({accountId: account.id})
    assert.equal(all.length, 20)
    const some = await User.find({accountId: account.id, sk: {begins: 'user:u0'}})
    assert.equal(some.length, 10)
    const idle = await User.find({accountId: account.id, status: 'idle'}, {where: '(${age} > {22}) and (${age} < {36})'})
    assert.deepEqual(idle.map((u) => u.age), [24, 28, 32])
    const local = await User.find({accountId: account.id, age: {between: [30, 32]}}, {index: 'ls1'})
    assert.deepEqual(local.map((u) => u.age), [30, 31, 32])
    const followed = await User.find({status: 'idle'}, {index: 'gs1', follow: true})
    assert.equal(followed.length, 5)
    assert.equal(followed[0].name, 'user 0')
    assert.equal((await User.find({accountId: account.id}, {count: true})).count, 20)

    const forth = []
    let next
    let page
    do {
        page = await User.find({accountId: account.id}, {limit: 6, next})
        forth.push(...page.map((u) => u.age))
        next = page.next
    } while (next)
    assert.deepEqual(forth, Array.from({length: 20}, (_, i) => 20 + i))
    const back = await User.find({accountId: account.id}, {limit: 6, prev: page.prev})
    assert.equal(back.length, 6)
    const reversed = await User.find({accountId: account.id}, {limit: 2, reverse: true})
    assert.deepEqual(reversed.map((u) => u.age), [39, 38])

    assert.equal((await User.scan({})).length, 20)
    assert.equal((await User.scan({status: 'idle'}, {fields: ['email']})).length, 5)
    const parts = await Promise.all([0, 1, 2].map((segment) => User.scan({}, {segment, segments: 3})))
    assert.equal(parts.flat().length, 20)

    const got = {}
    await User.get({accountId: account.id, email: user(1).email}, {batch: got})
    await User.get({accountId: account.id, email: user(2).email}, {batch: got})
    assert.equal((await table.batchGet(got, {parse: true})).length, 2)
    const items = await table.fetch(['Account', 'User'], {pk: `account:${account.id}`})
    assert.equal(items.User.length, 20)
    assert.equal(items.Account.length, 1)
})

test('transactions', async () => {
    const transaction = {}
    await Account.update({id: account.id}, {add: {balance: 10}, transaction})
    await User.create(user(80), {transaction})
    await table.transact('write', transaction)
    assert.equal((await Account.get({id: account.id})).balance, 10)

    const failing = {}
    await Account.update({id: account.id}, {add: {balance: 10}, transaction: failing})
    await User.create(user(80), {transaction: failing})
    await assert.rejects(table.transact('write', failing), (e) => e.code === 'TransactionCanceledException')
    assert.equal((await Account.get({id: account.id})).balance, 10)

    const reading = {}
    await Account.get({id: account.id}, {transaction: reading})
    await User.get({accountId: account.id, email: user(80).email}, {transaction: reading})
    const read = await table.transact('get', reading, {parse: true})
    assert.equal(read.length, 2)
})

// backfilled waits until a new index can be read.
const backfilled = async name => {
    for (;;) {
        const {Table} = await table.describeTable()
        if (Table.GlobalSecondaryIndexes.find(x => x.IndexName === name).IndexStatus === 'ACTIVE') return
        await new Promise(resolve => setTimeout(resolve, 20))
    }
}

test('an index is added and the table deleted', async () => {
    const wider = {...schema, indexes: {...schema.indexes, gs2: {hash: 'name', sort: 'sk'}}}
    await table.setSchema(wider)
    await table.updateTable({create: {...wider.indexes.gs2, name: 'gs2'}})
    await backfilled('gs2')
    const found = await table.getModel('User').find({name: 'user 3'}, {index: 'gs2'})
    assert.equal(found.length, 1)
    await table.deleteTable('DeleteTableForever')
    assert.equal(await table.exists(), false)
})
