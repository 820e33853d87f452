// Runs the transcripts of conformance/ over HTTP, and with clients of DAX. All replies over HTTP must be those of the transcripts.
//
// A client does not send every request as it is: it finds errors itself, translates legacy parameters, and replaces placeholders. So each request
// that arrives at the server is sent over HTTP too, translated back (translate.js), and the replies, and the items after it, must be equal. A step whose
// reply differs from the transcript must be of a request that the client has rejected without sending it, or of one that was answered as over HTTP.
//
//	go run -C ../go ./serving --dax --in ../dax node transcripts.js [client]
//
// client is a package, or the URL of a program that sends requests of the JSON API with another client of DAX, to 127.0.0.1:DAX_RELAY_PORT.

import {execFile} from 'node:child_process'
import {bridge, clients, post} from './bridge.js'

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

// reasons say why a step may differ from its transcript.
const reasons = {
    client: 'the client rejects the request, and sends nothing',
    same: 'the client sends another request, which is answered as over HTTP',
    'same with a table': 'the client asks for the key of a table, which is missing; with a table the replies over HTTP and with the client are equal',
    'client with a table': 'the client asks for the key of a table, which is missing; with a table it rejects the request, and sends nothing',
    'other request with a table': 'the client asks for the key of a table, which is missing; with a table it sends another request, which is answered as over HTTP',
    'missing table': 'the client asks for the key of a table, which is missing; no table fits the request',
    ARN: 'the client asks for the key of the table of an ARN, which is not a name on the port of DAX',
    size: 'names and values are too large with the placeholders, which the client does not send',
    differs: 'the server answers otherwise than over HTTP',
}

const sum = (results, member) => results.reduce((n, r) => n + r[member], 0)
const problems = []
const selected = process.argv.slice(2).filter(a => !a.startsWith('--'))

const http = await conform(process.env.AWS_ENDPOINT_URL)
console.log(`HTTP: ${sum(http, 'passed')} steps of ${http.length} transcripts passed, ${sum(http, 'failed')} failed`)
for (const r of http) for (const f of r.failures ?? []) problems.push(`HTTP ${r.transcript}:${f.line}: ${f.why}`)

for (const client of selected.length ? selected : Object.keys(clients)) {
    const b = await bridge({client, dax: process.env.DAX_ENDPOINT, endpoint: process.env.AWS_ENDPOINT_URL, credentials, port: Number(process.env.DAX_RELAY_PORT ?? 0)})
    const results = await conform(b.url)
    for (const r of results) if (r.error) problems.push(`${client} ${r.transcript}: ${r.error}`)
    const differences = results.flatMap(r => (r.failures ?? []).map(f => ({at: `${r.transcript}:${f.line}`, ...f})))
    const first = {...b.counts}, classes = {}
    const count = name => { classes[name] = (classes[name] ?? 0) + 1 }
    for (const d of differences) {
        const [, operation, body] = /^(\w+) (.*)$/s.exec(d.request)
        const verdicts = b.verdicts(operation, body)
        if (verdicts.length === 0) problems.push(`${client} ${d.at}: the request is not known\n    > ${d.request.slice(0, 400)}`)
        else if (verdicts.every(v => v.is === 'missing table')) count(await standIn(operation, body, b))
        else for (const is of new Set(verdicts.map(v => v.is))) if (is !== 'missing table') { count(is); break }
    }
    await b.end()
    problems.push(...b.differences.map(d => `${client} ${d}`))
    console.log(`${client}: ${sum(results, 'passed')} steps of ${results.length} transcripts passed, ${differences.length} differ from the transcripts`)
    console.log(`  requests: ${first.same} arrived at the server and were answered as over HTTP, ${first.differs} were not; ${first.client} were rejected by the client, ${first['missing table']} ended at a missing table; ${first.http} went over HTTP (tables)`)
    for (const [name, n] of Object.entries(classes)) console.log(`  ${n} steps: ${reasons[name]}`)
}
for (const p of problems) console.error(p)
console.log(problems.length === 0 ? 'no difference of the server' : `${problems.length} differences`)
process.exit(problems.length === 0 ? 0 : 1)

// standIn repeats a request whose table does not exist with one that does, and returns the name of the reason.
async function standIn(operation, text, b) {
    const body = JSON.parse(text)
    const made = {}
    let failed = false
    const key = v => v && typeof v === 'object' && !Array.isArray(v) ? Object.entries(v).filter(([, a]) => a && ['S', 'N', 'B'].includes(Object.keys(a)[0])).slice(0, 2) : []
    const table = async (name, sent) => {
        if (typeof name !== 'string' || name in made) return made[name] ?? name
        let attributes = key(sent).map(([n, a]) => ({AttributeName: n, AttributeType: Object.keys(a)[0]})).filter(a => a.AttributeName.length > 0 && a.AttributeName.length < 256)
        if (attributes.length === 0) attributes = [{AttributeName: 'id', AttributeType: 'S'}]
        made[name] = `stand-in-${Math.floor(Math.random() * 1e9)}`
        const reply = await post(process.env.AWS_ENDPOINT_URL, 'CreateTable', {TableName: made[name], BillingMode: 'PAY_PER_REQUEST', AttributeDefinitions: attributes,
            KeySchema: attributes.map((a, i) => ({AttributeName: a.AttributeName, KeyType: i ? 'RANGE' : 'HASH'}))})
        failed ||= reply.status !== 200
        return made[name]
    }
    if ('TableName' in body) body.TableName = await table(body.TableName, body.Key ?? (body.Item && Object.fromEntries(Object.entries(body.Item).slice(0, 1))))
    for (const [name, part] of Object.entries(body.RequestItems ?? {})) {
        const first = Array.isArray(part) ? part[0]?.PutRequest?.Item ?? part[0]?.DeleteRequest?.Key : part?.Keys?.[0]
        body.RequestItems[await table(name, first)] = part
        delete body.RequestItems[name]
    }
    for (const action of Array.isArray(body.TransactItems) ? body.TransactItems : []) for (const a of Object.values(action ?? {})) if (a) a.TableName = await table(a.TableName, a.Key ?? a.Item)
    if (failed) return 'missing table'
    const http = await post(process.env.AWS_ENDPOINT_URL, operation, body)
    const dax = await post(b.url, operation, body)
    const [verdict] = b.verdicts(operation, JSON.stringify(body))
    const plain = r => { const {__type, message, Message, ...rest} = JSON.parse(r.text); return JSON.stringify([r.status, __type?.split('#').pop(), message ?? Message, rest]) }
    if (verdict?.is === 'same') return plain(http) === plain(dax) ? 'same with a table' : 'other request with a table'
    return verdict?.is === 'client' ? 'client with a table' : verdict?.is ?? 'differs'
}
