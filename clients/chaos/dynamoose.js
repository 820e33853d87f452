// Each item that Model.create resolves for exists once; a create of a new item must not fail.
const dynamoose = require('dynamoose')
dynamoose.aws.ddb.local(process.env.AWS_ENDPOINT_URL)
async function main() {
  const Item = dynamoose.model('Items', new dynamoose.Schema({ id: String, n: Number }), { throughput: 'ON_DEMAND' })
  for (let i = 0; i < 20; i++) await Item.create({ id: 'item-' + i, n: i })
}
main().catch(e => { console.error('creating a new item failed:', e.name, e.message); process.exit(1) })
