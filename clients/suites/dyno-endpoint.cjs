// One test of dyno wants a table in AWS itself. This makes AWS_ENDPOINT_URL the endpoint of
// every client that names none; the AWS SDK v2 does not read it.

const AWS = require('aws-sdk')

const initialize = AWS.Service.prototype.initialize
AWS.Service.prototype.initialize = function (config) {
    initialize.call(this, {...config, endpoint: config?.endpoint ?? process.env.AWS_ENDPOINT_URL})
}
