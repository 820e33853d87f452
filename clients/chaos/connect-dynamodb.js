// A session that is extended before it expires is not removed by the cleaning of expired ones.
const session = require('express-session')
const Store = require('connect-dynamodb')(session)
const { DynamoDB } = require('@aws-sdk/client-dynamodb')
const wait = ms => new Promise(ok => setTimeout(ok, ms))
const call = (store, method, ...args) => new Promise((ok, no) => store[method](...args, (e, v) => e ? no(e) : ok(v)))
async function main() {
  const store = new Store({ table: 'sessions', client: new DynamoDB({}) })
  await store.createTableIfDontExists?.()
  await call(store, 'set', 'sid', { cookie: { maxAge: 2000 }, user: 'ann' })
  await wait(1500)
  await call(store, 'touch', 'sid', { cookie: { maxAge: 3600000 } })
  await wait(2600)
  await call(store, 'reap')
  const found = await call(store, 'get', 'sid')
  if (!found || found.user !== 'ann') throw new Error('the session is lost: ' + JSON.stringify(found))
}
main().then(() => process.exit(0), e => { console.error(e.message); process.exit(1) })
