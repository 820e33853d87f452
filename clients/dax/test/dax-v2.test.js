// The client of DAX for the AWS SDK for JavaScript v2.

import {after} from 'node:test'
import {createRequire} from 'node:module'
import {suite} from '../suite.js'
import {dax} from '../tables.js'

const AmazonDaxClient = createRequire(import.meta.url)('amazon-dax-client')
const client = new AmazonDaxClient({endpoints: [dax.endpoint], region: dax.region})
suite('amazon-dax-client', 'OrdersV2', (operation, input) => client[operation](input).promise())
after(() => setImmediate(() => process.exit())) // the client has no method that ends its timers
