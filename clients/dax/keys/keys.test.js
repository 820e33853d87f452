// The clients of DAX and a server that verifies signatures.

import assert from 'node:assert/strict'
import {after, test} from 'node:test'
import {createRequire} from 'node:module'
import {suite} from '../suite.js'
import {dax} from '../tables.js'

const require = createRequire(import.meta.url)
const {Dax} = require('@amazon-dax-sdk/client-dax')
const AmazonDaxClient = require('amazon-dax-client')
const right = new Dax(dax)
suite('client-dax with keys', 'SignedV3', (operation, input) => right[operation](input))

test('amazon-dax-client with keys', async () => {
    const client = new AmazonDaxClient({endpoints: [dax.endpoint], region: dax.region})
    const Item = {customerId: {S: 'k'}, orderId: {S: '1'}}
    await client.putItem({TableName: 'SignedV3', Item}).promise()
    assert.deepEqual((await client.getItem({TableName: 'SignedV3', Key: Item}).promise()).Item, Item)
})

test('wrong keys', async () => {
    const accessKeyId = process.env.AWS_ACCESS_KEY_ID
    for (const credentials of [{accessKeyId, secretAccessKey: 'wrong'}, {accessKeyId: 'AKIANOBODY', secretAccessKey: 'wrong'}]) {
        const client = new Dax({...dax, credentials, maxRetries: 0})
        await assert.rejects(client.getItem({TableName: 'SignedV3', Key: {customerId: {S: 'k'}, orderId: {S: '1'}}}))
    }
})

after(() => setImmediate(() => process.exit()))
