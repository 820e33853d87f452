// An HTTP server for the JSON API that sends requests to items with a client of DAX, and passes
// all others on to an endpoint of DynamoDB. What is tested with any program that speaks HTTP,
// such as stator conform, is thereby tested with the client.

import http from 'node:http'
import {createRequire} from 'node:module'

const require = createRequire(import.meta.url)

const items = ['GetItem', 'PutItem', 'UpdateItem', 'DeleteItem', 'Query', 'Scan', 'BatchGetItem', 'BatchWriteItem', 'TransactGetItems', 'TransactWriteItems']

// clients have the constructors of the clients. Each returns a function that sends a request.
export const clients = {
    '@amazon-dax-sdk/client-dax': config => {
        const {Dax} = require('@amazon-dax-sdk/client-dax')
        const dax = new Dax(config)
        return (operation, input) => dax[operation](input)
    },
    'amazon-dax-client': config => {
        const Dax = require('amazon-dax-client')
        const dax = new Dax({...config, endpoints: [config.endpoint], endpoint: undefined})
        return (operation, input) => dax[operation](input).promise()
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

// bridge listens on a free port, and returns its URL, what was sent, and how to end it.
export async function bridge({client, dax, endpoint, credentials, region = 'us-east-1'}) {
    // On a busy machine a health check takes longer than the second that the client allows.
    const send = clients[client]({endpoint: dax, region, credentials, healthCheckTimeout: 60_000, healthCheckInterval: 60_000})
    const counts = {dax: 0, client: 0, http: 0}
    const run = String(Math.floor(Math.random() * 1e6))
    const agent = new http.Agent({keepAlive: true})
    const server = http.createServer((request, response) => {
        const chunks = []
        request.on('data', chunk => chunks.push(chunk))
        request.on('end', async () => {
            const body = Buffer.concat(chunks)
            const operation = String(request.headers['x-amz-target'] ?? '').split('.').pop()
            const input = items.includes(operation) ? parsed(body) : undefined
            if (typeof input?.ClientRequestToken === 'string' && input.ClientRequestToken.length <= 30) input.ClientRequestToken += run // the server knows it from another run
            if (input === undefined) {
                counts.http++
                return pass(endpoint, agent, request, body, response)
            }
            let status = 200, text
            try {
                text = encoded(await send(operation[0].toLowerCase() + operation.slice(1), input))
                counts.dax++
            } catch (e) {
                const failed = failure(e)
                counts[failed.sent ? 'dax' : 'client']++
                status = failed.status
                text = failed.body
            }
            response.writeHead(status, {'Content-Type': 'application/x-amz-json-1.0'})
            response.end(text)
        })
    })
    await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
    return {
        url: `http://127.0.0.1:${server.address().port}`, counts, send,
        end: () => new Promise(resolve => { server.close(resolve); server.closeAllConnections(); agent.destroy() }),
    }
}

// parsed returns a request, or nothing if a client could not send it: it is not a JSON object.
function parsed(body) {
    try {
        const value = JSON.parse(body.toString())
        return value !== null && typeof value === 'object' && !Array.isArray(value) ? decoded(value) : undefined
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
