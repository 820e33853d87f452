// The DynamoDB adapter of Auth.js: users, accounts, sessions and verification tokens in one table.

import assert from 'node:assert/strict'
import {before, test} from 'node:test'
import {DynamoDBAdapter} from '@auth/dynamodb-adapter'
import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'
import {DynamoDBDocument} from '@aws-sdk/lib-dynamodb'

const client = new DynamoDBClient()
const documents = DynamoDBDocument.from(client, {marshallOptions: {convertEmptyValues: true, removeUndefinedValues: true, convertClassInstanceToMap: true}})
const adapter = DynamoDBAdapter(documents, {tableName: 'Auth'})
const minute = n => new Date(Math.floor(Date.now() / 1000) * 1000 + n * 60_000)

const key = (pk, sk) => [{AttributeName: pk, KeyType: 'HASH'}, {AttributeName: sk, KeyType: 'RANGE'}]
before(() => client.send(new CreateTableCommand({
    TableName: 'Auth',
    BillingMode: 'PAY_PER_REQUEST',
    AttributeDefinitions: ['pk', 'sk', 'GSI1PK', 'GSI1SK'].map(name => ({AttributeName: name, AttributeType: 'S'})),
    KeySchema: key('pk', 'sk'),
    GlobalSecondaryIndexes: [{IndexName: 'GSI1', KeySchema: key('GSI1PK', 'GSI1SK'), Projection: {ProjectionType: 'ALL'}}],
})))

test('users and accounts', async () => {
    const user = await adapter.createUser({email: 'ada@example.com', name: 'Ada', emailVerified: minute(-1)})
    assert.deepEqual(await adapter.getUser(user.id), user)
    assert.deepEqual(await adapter.getUserByEmail('ada@example.com'), user)
    const renamed = await adapter.updateUser({id: user.id, name: 'Ada L.'})
    assert.deepEqual([renamed.name, renamed.email], ['Ada L.', 'ada@example.com'])

    const account = {provider: 'hub', providerAccountId: '1', type: 'oauth', userId: user.id, expires_at: 60, scope: 'read'}
    await adapter.linkAccount(account)
    assert.equal((await adapter.getUserByAccount({provider: 'hub', providerAccountId: '1'})).id, user.id)
    await adapter.unlinkAccount({provider: 'hub', providerAccountId: '1'})
    assert.equal(await adapter.getUserByAccount({provider: 'hub', providerAccountId: '1'}), null)
})

test('sessions', async () => {
    const user = await adapter.createUser({email: 'bob@example.com', emailVerified: null})
    await adapter.createSession({userId: user.id, sessionToken: 's1', expires: minute(5)})
    const found = await adapter.getSessionAndUser('s1')
    assert.deepEqual([found.user.id, found.session.expires], [user.id, minute(5)])
    const later = await adapter.updateSession({sessionToken: 's1', expires: minute(9)})
    assert.ok(later.expires > found.session.expires)
    await adapter.deleteSession('s1')
    assert.equal(await adapter.getSessionAndUser('s1'), null)
})

test('a verification token is used once', async () => {
    await adapter.createVerificationToken({identifier: 'ada@example.com', token: 't', expires: minute(5)})
    const used = await adapter.useVerificationToken({identifier: 'ada@example.com', token: 't'})
    assert.equal(used.identifier, 'ada@example.com')
    assert.equal(await adapter.useVerificationToken({identifier: 'ada@example.com', token: 't'}), null)
})

test('a deleted user has no items left', async () => {
    const user = await adapter.createUser({email: 'eve@example.com', emailVerified: null})
    await adapter.linkAccount({provider: 'hub', providerAccountId: '2', type: 'oauth', userId: user.id})
    await adapter.createSession({userId: user.id, sessionToken: 's2', expires: minute(5)})
    await adapter.deleteUser(user.id)
    assert.equal(await adapter.getUser(user.id), null)
    assert.equal(await adapter.getSessionAndUser('s2'), null)
    const left = await documents.query({TableName: 'Auth', KeyConditionExpression: 'pk = :pk', ExpressionAttributeValues: {':pk': `USER#${user.id}`}})
    assert.equal(left.Count, 0)
})
