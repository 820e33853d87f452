// Runs the transcripts of conformance/ over HTTP, and with a client of DAX. All replies over HTTP
// must be those of the transcripts; those of DAX too, but for the differences in expected.json.
//
//	go run -C ../go ./serving --dax --in ../dax node transcripts.js [client]

import {execFile} from 'node:child_process'
import {readFileSync, writeFileSync} from 'node:fs'
import {bridge, clients} from './bridge.js'

const folders = 'batch_get_item|batch_write_item|delete_item|expr|get_item|put_item|query|scan|transact_get_items|transact_write_items|update_item'
const credentials = {accessKeyId: process.env.AWS_ACCESS_KEY_ID, secretAccessKey: process.env.AWS_SECRET_ACCESS_KEY}

// conform runs the transcripts against an endpoint.
function conform(endpoint) {
    return new Promise((resolve, reject) => {
        const args = ['conform', '--json', '--patience', '0s', '--run', `^(${folders})/`, '--endpoint', endpoint]
        execFile(process.env.STATOR, args, {maxBuffer: 1 << 30}, (error, stdout) => {
            try {
                resolve(JSON.parse(stdout))
            } catch {
                reject(error)
            }
        })
    })
}

const sum = (results, member) => results.reduce((n, r) => n + r[member], 0)
const problems = []
const selected = process.argv.slice(2).filter(a => !a.startsWith('--'))

const http = await conform(process.env.AWS_ENDPOINT_URL)
console.log(`HTTP: ${sum(http, 'passed')} steps of ${http.length} transcripts passed, ${sum(http, 'failed')} failed`)
for (const r of http) for (const f of r.failures ?? []) problems.push(`HTTP ${r.transcript}:${f.line}: ${f.why}`)

const expected = JSON.parse(readFileSync(new URL('expected.json', import.meta.url)))
const found = {}
for (const client of selected.length ? selected : Object.keys(clients)) {
    const b = await bridge({client, dax: process.env.DAX_ENDPOINT, endpoint: process.env.AWS_ENDPOINT_URL, credentials})
    const results = await conform(b.url)
    const differences = results.flatMap(r => (r.failures ?? []).map(f => ({at: `${r.transcript}:${f.line}`, ...f})))
    for (const r of results) if (r.error) problems.push(`${client} ${r.transcript}: ${r.error}`)
    found[client] = differences
    const unexpected = [], counts = {}
    await b.end()
    // A client that fails while it encodes a request leaves a part of it in the connection, which is
    // then out of step, so that clients are made again.
    let fresh, uses = 0
    const client2 = async renew => {
        if (!fresh || renew || ++uses % 40 === 0) {
            await fresh?.end()
            fresh = await bridge({client, dax: process.env.DAX_ENDPOINT, endpoint: process.env.AWS_ENDPOINT_URL, credentials})
        }
        return fresh.url
    }
    for (const d of differences) {
        const reason = await standIn(d, client2).catch(e => { d.why = String(e) }) ?? reasonOf(d)
        if (reason) counts[reason.name] = (counts[reason.name] ?? 0) + 1
        else unexpected.push(d)
    }
    await fresh?.end()
    console.log(`${client}: ${sum(results, 'passed')} steps passed, ${differences.length} differ; ${b.counts.dax} requests went through DAX, ${b.counts.client} were refused by the client, ${b.counts.http} went over HTTP (tables)`)
    for (const [name, n] of Object.entries(counts)) console.log(`  ${n} ${name}: ${expected.reasons.find(r => r.name === name).why}`)
    for (const d of unexpected) problems.push(`${client} ${d.at}: ${d.why}\n    > ${d.request.slice(0, 400)}\n    want ${d.want.slice(0, 300)}\n    got  ${d.got.slice(0, 300)}`)
}
if (process.env.FOUND) writeFileSync(process.env.FOUND, JSON.stringify(found, null, 1))
for (const p of problems) console.error(p)
console.log(problems.length === 0 ? 'no unexpected difference' : `${problems.length} unexpected differences`)
process.exit(problems.length === 0 ? 0 : 1)

