// An HTTP server for the JSON API that sends requests to items with a client of DAX, and passes
// all others on to an endpoint of DynamoDB. What is tested with any program that speaks HTTP,
// such as stator conform, is thereby tested with the client.
//
// It sees what arrives at the server, and judges each request by it: see Verdict.

import {createHash} from 'node:crypto'
import http from 'node:http'
import {createRequire} from 'node:module'
import {isDeepStrictEqual} from 'node:util'
import {relay} from './relay.js'
import {catalog, learn, translate} from './translate.js'

const require = createRequire(import.meta.url)

const items = ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'Query', 'Scan', 'BatchGetItem', 'BatchWriteItem', 'TransactGetItems', 'TransactWriteItems']

// clients have the constructors of the clients. Each returns a function that sends a request, and one that ends the client.
export const clients = {
    '@amazon-dax-sdk/client-dax': config => {
        const {Dax} = require('@amazon-dax-sdk/client-dax')
        const dax = new Dax(config)
        return {send: (operation, input) => dax[operation](input), end: () => dax.shutdown()}
    },
    'amazon-dax-client': config => {
        const Dax = require('amazon-dax-client')
        const dax = new Dax({...config, endpoints: [config.endpoint], endpoint: undefined})
        return {send: (operation, input) => dax[operation](input).promise(), end: () => dax.shutdown()}
    },
}

// decoded returns a request with its binary values as bytes, as clients take them.
function decoded(value, inAttribute) {
    if (Array.isArray(value)) return value.map(v => decoded(v, inAttribute))
    if (value === null || typeof value !== 'object') return value
    const names = Object.keys(value)
    if (names.length === 1 && names[0] === 'B' && typeof value.B === 'string') return {B: Buffer.from(value.B, 'base64')}
    if (names.length === 1 && names[0] === 'BS' && Array.isArray(value.BS)) return {BS: value.BS.map(b => typeof b === 'string' ? Buffer.from(b, 'base64') : b)}
    return Object.fromEntries(names.map(name => [name, decoded(value[name])]))
}

// encoded is the text of a reply, with binary values as JSON has them.
function encoded(reply) {
    return JSON.stringify(reply, function (name, value) {
        const original = this[name]
        if (original instanceof Uint8Array) return Buffer.from(original).toString('base64')
        if (original instanceof Set) return [...original]
        return value === null && name !== 'NULL' ? undefined : value
    })
}

// failure returns the status and the body of an error.
function failure(e) {
    const code = e.code ?? e.name
    let message = String(e.message ?? '')
    if (message.startsWith(`${code}: `)) message = message.slice(code.length + 2)
    const sent = Array.isArray(e.codeSeq) // otherwise the client has refused the request itself
    if (!sent) message = `(client) ${message}`
    const body = {__type: `${sent ? 'dax' : 'client'}#${code}`, message, Item: e.Item, CancellationReasons: e.cancellationReasons ?? e.CancellationReasons}
    return {status: e.statusCode > 0 ? e.statusCode : 400, sent, body: encoded(body)}
}

// Verdict is what a request and its reply show.
//
// - client: no request to items has arrived at the server, which has answered all others that arrived without an error
// - missing table: the client has asked for the key of a table, which does not exist over HTTP either, and has sent no more
// - ARN: the same for the ARN of a table, which is not a name on the port of DAX
// - size: the names and values of expressions have about 2 MB, and are too large with the placeholders, which the client does not send
// - same: the request that has arrived was sent over HTTP too, translated, and the replies and the items after it are equal
// - differs: none of these

