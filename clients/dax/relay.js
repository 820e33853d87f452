// A relay between a client of DAX and a server. It passes on what both send, and shows each request that arrives,
// and its reply: so a test knows whether a client has sent a request at all, and which.

import net from 'node:net'
import {head, incomplete, read} from './cbor.js'

// methods are the operations of the protocol by their ids, and how many values each has.
const methods = {
    1489122155: ['authorizeConnection', 5], 455855874: ['endpoints', 0], '-742646399': ['defineKeySchema', 1],
    670678385: ['defineAttributeList', 1], '-1230579644': ['defineAttributeListId', 1],
    263244906: ['GetItem', 3], '-2106490455': ['PutItem', 4], 1013539361: ['DeleteItem', 3], 1425579023: ['UpdateItem', 3],
    '-931250863': ['Query', 3], '-1875390620': ['Scan', 2], '-697851100': ['BatchGetItem', 2], 116217951: ['BatchWriteItem', 2],
    1866287579: ['TransactGetItems', 4], '-1160037738': ['TransactWriteItems', 9],
}

// relay listens on a port, a free one for 0, for clients of a server host:port. before is called with each request, which is
// passed on when its promise is resolved, and after with the request and its reply: {failure} or {body}.
export async function relay(server, before, after, fixed = 0) {
    const [host, port] = server.replace(/^\w+:\/\//, '').split(':')
    const sockets = new Set()
    let own
    const listener = net.createServer(client => {
        const to = net.connect(port, host)
        for (const s of [client, to]) {
            sockets.add(s)
            s.setNoDelay(true)
            s.on('error', () => { client.destroy(); to.destroy() })
            s.on('close', () => { sockets.delete(s); client.destroy(); to.destroy() })
        }
        const open = [] // requests without a reply
        let greeted = false
        parse(client, async (b, at) => {
            const from = at
            if (!greeted) {
                for (let i = 0; i < 5; i++) at = read(b, at)[1]
                greeted = true
                to.write(b.subarray(from, at))
                return at
            }
            const [service, next] = read(b, at)
            let id
            [id, at] = read(b, next)
            const method = methods[id]
            if (service !== 1n || !method) throw new Error(`a client calls the method ${id} of the service ${service}`)
            const args = []
            for (let i = 0; i < method[1]; i++) {
                const [value, end] = read(b, at)
                args.push(value)
                at = end
            }
            const request = {operation: method[0], args}
            if (request.operation === 'endpoints') { // clients must not learn the address of the server
                client.write(own)
                return at
            }
            const bytes = Buffer.from(b.subarray(from, at))
            await before(request)
            if (request.operation !== 'authorizeConnection') open.push(request)
            to.write(bytes)
            return at
        }, () => client.destroy())
        parse(to, async (b, at) => {
            const from = at
            const [codes, next] = read(b, at)
            const reply = {}
            if (codes.length === 0) {
                [reply.body, at] = read(b, next)
                for (let more = {BatchGetItem: 1, BatchWriteItem: 2}[open[0]?.operation] ?? 0; more > 0; more--) at = read(b, at)[1]
            } else {
                const [message, details] = read(b, next)
                const [list, end] = read(b, details)
                reply.failure = {codes: codes.map(Number), message, id: list?.[0], code: list?.[1], status: Number(list?.[2]), reasons: list?.[3]}
                at = end
            }
            after(open.shift(), reply)
            client.write(b.subarray(from, at))
            return at
        }, () => client.destroy())
    })
    await new Promise(resolve => listener.listen(fixed, '127.0.0.1', resolve))
    const at = listener.address().port
    own = Buffer.concat([head(4, 0), head(4, 1), head(5, 7), // no codes; one node
        head(0, 0), head(0, 1), head(0, 1), head(3, 9), Buffer.from('127.0.0.1'), head(0, 2), head(2, 4), Buffer.from([127, 0, 0, 1]),
        head(0, 3), head(0, at), head(0, 4), head(0, 1), head(0, 5), head(3, 4), Buffer.from('zone'), head(0, 6), head(0, 1)])
    return {address: `127.0.0.1:${at}`, end: () => { listener.close(); for (const s of sockets) s.destroy() }}
}

// parse calls next with the bytes that have arrived; it returns where those that it has used end. Bytes that are not complete are kept.
function parse(socket, next, fail) {
    let pending = Buffer.alloc(0), busy = false
    socket.on('data', async chunk => {
        pending = Buffer.concat([pending, chunk])
        if (busy) return
        busy = true
        while (pending.length > 0) {
            const all = pending
            try {
                const at = await next(all, 0)
                pending = pending.subarray(at)
            } catch (e) {
                if (e === incomplete && pending.length === all.length) break
                if (e === incomplete) continue // more has arrived
                console.error(`relay: ${e.message}`)
                pending = Buffer.alloc(0)
                fail()
            }
        }
        busy = false
    })
}
