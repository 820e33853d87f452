// Sends requests to the console. The first requests of the page are sent from here, while the browser still reads the modules that show their replies.
// It imports nothing, so that it need not wait for another file.

/** Settings of this browser, and the secret of its session. They never hold keys or data. */
export function stored(name) {
  try {
    return localStorage.getItem("stator-" + name);
  } catch {
    return null;
  }
}

export function store(name, value) {
  try {
    localStorage.setItem("stator-" + name, value);
  } catch {
    // a browser without storage forgets settings
  }
}

const address = new URL("api", new URL(".", location.href)).href;

// The secret of the session that the page keeps. The cookie has the other one, but browsers send that to
// the servers of all ports of a host; what is stored is for the port of this page alone.
let secret = "";
const pageSecret = () => stored("session") ?? secret;

export function keepSecret(text) {
  secret = text;
  store("session", text);
  endEarly();
}

/**
 * A reply, and when its request was sent and the reply arrived, by the clock of the browser.
 * @typedef {{reply: Response, began: number, arrived: number}} Sent
 */

/** @returns {Promise<Sent>} */
async function send(path, method, mode, options = {}) {
  const began = Date.now();
  const reply = await fetch(address + path, {
    ...options,
    method,
    headers: { "X-Stator-Console": mode, "X-Stator-Session": pageSecret(), ...options.headers },
  });
  return { reply, began, arrived: Date.now() };
}

/** Sends an operation. mode is "write" while changes are switched on, or else "read". */
export const sendOperation = (target, body, mode, abort) =>
  take(target + body) ?? send("", "POST", mode, { headers: { "X-Amz-Target": target }, body, signal: abort });

/** Reads (GET), begins (POST) or ends (DELETE) the session. */
export const sendSession = (method, mode, credentials) =>
  take(method) ?? send("/session", method, mode, credentials && { body: JSON.stringify(credentials) });

/**
 * Early requests whose replies were not taken yet; null when there are no more.
 * @type {null | Map<string, Promise<Sent>>}
 */
let early = new Map();

/** Takes the reply to an early request. It is there once. */
function take(request) {
  const sent = early?.get(request);
  early?.delete(request);
  return sent;
}

function keep(request, sent) {
  sent.catch(() => {}); // whoever takes it has the error
  early?.set(request, sent);
}

/** Ends the early requests: their replies would be old, or for somebody else. */
export const endEarly = () => (early = null);

const describedEarly = 4;

/** Asks for what the list of tables shows first: the session, the names, and some descriptions. */
function askEarly() {
  const operation = (name, input, then = (sent) => sent) => {
    const target = "DynamoDB_20120810." + name, body = JSON.stringify(input);
    keep(target + body, send("", "POST", "read", { headers: { "X-Amz-Target": target }, body }).then(then));
  };
  keep("GET", send("/session", "GET", "read"));
  const signedIn = document.documentElement.dataset.signIn === "none" || pageSecret();
  if (!signedIn || !/^(#\/?(tables)?)?$/.test(location.hash)) return;
  operation("ListTables", {}, async (sent) => {
    // Before somebody has the names, so that no description is asked for twice.
    const { TableNames: names = [] } = await sent.reply.clone().json().catch(() => ({}));
    if (early) names.slice(0, describedEarly).forEach((name) => operation("DescribeTable", { TableName: name }));
    return sent;
  });
}

askEarly();
