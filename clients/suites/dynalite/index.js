// The suite of dyno starts the server dynalite on a fixed port of this machine. This package
// takes its place: it passes what arrives at that port on to the server at AWS_ENDPOINT_URL.

const net = require('net')

module.exports = () => {
    const {hostname, port} = new URL(process.env.AWS_ENDPOINT_URL)
    return net.createServer(client => {
        const server = net.connect(Number(port), hostname)
        client.pipe(server).pipe(client)
        client.on('error', () => server.destroy())
        server.on('error', () => client.destroy())
    })
}
