// Package admission is the admission control of a server: it bounds the requests
// that are executed at once and the memory that their bodies and replies hold.
//
// Each bound has its own policy for overload:
//
//   - Slots bounds the requests that are executed at once, and the memory of
//     large ones, of which a Room is the part of one request: for the items that
//     it reads, for what it writes, and for its reply until that is sent. A
//     request that turns out to need more memory than is free has no effect, and
//     is repeated when there is enough. A request that waits too long is rejected
//     with a ThrottlingException, after which clients back off and retry. Rejections are delayed and rate-limited:
//     clients reconnect, and rejecting thousands at once would leave no time to
//     serve. A request that waits to be rejected stands behind all others, and
//     is still served if a slot is free.
//   - LargeBodies bounds the bodies of 256 KiB and more that are decoded at
//     once, on threads of low priority, so that small requests do not wait for
//     them. In the queue smaller bodies pass larger ones, which are queued as if
//     they had arrived later.
//   - Bodies bounds the memory of bodies that do not fit in the connection's
//     buffer, and of what compressed bodies are decoded into. Memory is reserved
//     as bytes arrive, not from Content-Length. When it runs out, the smallest
//     reservation is granted first, and load is shed: the largest bodies that
//     have been arriving for more than a second are evicted, and their requests
//     rejected.
//   - Replies are those that clients have yet to read. While requests wait for
//     memory, the connections of the largest replies that have been waiting for
//     more than a second are cut.
//
// Limits has the figures, which follow the memory of the process.
//
// The queues are not bounded in length, but in time: every waiter has a deadline.
package admission