// post sends a request of the JSON API, and returns the status and the body.
async function post(endpoint, operation, body) {
    const reply = await fetch(endpoint, {method: 'POST', body, signal: AbortSignal.timeout(15_000), headers: {
        'Content-Type': 'application/x-amz-json-1.0', 'X-Amz-Target': `DynamoDB_20120810.${operation}`, 'X-Amz-Date': '20260101T000000Z',
        Authorization: 'AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any',
    }})
    return {status: reply.status, text: await reply.text()}
}

// standIn repeats a request whose table does not exist, with tables that do. A client needs the
// key of the table before it can send a request, so that without them it reports the missing table first.
// If the replies over HTTP and with the client are equal then, that is the only difference.
async function standIn(d, client) {
    if (!d.got.startsWith('ResourceNotFoundException')) return undefined
    const [, operation, text] = /^(\w+) (.*)$/s.exec(d.request)
    let body
    try {
        body = JSON.parse(text)
    } catch {
        return undefined
    }
    const made = {}
    const key = v => v && typeof v === 'object' && !Array.isArray(v) ? Object.entries(v).filter(([, a]) => a && ['S', 'N', 'B'].includes(Object.keys(a)[0])).slice(0, 2) : []
    const table = async (name, sent) => {
        if (typeof name !== 'string' || name in made) return made[name] ?? name
        let attributes = key(sent).map(([n, a]) => ({AttributeName: n, AttributeType: Object.keys(a)[0]})).filter(a => a.AttributeName.length > 0 && a.AttributeName.length < 256)
        if (attributes.length === 0) attributes = [{AttributeName: 'id', AttributeType: 'S'}]
        made[name] = `stand-in-${Math.floor(Math.random() * 1e9)}`
        const reply = await post(process.env.AWS_ENDPOINT_URL, 'CreateTable', JSON.stringify({TableName: made[name], BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: attributes,
            KeySchema: attributes.map((a, i) => ({AttributeName: a.AttributeName, KeyType: i ? 'RANGE' : 'HASH'}))}))
        return reply.status === 200 ? made[name] : (made[name] = name)
    }
    if ('TableName' in body) body.TableName = await table(body.TableName, body.Key ?? (body.Item && Object.fromEntries(Object.entries(body.Item).slice(0, 1))))
    for (const [name, part] of Object.entries(body.RequestItems ?? {})) {
        const first = Array.isArray(part) ? part[0]?.PutRequest?.Item ?? part[0]?.DeleteRequest?.Key : part?.Keys?.[0]
        const renamed = await table(name, first)
        if (renamed !== name) { body.RequestItems[renamed] = part; delete body.RequestItems[name] }
    }
    for (const action of Array.isArray(body.TransactItems) ? body.TransactItems : []) for (const a of Object.values(action ?? {})) if (a) a.TableName = await table(a.TableName, a.Key ?? a.Item)
    const again = JSON.stringify(body)
    const http = await post(process.env.AWS_ENDPOINT_URL, operation, again)
    let dax = await post(await client(), operation, again).catch(e => ({text: `NoRoute ${e}`}))
    if (/NoRoute|timeout/i.test(dax.text)) dax = await post(await client(true), operation, again)
    const plain = r => { const {__type, message, Message, ...rest} = JSON.parse(r.text); return JSON.stringify([r.status, __type?.split('#').pop(), message ?? Message, rest]) }
    if (plain(http) === plain(dax)) return expected.reasons.find(r => r.name === 'missing table')
    const {__type, message, Message} = JSON.parse(dax.text)
    const wanted = JSON.parse(http.text)
    d.want = `${wanted.__type?.split('#').pop()}: ${wanted.message ?? wanted.Message}`
    d.got = `${__type?.split('#').pop()}: ${message ?? Message}`
    d.why = `with a table, ${plain(http)} over HTTP and ${plain(dax)} over DAX`.slice(0, 600)
    return undefined
}

// reasonOf returns why a difference is expected.
function reasonOf(d) {
    return expected.reasons.find(r =>
        (r.at ? r.at.includes(d.at) : true) &&
        (!r.request || new RegExp(r.request, 's').test(d.request)) &&
        (!r.want || new RegExp(r.want, 's').test(d.want)) &&
        (!r.got || new RegExp(r.got, 's').test(d.got)))
}
