// The suite of dynogels has a fixed endpoint, localhost:8000. This replaces it.

const AWS = require('aws-sdk')
const helper = require('dynogels/test/test-helper')

helper.realDynamoDB = () => new AWS.DynamoDB({
    endpoint: process.env.AWS_ENDPOINT_URL, apiVersion: '2012-08-10', region: process.env.AWS_REGION,
})
