// What the tests of the DAX clients share: a table, and the addresses of the server.

import {CreateTableCommand, DynamoDBClient} from '@aws-sdk/client-dynamodb'

export const dax = {endpoint: process.env.DAX_ENDPOINT, region: process.env.AWS_REGION}

// makeTable creates a table with a partition key customerId and a sort key orderId. DAX does not
// create tables: that needs a client of DynamoDB.
export async function makeTable(TableName) {
    await new DynamoDBClient().send(new CreateTableCommand({
        TableName,
        BillingMode: 'PAY_PER_REQUEST',
        AttributeDefinitions: ['customerId', 'orderId', 'status'].map(AttributeName => ({AttributeName, AttributeType: 'S'})),
        KeySchema: [{AttributeName: 'customerId', KeyType: 'HASH'}, {AttributeName: 'orderId', KeyType: 'RANGE'}],
        GlobalSecondaryIndexes: [{IndexName: 'byStatus', KeySchema: [{AttributeName: 'status', KeyType: 'HASH'}, {AttributeName: 'orderId', KeyType: 'RANGE'}], Projection: {ProjectionType: 'ALL'}}],
    }))
}
