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
}

/**
 * A reply, and when its request was sent, by the clock of the browser.
 * @typedef {{reply: Response, began: number}} Sent
 */

/** @returns {Promise<Sent>} */
async function send(path, method, mode, options = {}) {
  const began = Date.now();
  const reply = await fetch(address + path, {
    ...options,
    method,
    headers: { "X-Stator-Console": mode, "X-Stator-Session": pageSecret(), ...options.headers },
  });
  return { reply, began };
}

/** Sends an operation. mode is "write" while changes are switched on, or else "read". */
export function sendOperation(target, body, mode, abort) {
  const asked = early(target + body);
  if (asked) return asked;
  return send("", "POST", mode, { headers: { "X-Amz-Target": target }, body, signal: abort });
}

/** Reads (GET), begins (POST) or ends (DELETE) the session. */
export function sendSession(method, mode, credentials) {
  if (method === "GET") {
    const asked = early("session");
    if (asked) return asked;
  }
  return send("/session", method, mode, credentials && { body: JSON.stringify(credentials) });
}

/** @type {Map<string, Promise<Sent>>} */
const asked = new Map();

/** Takes the reply to an early request, once. */
function early(request) {
  const reply = asked.get(request);
  asked.delete(request);
  return reply;
}

/** Forgets the early requests whose replies nobody has taken. */
export const forgetEarly = () => asked.clear();

const earlyDescriptions = 4;

/** Asks for what the list of tables shows first: the session, the names, some descriptions. */
async function askEarly() {
  const ask = async (request, reply) => {
    asked.set(request, reply);
    return (await reply).reply.clone().json();
  };
  const operation = (name, input) => {
    const target = "DynamoDB_20120810." + name, body = JSON.stringify(input);
    return ask(target + body, send("", "POST", "read", { headers: { "X-Amz-Target": target }, body }));
  };
  const session = ask("session", send("/session", "GET", "read"));
  const signedIn = document.documentElement.dataset.signIn === "none" || pageSecret();
  if (!signedIn || !/^(#\/?(tables)?)?$/.test(location.hash)) return session;
  const { TableNames: names } = await operation("ListTables", {});
  await Promise.all(names.slice(0, earlyDescriptions).map((name) => operation("DescribeTable", { TableName: name })));
}

askEarly().catch(() => {}); // whoever takes a reply sees its error
setTimeout(forgetEarly, 5000); // later replies would be old
