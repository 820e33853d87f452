// ElectroDB: entities and services in one table. It has no waiters: items are
// put as soon as CreateTable has returned.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {Entity, Service} from 'electrodb'

const client = new DynamoDBClient()
const table = 'Electro'

const index = (name, pk, sk) => ({
    IndexName: name,
    KeySchema: [
        {AttributeName: pk, KeyType: 'HASH'},
        {AttributeName: sk, KeyType: 'RANGE'},
    ],
    Projection: {ProjectionType: 'ALL'},
})

const Employee = new Entity(
    {
        model: {entity: 'employee', version: '1', service: 'taskapp'},
        attributes: {
            employee: {type: 'string', required: true},
            team: {type: 'string', required: true},
            title: {type: 'string'},
            office: {type: 'string', required: true},
            salary: {type: 'number', default: 100},
            skills: {type: 'set', items: 'string'},
            history: {type: 'list', items: {type: 'map', properties: {year: {type: 'number'}, note: {type: 'string'}}}},
            address: {type: 'map', properties: {street: {type: 'string'}, city: {type: 'string'}}},
            meta: {type: 'any'},
            hired: {type: 'string', readOnly: true},
            version: {type: 'number', watch: '*', default: 0, set: (_, {version}) => version},
        },
        indexes: {
            employee: {pk: {field: 'pk', composite: ['employee']}, sk: {field: 'sk', composite: []}},
            office: {
                index: 'gsi1',
                collection: 'workplaces',
                pk: {field: 'gsi1pk', composite: ['office']},
                sk: {field: 'gsi1sk', composite: ['team', 'title', 'employee']},
            },
            team: {
                index: 'gsi2',
                collection: ['assignments', 'detailed'],
                pk: {field: 'gsi2pk', composite: ['team']},
                sk: {field: 'gsi2sk', composite: ['salary', 'employee']},
            },
        },
    },
    {client, table},
)

const Task = new Entity(
    {
        model: {entity: 'task', version: '1', service: 'taskapp'},
        attributes: {
            task: {type: 'string', required: true},
            project: {type: 'string', required: true},
            employee: {type: 'string', required: true},
            team: {type: 'string', required: true},
            office: {type: 'string'},
            points: {type: 'number', default: 0},
            status: {type: ['open', 'closed'], default: 'open'},
        },
        indexes: {
            task: {pk: {field: 'pk', composite: ['task']}, sk: {field: 'sk', composite: ['project', 'employee']}},
            office: {
                index: 'gsi1',
                collection: 'workplaces',
                pk: {field: 'gsi1pk', composite: ['office']},
                sk: {field: 'gsi1sk', composite: ['project']},
            },
            team: {
                index: 'gsi2',
                collection: ['assignments'],
                pk: {field: 'gsi2pk', composite: ['team']},
                sk: {field: 'gsi2sk', composite: ['project', 'task']},
            },
        },
    },
    {client, table},
)

// Its index has several attributes in each part of the key.
const Thing = new Entity(
    {
        model: {entity: 'thing', version: '1', service: 'inventory'},
        attributes: {
            id: {type: 'string', required: true},
            country: {type: 'string', required: true},
            city: {type: 'string', required: true},
            maker: {type: 'string', required: true},
            count: {type: 'number', required: true},
        },
        indexes: {
            thing: {pk: {field: 'pk', composite: ['id']}, sk: {field: 'sk', composite: []}},
            location: {
                index: 'gsi3',
                type: 'composite',
                pk: {composite: ['country', 'city']},
                sk: {composite: ['maker', 'count']},
            },
        },
    },
    {client, table},
)

const app = new Service({employee: Employee, task: Task})

before(() =>
    client.send(
        new CreateTableCommand({
            TableName: table,
            AttributeDefinitions: [
                ...['pk', 'sk', 'gsi1pk', 'gsi1sk', 'gsi2pk', 'gsi2sk', 'country', 'city', 'maker'].map((AttributeName) => ({
                    AttributeName,
                    AttributeType: 'S',
                })),
                {AttributeName: 'count', AttributeType: 'N'},
            ],
            KeySchema: [
                {AttributeName: 'pk', KeyType: 'HASH'},
                {AttributeName: 'sk', KeyType: 'RANGE'},
            ],
            GlobalSecondaryIndexes: [
                index('gsi1', 'gsi1pk', 'gsi1sk'),
                index('gsi2', 'gsi2pk', 'gsi2sk'),
                {
                    IndexName: 'gsi3',
                    KeySchema: [
                        {AttributeName: 'country', KeyType: 'HASH'},
                        {AttributeName: 'city', KeyType: 'HASH'},
                        {AttributeName: 'maker', KeyType: 'RANGE'},
                        {AttributeName: 'count', KeyType: 'RANGE'},
                    ],
                    Projection: {ProjectionType: 'ALL'},
                },
            ],
            BillingMode: 'PAY_PER_REQUEST',
        }),
    ),
)

