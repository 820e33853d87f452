// Clients over TLS: daxs://. They verify the certificate with the authorities that Node trusts, and compare its names with the host of the
// endpoint that they were given.

import assert from 'node:assert/strict'
import {execFile, spawn} from 'node:child_process'
import {mkdtempSync, rmSync} from 'node:fs'
import {tmpdir} from 'node:os'
import path from 'node:path'
import {after, before, test} from 'node:test'
import {promisify} from 'node:util'

const run = promisify(execFile)
const folder = mkdtempSync(path.join(tmpdir(), 'stator-dax-tls-'))
const cert = path.join(folder, 'cert.pem'), key = path.join(folder, 'key.pem')
const openssl = await run('openssl', ['version']).then(() => true, () => false)
let server, http, endpoint

before(async () => {
    if (!openssl) return
    await run('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', '-subj', '/CN=localhost',
        '-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert])
    server = spawn(process.env.STATOR, ['serve', '--in-memory', '--addr', '127.0.0.1:0', '--dax-tls', '127.0.0.1:0', '--tls-cert', cert, '--tls-key', key, '--log', 'warn'])
    let text = ''
    for await (const chunk of server.stderr) {
        text += chunk
        http = /stator listens on (\S+)/.exec(text)?.[1]
        endpoint = /(daxs:\/\/[\d.:]+)/.exec(text)?.[1]
        if (http && endpoint) break
    }
})
after(() => { server?.kill(); rmSync(folder, {recursive: true}); setImmediate(() => process.exit()) })

// program makes a table over HTTP, and writes and reads an item with the client of DAX.
const program = `
const {CreateTableCommand, DynamoDBClient} = require('@aws-sdk/client-dynamodb')
const {Dax} = require('@amazon-dax-sdk/client-dax')
const [http, endpoint, TableName, skip] = process.argv.slice(1)
async function main() {
    await new DynamoDBClient({endpoint: http}).send(new CreateTableCommand({TableName, BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: [{AttributeName: 'id', AttributeType: 'S'}], KeySchema: [{AttributeName: 'id', KeyType: 'HASH'}]}))
    const dax = new Dax({endpoint, region: 'us-east-1', skipHostnameVerification: skip === 'skip'})
    await dax.putItem({TableName, Item: {id: {S: '1'}, n: {N: '5'}}})
    console.log(JSON.stringify((await dax.getItem({TableName, Key: {id: {S: '1'}}})).Item))
    process.exit(0)
}
main().catch(e => { console.error(String(e)); process.exit(1) })`

const client = (table, env, ...more) => run(process.execPath, ['-e', program, http, endpoint, table, ...more], {timeout: 120_000, cwd: process.cwd(), env: {...process.env, ...env}})

test('a certificate that Node trusts', {skip: !openssl}, async () => {
    const {stdout} = await client('Trusted', {NODE_EXTRA_CA_CERTS: cert})
    assert.deepEqual(JSON.parse(stdout), {id: {S: '1'}, n: {N: '5'}})
})

test('a certificate that is not trusted', {skip: !openssl}, async () => {
    await assert.rejects(client('Untrusted', {NODE_EXTRA_CA_CERTS: ''}, 'skip'), /self-signed|unable to verify|certificate/i) // 'skip' is about the name alone
})