// bridge listens on a free port, and returns its URL, what was sent, the verdicts by their requests, and how to end it. client is a
// name of clients, or the URL of a program that takes requests of the JSON API, and sends them with a client to DAX_RELAY.
export async function bridge({client, dax, endpoint, credentials, region = 'us-east-1', port = 0}) {
    const known = catalog()
    let step = {received: [], failed: []}
    const through = await relay(dax, async request => {
        if (!items.includes(request.operation)) return
        step.received.push(request)
        try {
            Object.assign(request, translate(known, request, client.startsWith('http') ? 'DaxGo' : ''))
            request.before = await stored(endpoint, request.keys)
        } catch (e) {
            request.unknown = e
        }
    }, (request, reply) => {
        learn(known, request, reply)
        request.reply = reply
        if (reply.failure && !items.includes(request.operation)) step.failed.push(request)
    }, port)
    // On a busy machine a health check takes longer than the second that the client allows.
    const external = client.startsWith('http')
    const make = () => external ? {send: (operation, input) => post(client, operation[0].toUpperCase() + operation.slice(1), input), end() {}}
        : clients[client]({endpoint: `dax://${through.address}`, region, credentials, healthCheckTimeout: 60_000, healthCheckInterval: 60_000})
    let current = make()
    const counts = {client: 0, 'missing table': 0, ARN: 0, size: 0, same: 0, differs: 0, http: 0}
    const verdicts = new Map(), differences = []
    const run = String(Math.floor(Math.random() * 1e6))
    const agent = new http.Agent({keepAlive: true})

    // execute sends a request to items, and judges it. One follows another, so that what arrives belongs to it.
    async function execute(operation, input, name) {
        step = {received: [], failed: []}
        let status = 200, text
        try {
            const reply = await current.send(operation[0].toLowerCase() + operation.slice(1), input)
            if (reply instanceof Answer) ({status, text} = reply)
            else text = encoded(reply)
        } catch (e) {
            ({status, body: text} = failure(e))
        }
        let verdict
        try {
            verdict = await judge(step, input, status, text, endpoint, known)
        } catch (e) {
            verdict = {is: 'differs', why: `not compared: ${e.stack}`}
        }
        counts[verdict.is]++
        verdicts.set(name, [...verdicts.get(name) ?? [], verdict])
        if (verdict.is === 'differs') differences.push(`${name}: ${verdict.why}`)
        // A client that fails while it encodes a request may leave a part of it in the connection.
        if (verdict.is === 'client' || verdict.is === 'differs') {
            current.end()
            current = make()
        }
        return {status, text}
    }

    let last = Promise.resolve()
    const server = http.createServer((request, response) => {
        const chunks = []
        request.on('data', chunk => chunks.push(chunk))
        request.on('end', async () => {
            const body = Buffer.concat(chunks)
            const operation = String(request.headers['x-amz-target'] ?? '').split('.').pop()
            const input = items.includes(operation) ? parsed(body, external) : undefined
            if (input === undefined) {
                counts.http++
                return pass(endpoint, agent, request, body, response)
            }
            if (typeof input.ClientRequestToken === 'string' && input.ClientRequestToken.length <= 30) input.ClientRequestToken += run // the server knows it from another run
            last = last.then(() => execute(operation, input, nameOf(operation, body.toString())))
            const {status, text} = await last
            response.writeHead(status, {'Content-Type': 'application/x-amz-json-1.0'})
            response.end(text)
        })
    })
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
    return {
        url: `http://127.0.0.1:${server.address().port}`, relay: through.address, counts, differences,
        verdicts: (operation, body) => verdicts.get(nameOf(operation, body)) ?? [],
        end: () => new Promise(resolve => { current.end(); through.end(); server.close(resolve); server.closeAllConnections(); agent.destroy() }),
    }
}

// nameOf returns a request without the prefix that stator conform gives to the names of its tables.
const nameOf = (operation, body) => `${operation} ${body.replace(/cf[0-9a-f]{8}-/g, '')}`

class Answer { constructor(status, text) { this.status = status; this.text = text } }

// post sends a request of the JSON API.
export async function post(endpoint, operation, body) {
    const reply = await fetch(endpoint, {method: 'POST', body: JSON.stringify(body), signal: AbortSignal.timeout(60_000), headers: {
        'Content-Type': 'application/x-amz-json-1.0', 'X-Amz-Target': `DynamoDB_20120810.${operation}`, 'X-Amz-Date': '20260101T000000Z',
        Authorization: 'AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=any',
    }})
    return new Answer(reply.status, await reply.text())
}