const names = (data) => data.map((e) => e.employee)

test('create, get, put, remove', async () => {
    const ada = {
        employee: 'ada',
        team: 'blue',
        title: 'engineer',
        office: 'ghent',
        skills: ['go', 'sql'],
        history: [{year: 2024, note: 'joined'}],
        address: {street: 'High 1', city: 'Ghent'},
        meta: {deep: [1, {er: null}]},
        hired: '2024-01-01',
    }
    const {data} = await Employee.create(ada).go()
    assert.equal(data.salary, 100)
    const got = await Employee.get({employee: 'ada'}).go({consistent: true})
    assert.deepEqual({...got.data, skills: [...got.data.skills].sort()}, {...ada, salary: 100, version: 0})
    await assert.rejects(Employee.create(ada).go(), (e) => e.code === 4001 && /conditional request failed/i.test(e.message))
    assert.equal((await Employee.get({employee: 'nobody'}).go()).data, null)
    const removed = await Employee.remove({employee: 'ada'}).go({response: 'all_old'})
    assert.equal(removed.data.office, 'ghent')
    await assert.rejects(Employee.remove({employee: 'ada'}).where(({office}, {exists}) => exists(office)).go())
    await Employee.put(ada).go()
    const some = await Employee.get({employee: 'ada'}).go({attributes: ['team', 'salary']})
    assert.deepEqual(some.data, {team: 'blue', salary: 100})
})

test('updates', async () => {
    await Employee.put({
        employee: 'bob', team: 'blue', title: 'clerk', office: 'ghent', skills: ['a', 'b'], history: [], address: {city: 'Ghent'},
    }).go()
    const {data} = await Employee.patch({employee: 'bob'})
        .set({title: 'chief', office: 'ghent', team: 'blue'})
        .add({skills: ['c']})
        .append({history: [{year: 2025, note: 'chief'}]})
        .data(({address}, {set}) => set(address.street, 'Low 2'))
        .where(({title}, {eq}) => eq(title, 'clerk'))
        .go({response: 'all_new'})
    assert.deepEqual([...data.skills].sort(), ['a', 'b', 'c'])
    assert.equal(data.history[0].note, 'chief')
    assert.deepEqual(data.address, {street: 'Low 2', city: 'Ghent'})

    const next = await Employee.update({employee: 'bob'})
        .delete({skills: ['a']})
        .remove(['meta'])
        .data(({history}, {remove}) => remove(history[0]))
        .go({response: 'all_new'})
    assert.deepEqual([...next.data.skills].sort(), ['b', 'c'])
    assert.deepEqual(next.data.history, [])

    await Task.put({task: 't0', project: 'p', employee: 'bob', team: 'blue', points: 5}).go()
    const key = {task: 't0', project: 'p', employee: 'bob'}
    await Task.update(key).subtract({points: 2}).go()
    await Task.update(key).add({points: 10}).go()
    assert.equal((await Task.get(key).go()).data.points, 13)
    const upserted = await Task.upsert({...key, task: 't9', team: 'blue'}).add({points: 1}).go({response: 'all_new'})
    assert.equal(upserted.data.points, 1)
    await assert.rejects(Task.patch({...key, task: 'none'}).set({status: 'closed'}).go())
})

test('queries, filters and pages', async () => {
    const people = Array.from({length: 60}, (_, i) => ({
        employee: `e${String(i).padStart(2, '0')}`,
        team: i % 2 ? 'red' : 'green',
        title: i % 3 ? 'engineer' : 'director',
        office: 'paris',
        salary: 1000 + i,
    }))
    const put = await Employee.put(people).go({concurrent: 3})
    assert.deepEqual(put.unprocessed, [])

    const {data} = await Employee.query.office({office: 'paris', team: 'red'}).begins({title: 'dir'}).go({pages: 'all'})
    assert.equal(data.length, 10)
    const between = await Employee.query.team({team: 'red'}).between({salary: 1010}, {salary: 1016}).go()
    assert.deepEqual(names(between.data), ['e11', 'e13', 'e15'])
    const last = await Employee.query.team({team: 'green'}).lt({salary: 1021}).go({order: 'desc', limit: 2})
    assert.deepEqual(names(last.data), ['e20', 'e18'])
    const filtered = await Employee.query
        .office({office: 'paris'})
        .where(({salary, title}, {between, begins, notExists}) =>
            `${between(salary, 1000, 1019)} AND (${begins(title, 'eng')} OR ${notExists(title)})`)
        .go({pages: 'all'})
    assert.equal(filtered.data.length, 13)

    const seen = []
    let cursor = null
    do {
        const page = await Employee.query.office({office: 'paris'}).go({cursor, limit: 13})
        seen.push(...names(page.data))
        cursor = page.cursor
    } while (cursor !== null)
    assert.equal(new Set(seen).size, 60)
    const counted = await Employee.query.office({office: 'paris'}).go({count: 25})
    assert.equal(counted.data.length, 25)

    const scanned = await Employee.scan.where(({office}, {eq}) => eq(office, 'paris')).go({pages: 'all'})
    assert.equal(scanned.data.length, 60)
    const matched = await Employee.match({office: 'paris', title: 'director'}).go({pages: 'all'})
    assert.equal(matched.data.length, 20)

    const keys = people.map(({employee}) => ({employee}))
    const got = await Employee.get([...keys, {employee: 'none'}]).go({preserveBatchOrder: true})
    assert.deepEqual(names(got.data.slice(0, 60)), names(people))
    assert.equal(got.data[60], null)
    await Employee.delete(keys.slice(30)).go()
    const hydrated = await Employee.query.office({office: 'paris'}).go({pages: 'all', hydrate: true})
    assert.equal(hydrated.data.length, 30)
})

