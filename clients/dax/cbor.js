// Reads the CBOR of the protocol of DAX, for comparisons: it shares no code with the server or a client.
//
// Integers are BigInt, floating-point numbers {float}, maps arrays of pairs in {map}, tagged values {tag, value}.

// incomplete is thrown if bytes are missing.
export const incomplete = new Error('the value is not complete')

// read returns the value at an offset, and the offset after it.
export function read(b, at = 0) {
    if (at >= b.length) throw incomplete
    const major = b[at] >> 5, info = b[at] & 31
    if (major === 7) return simple(b, at, info)
    if (info === 31) return indefinite(b, at + 1, major)
    const [n, from] = argument(b, at, info)
    switch (major) {
    case 0: return [n, from]
    case 1: return [-1n - n, from]
    case 2: case 3: {
        const to = from + Number(n)
        if (to > b.length) throw incomplete
        return [text(major, b.subarray(from, to)), to]
    }
    case 4: return many(b, from, Number(n))
    case 5: {
        const [list, to] = many(b, from, 2 * Number(n))
        return [pairs(list), to]
    }
    default: {
        const [value, to] = read(b, from)
        return [{tag: Number(n), value}, to]
    }
    }
}

function argument(b, at, info) {
    if (info < 24) return [BigInt(info), at + 1]
    const size = 1 << (info - 24)
    if (info > 27) throw new Error(`byte ${b[at]} is not CBOR`)
    if (at + 1 + size > b.length) throw incomplete
    let n = 0n
    for (const byte of b.subarray(at + 1, at + 1 + size)) n = n << 8n | BigInt(byte)
    return [n, at + 1 + size]
}

function simple(b, at, info) {
    switch (info) {
    case 20: return [false, at + 1]
    case 21: return [true, at + 1]
    case 22: case 23: return [null, at + 1]
    case 26: case 27: {
        const to = at + (info === 26 ? 5 : 9)
        if (to > b.length) throw incomplete
        return [{float: info === 26 ? b.readFloatBE(at + 1) : b.readDoubleBE(at + 1)}, to]
    }
    }
    throw new Error(`byte ${b[at]} is not expected`)
}

function indefinite(b, at, major) {
    const list = []
    while (b[at] !== 0xff) {
        const [value, to] = read(b, at)
        list.push(value)
        at = to
    }
    switch (major) {
    case 2: return [Buffer.concat(list), at + 1]
    case 3: return [list.join(''), at + 1]
    case 4: return [list, at + 1]
    case 5: return [pairs(list), at + 1]
    }
    throw new Error(`major type ${major} has no indefinite length`)
}

function many(b, at, n) {
    const list = []
    for (let i = 0; i < n; i++) {
        const [value, to] = read(b, at)
        list.push(value)
        at = to
    }
    return [list, at]
}

const text = (major, bytes) => major === 2 ? Buffer.from(bytes) : bytes.toString('utf8')
const pairs = list => ({map: Array.from({length: list.length / 2}, (_, i) => [list[2 * i], list[2 * i + 1]])})

// whole returns the value of bytes that are one value.
export function whole(b) {
    const [value, to] = read(b)
    if (to !== b.length) throw new Error(`${b.length - to} bytes follow a value`)
    return value
}

// head returns the beginning of a value: a major type and a number below 65,536.
export function head(major, n) {
    return n < 24 ? Buffer.from([major << 5 | n]) : n < 256 ? Buffer.from([major << 5 | 24, n]) : Buffer.from([major << 5 | 25, n >> 8, n & 255])
}
