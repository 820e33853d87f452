// The clock of the endpoint. That of the browser may be wrong, and a test may have set that of the server.

const tolerance = 2000; // milliseconds that the network, and times in whole seconds, explain

let ahead = 0; // milliseconds that the endpoint is ahead of the browser
let last = 0; // when the request was sent whose reply has told that

/**
 * Takes the time that the endpoint had when it received a request.
 * @param {number} at milliseconds since 1970; 0 if it is not known
 * @param {number} began when the request was sent, by the clock of the browser
 * @param {number} arrived when the reply arrived, by that clock
 */
export function setClock(at, began, arrived) {
  if (!at || began < last) return; // a slow reply is older than what is known
  last = began;
  ahead = at < began - tolerance || at > arrived + tolerance ? at - began : 0;
}

/** The time of the endpoint, in milliseconds since 1970. */
export const endpointNow = () => Date.now() + ahead;