// stored returns the items of keys; null for those that there are not.
async function stored(endpoint, keys) {
    return Promise.all(keys.map(async k => {
        const {status, text} = await post(endpoint, 'GetItem', {...k, ConsistentRead: true})
        return status === 200 ? JSON.parse(text).Item ?? null : null
    }))
}

// restore makes items what they were.
async function restore(endpoint, keys, before, now) {
    for (const [i, {TableName, Key}] of keys.entries()) {
        if (isDeepStrictEqual(before[i], now[i])) continue
        const {status, text} = before[i] ? await post(endpoint, 'PutItem', {TableName, Item: before[i]}) : await post(endpoint, 'DeleteItem', {TableName, Key})
        if (status !== 200) throw new Error(`an item was not restored: ${text}`)
    }
}

// judge returns the verdict of a request.
async function judge(step, input, status, text, endpoint, known) {
    const differs = why => ({is: 'differs', why})
    if (step.received.length === 0) {
        if (step.failed.length === 0) return {is: 'client'}
        for (const {operation, args, reply} of step.failed) {
            if (operation === 'defineAttributeListId') {
                const over = await putNames(endpoint, input, args[0], known)
                if (over !== `${reply.failure.code}: ${reply.failure.message}`) return differs(`${operation} failed: ${reply.failure.code}: ${reply.failure.message}\n    over HTTP ${over}`)
                return {is: 'same'}
            }
            if (operation !== 'defineKeySchema' || reply.failure.code !== 'ResourceNotFoundException') return differs(`${operation} failed: ${reply.failure.code} ${reply.failure.message}`)
            if (String(args[0]).startsWith('arn:')) return {is: 'ARN'}
            const described = await post(endpoint, 'DescribeTable', {TableName: String(args[0])})
            if (described.status === 200) return differs(`the table ${args[0]} exists over HTTP`)
        }
        return {is: 'missing table'}
    }
    const request = step.received.at(-1)
    if (request.unknown) throw request.unknown
    const {operation, keys, before, reply} = request
    const body = {...request.body}
    if (!reply) return differs('the server has not answered')
    if (body.ClientRequestToken?.length <= 36) body.ClientRequestToken = createHash('sha1').update(body.ClientRequestToken).digest('hex').slice(0, 36)
    const after = await stored(endpoint, keys)
    await restore(endpoint, keys, before, after)
    const over = await post(endpoint, operation, body)
    const again = await stored(endpoint, keys)
    const sent = `${operation} ${JSON.stringify(body)}`.slice(0, 800)
    if (!isDeepStrictEqual(after, again)) return differs(`the items after it are ${JSON.stringify(after)}, over HTTP ${JSON.stringify(again)}\n    received ${sent}`)
    const want = JSON.parse(over.text)
    let got, expected
    if (reply.failure) {
        const {code, message, status, reasons} = reply.failure
        // A server that gets no placeholders and no texts cannot quote them.
        const unquoted = m => m?.replace(/^(1 validation error detected: )?ExpressionAttribute(?:Names|Values) contains invalid value: (.*) for key [#:]\w+$/s, '$1$2').replace(/Value '.*' at '/s, "Value at '")
        const of = r => [r.Code ?? 'None', r.Message ?? null]
        got = [status, code, unquoted(message), reasons ? Array.from({length: reasons.length / 3}, (_, i) => [reasons[3 * i] ?? 'None', reasons[3 * i + 1]]) : undefined]
        expected = [over.status, want.__type?.split('#').pop(), unquoted(want.message ?? want.Message), want.CancellationReasons?.map(of)]
        const shown = JSON.parse(text).CancellationReasons?.map(r => r.Item)
        if (shown && JSON.stringify(shown.map(canonical)) !== JSON.stringify(want.CancellationReasons?.map(r => canonical(r.Item)))) {
            got.push(shown)
            expected.push(want.CancellationReasons?.map(r => r.Item))
        }
    } else if (status !== 200) {
        return differs(`the server has answered, but the client fails: ${text}\n    received ${sent}`)
    } else {
        const shown = JSON.parse(text)
        if (isDeepStrictEqual(shown.ItemCollectionMetrics, {})) delete shown.ItemCollectionMetrics // how the client shows that there are none
        if (operation === 'GetItem' && shown.Item) for (const name of Object.keys(input.Key)) if (!(name in body.Key)) delete shown.Item[name] // the client adds the key that it was given
        // The client adds the other members of its own request.
        for (const r of [shown, want]) for (const part of Object.values(operation === 'BatchGetItem' ? r.UnprocessedKeys ?? {} : {})) for (const name of Object.keys(part)) if (name !== 'Keys') delete part[name]
        got = [status, canonical(shown)]
        expected = [over.status, canonical(want)]
    }
    if (JSON.stringify(got) === JSON.stringify(expected)) return {is: 'same'}
    const size = JSON.stringify([body.ExpressionAttributeNames, body.ExpressionAttributeValues]).length
    if (/exceeds max size$/.test(want.message) && Math.abs(size - (2 << 20)) < 100) return {is: 'size'}
    const [ours, theirs] = [JSON.stringify(got), JSON.stringify(expected)]
    let at = 0
    while (ours[at] === theirs[at]) at++
    const from = Math.max(0, at - 200)
    return differs(`${ours.slice(from, at + 400)}\n    over HTTP ${theirs.slice(from, at + 400)}\n    received ${sent}`)
}

// putNames puts an item with attributes of these names into the table of a request, and returns the error.
async function putNames(endpoint, input, names, known) {
    const [TableName] = input.TableName ? [input.TableName] : Object.keys(input.RequestItems ?? {}).length ? Object.keys(input.RequestItems) : input.TransactItems.flatMap(a => Object.values(a).map(x => x.TableName))
    const Item = Object.fromEntries([...names.map(n => [n, {NULL: true}]), ...known.keys.get(TableName).map(({name, type}) => [name, {[type]: {S: 'x', N: '1', B: 'eA=='}[type]}])])
    const {__type, message, Message} = JSON.parse((await post(endpoint, 'PutItem', {TableName, Item})).text)
    return `${__type?.split('#').pop()}: ${message ?? Message}`
}

// canonical returns a reply with its members in order and its numbers in one form, as clients write them in others.
function canonical(v, name) {
    if (Array.isArray(v)) return v.map(x => name === 'NS' ? decimal(x) : canonical(x))
    if (v === null || typeof v !== 'object') return name === 'N' ? decimal(v) : v
    return Object.fromEntries(Object.keys(v).sort().map(n => [n, canonical(v[n], n)]))
}

function decimal(text) {
    const m = /^(-?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?$/.exec(text)
    if (!m) return text
    const digits = (m[2] + m[3]).replace(/^0+/, ''), short = digits.replace(/0+$/, '')
    return short === '' ? '0' : `${m[1]}${short}E${Number(m[4] ?? 0) - m[3].length + digits.length - short.length}`
}

// parsed returns a request, or nothing if a client could not send it: it is not a JSON object.
function parsed(body, external) {
    try {
        const value = JSON.parse(body.toString())
        return value !== null && typeof value === 'object' && !Array.isArray(value) ? (external ? value : decoded(value)) : undefined
    } catch {
        return undefined
    }
}

function pass(endpoint, agent, request, body, response) {
    const to = http.request(endpoint, {method: request.method, path: request.url, headers: {...request.headers, host: new URL(endpoint).host}, agent}, reply => {
        response.writeHead(reply.statusCode, reply.headers)
        reply.pipe(response)
    })
    to.on('error', e => { response.writeHead(502); response.end(String(e)) })
    to.end(body)
}
