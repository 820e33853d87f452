// The client of DAX for the AWS SDK for JavaScript v3.

import {after} from 'node:test'
import {createRequire} from 'node:module'
import {suite} from '../suite.js'
import {dax} from '../tables.js'

const {Dax} = createRequire(import.meta.url)('@amazon-dax-sdk/client-dax')
const client = new Dax(dax)
suite('client-dax', 'OrdersV3', (operation, input) => client[operation](input))
after(() => setImmediate(() => process.exit())) // the client has no method that ends its timers