test('an index of many attributes', async () => {
    const place = {country: 'be', city: 'ghent'}
    await Thing.put(Array.from({length: 12}, (_, i) => ({id: `t${i}`, ...place, maker: i % 2 ? 'acme' : 'best', count: i}))).go()
    const counts = async (query, options) => (await query.go(options)).data.map(({count}) => count)
    assert.deepEqual(await counts(Thing.query.location({...place, maker: 'acme'})), [1, 3, 5, 7, 9, 11])
    assert.deepEqual(await counts(Thing.query.location(place).gt({maker: 'acme', count: 7})), [9, 11])
    assert.deepEqual(await counts(Thing.query.location({...place, maker: 'best'}).between({count: 2}, {count: 6})), [2, 4, 6])
    assert.deepEqual(await counts(Thing.query.location(place).begins({maker: 'b'}), {order: 'desc', limit: 2}), [10, 8])
    const first = await Thing.query.location(place).go({limit: 7})
    assert.deepEqual(await counts(Thing.query.location(place), {cursor: first.cursor}), [2, 4, 6, 8, 10])
})

test('collections of a service', async () => {
    await Employee.put({employee: 'zed', team: 'ops', title: 'chef', office: 'rome', salary: 7}).go()
    await Task.put([
        {task: 't1', project: 'p1', employee: 'zed', team: 'ops', office: 'rome'},
        {task: 't2', project: 'p2', employee: 'zed', team: 'ops'},
    ]).go()
    const workplaces = await app.collections.workplaces({office: 'rome'}).go()
    assert.deepEqual(names(workplaces.data.employee), ['zed'])
    assert.deepEqual(workplaces.data.task.map((task) => task.task), ['t1'])
    const assignments = await app.collections
        .assignments({team: 'ops'})
        .where(({employee}, {eq}) => eq(employee, 'zed'))
        .go({pages: 'all'})
    assert.equal(assignments.data.employee.length, 1)
    assert.equal(assignments.data.task.length, 2)
    const detailed = await app.collections.detailed({team: 'ops'}).go()
    assert.equal(detailed.data.employee.length, 1)
})

test('transactions', async () => {
    await Employee.put({employee: 'tess', team: 'tx', title: 'x', office: 'oslo'}).go()
    const made = await app.transaction
        .write(({employee, task}) => [
            employee.patch({employee: 'tess'}).add({salary: 1}).commit(),
            task.create({task: 'tx1', project: 'p', employee: 'tess', team: 'tx'}).commit(),
            employee.check({employee: 'nobody'}).where(({employee}, {notExists}) => notExists(employee)).commit(),
        ])
        .go()
    assert.equal(made.canceled, false)
    const failed = await app.transaction
        .write(({employee, task}) => [
            employee.patch({employee: 'tess'}).add({salary: 1}).commit(),
            task.create({task: 'tx1', project: 'p', employee: 'tess', team: 'tx'}).commit({response: 'all_old'}),
        ])
        .go()
    assert.equal(failed.canceled, true)
    assert.deepEqual(failed.data.map(({code}) => code), ['None', 'ConditionalCheckFailed'])
    assert.equal(failed.data[1].item.team, 'tx')
    const got = await app.transaction
        .get(({employee, task}) => [
            employee.get({employee: 'tess'}).commit(),
            task.get({task: 'tx1', project: 'p', employee: 'tess'}).commit(),
        ])
        .go()
    assert.equal(got.data[0].item.salary, 101)
    assert.equal(got.data[1].item.status, 'open')
})
